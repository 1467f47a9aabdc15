import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.frame import (
    FrameError,
    ResponseQueue,
    ResponseSlot,
    check_frame_length,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    read_length,
    request_code,
    skip_tagged_fields,
)
from stratalog.wire.parts import FileSlice

INT16 = st.integers(0, 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@given(INT16, INT16, INT32, st.none() | st.text(max_size=40), st.booleans(), st.binary(max_size=30))
def test_request_headers_round_trip(api_key, version, correlation_id, client_id, flexible, body):
    """A request that was encoded decodes to the same header, and its body begins where it says."""
    parts = encode_request(api_key, version, correlation_id, client_id, [body], flexible=flexible)
    data = b"".join(parts)
    (length,) = read_length(data, 0)
    assert length == len(data) - 4
    frame = memoryview(data)[4:]
    header = decode_request_header(frame, flexible=flexible)
    assert header[:4] == (api_key, version, correlation_id, client_id)
    assert frame[header.body_position :] == body


@given(INT32, st.booleans(), st.lists(st.binary(max_size=20), max_size=3))
def test_responses_round_trip(correlation_id, flexible, bodies):
    """Length, correlation id and, in flexible versions, an empty tag section stand in front of the parts."""
    data = b"".join(encode_response(correlation_id, list(bodies), flexible=flexible))
    assert read_length(data, 0) == (len(data) - 4,)
    found, position = decode_response_header(memoryview(data)[4:], flexible=flexible)
    assert (found, data[4 + position :]) == (correlation_id, b"".join(bodies))


def test_a_response_may_begin_with_a_file_slice():
    """The head is a part of its own then, and the slice's length counts."""
    with Path("/dev/null").open() as file:
        piece = FileSlice(file, 5, 1000)
        assert encode_response(7, [piece], flexible=False) == [struct.pack(">ii", 1004, 7), piece]


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_decode_or_raise_frame_error(data, flexible):
    """Garbage where a header should be is a FrameError or a header, never another exception."""
    try:
        header = decode_request_header(memoryview(data), flexible=flexible)
    except FrameError:
        return
    assert 10 <= header.body_position <= len(data)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (-1, "negative"),
        (-(2**31), "negative"),
        (0, "fewer"),
        (9, "fewer"),
        (1001, "above the limit of 1000"),
        (2**31 - 1, "above"),
    ],
)
def test_impossible_lengths_are_refused(length, words):
    """Negative, tiny and too large lengths are named as what they are."""
    with pytest.raises(FrameError, match=words):
        check_frame_length(length, 1000)


def test_possible_lengths_pass():
    """The smallest header and the limit itself are accepted."""
    check_frame_length(10, 1000)
    check_frame_length(1000, 1000)


def test_a_client_id_that_leaves_the_frame_or_is_no_utf8_is_refused():
    """A header is never read beyond its frame."""
    head = struct.pack(">hhi", 1, 2, 3)
    with pytest.raises(FrameError, match="declares 5 bytes"):
        decode_request_header(memoryview(head + struct.pack(">h", 5) + b"abcd"), flexible=False)
    with pytest.raises(FrameError, match="UTF-8"):
        decode_request_header(memoryview(head + struct.pack(">h", 2) + b"\xc3\x28"), flexible=False)
    with pytest.raises(FrameError, match="declares 32767"):
        decode_request_header(memoryview(head + struct.pack(">h", 32767) + bytes(32767)), flexible=False)


def test_unknown_tagged_fields_are_skipped():
    """Unknown tags end where their sizes say."""
    tags = bytes([2, 0, 3]) + b"abc" + bytes([0x81, 0x01, 0]) + b"body"
    assert tags[skip_tagged_fields(memoryview(tags), 0) :] == b"body"


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (b"\xc0\x84\x3d", "1000000 tagged fields"),
        (b"\x41", "65 tagged fields"),
        (b"", "does not end"),
        (b"\x80", "does not end"),
        (b"\xff\xff\xff\xff\xff\x01", "does not end"),
        (b"\x01\x00\x7f", "leaves the request header"),
        (b"\x02\x00\x01a", "does not end"),
    ],
)
def test_hostile_tag_sections_are_refused(tags, words):
    """A million tags, endless numbers and sizes beyond the frame are errors, found without work (CVE-2026-111115)."""
    with pytest.raises(FrameError, match=words):
        skip_tagged_fields(memoryview(tags), 0)


def test_a_tag_section_may_not_be_large():
    """The header has a size limit of its own, however large the frame is."""
    tags = bytes([1, 0]) + b"\x88\x27" + bytes(5000)  # one tag of 5000 bytes
    with pytest.raises(FrameError, match="leaves"):
        skip_tagged_fields(memoryview(tags), 0)


def test_request_codes_are_the_first_four_bytes_of_a_request():
    """The number that dispatch looks up is what stands on the wire, also for negative keys."""
    for api_key, version in ((0, 0), (1, 17), (18, 4), (-1, -1)):
        assert struct.pack(">I", request_code(api_key, version)) == struct.pack(">hh", api_key, version)


@given(st.permutations(range(6)))
def test_answers_leave_in_the_order_of_requests_whatever_the_order_of_completion(completions):
    """Each answer waits for all earlier ones; in the end all have left, in order."""
    queue = ResponseQueue()
    slots = [ResponseSlot() for _ in range(6)]
    for slot in slots:
        queue.append(slot)
    out = []
    done = set()
    for index in completions:
        slots[index].parts = [bytes([index])]
        done.add(index)
        queue.take_ready(out)
        expected = 0
        while expected in done:
            expected += 1
        assert out == [bytes([number]) for number in range(expected)]
    assert not queue


def test_an_answer_without_bytes_delays_no_other():
    """An empty answer (acks=0) counts as given."""
    queue = ResponseQueue()
    for parts in ([], [b"b"], None):
        slot = ResponseSlot()
        slot.parts = parts
        queue.append(slot)
    out = []
    queue.take_ready(out)
    assert out == [b"b"]
    assert len(queue.take_all()) == 1
    assert not queue


def test_short_response_frames_are_refused():
    """A response that ends inside its header is an error for readers of answers."""
    with pytest.raises(FrameError):
        decode_response_header(memoryview(b"abc"), flexible=False)
    with pytest.raises(FrameError):
        decode_response_header(memoryview(b"abcd"), flexible=True)


def test_an_answer_that_has_left_keeps_nothing_of_its_parts():
    """A leftover reference to its request, a cycle for instance, must not keep the files of the parts open."""
    queue, slot, out = ResponseQueue(), ResponseSlot(), []
    queue.append(slot)
    slot.parts = [b"x"]
    queue.take_ready(out)
    assert (out, slot.parts) == ([b"x"], [])
