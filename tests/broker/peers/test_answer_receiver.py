"""Answers in what a connection receives."""

import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.broker.peers.answer_receiver import BASE_BYTES, LAZY_BYTES, AnswerReceiver
from stratalog.wire.frame import FrameError

MIB = 1 << 20


def framed(*payloads):
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(receiver, data, sizes):
    """The frames in ``data``, which comes in pieces of these sizes, the last of them again and again."""
    frames, position, turn = [], 0, 0
    while position < len(data):
        room = receiver.writable()
        assert len(room) > 0
        count = min(sizes[min(turn, len(sizes) - 1)], len(room), len(data) - position)
        room[:count] = data[position : position + count]
        frames += receiver.received(count)
        position += count
        turn += 1
    return frames


SIZES = st.one_of(st.integers(4, 40), st.integers(BASE_BYTES - 20, BASE_BYTES + 20), st.integers(200_000, 300_000))


@settings(max_examples=25, deadline=None)
@given(st.lists(SIZES, max_size=5), st.lists(st.sampled_from([1, 3, 7, 1000, BASE_BYTES, MIB]), min_size=1, max_size=8))
def test_frames_are_found_however_they_come(lengths, sizes):
    """In pieces of any size, small and large by turns, and they stay as they are when more comes."""
    payloads = [bytes([number + 1]) * length for number, length in enumerate(lengths)]
    sizes = [*sizes, max(sizes[-1], 1000)]
    assert feed(AnswerReceiver(MIB), framed(*payloads), sizes) == payloads


def test_a_large_frame_is_received_where_it_lies():
    """All but its beginning goes straight to the memory of the answer."""
    receiver = AnswerReceiver(10 * MIB)
    data = framed(bytes(3 * MIB))
    room = receiver.writable()
    room[:1000] = data[:1000]
    assert list(receiver.received(1000)) == []
    room = receiver.writable()
    assert len(room) == 3 * MIB + 4 - 1000
    room[:] = data[1000:]
    room[-1] = 7
    assert list(receiver.received(len(room) - 1)) == [], "the last byte is missing"
    assert len(receiver.writable()) == 1
    (frame,) = receiver.received(1)
    assert frame.obj is room.obj
    assert frame[-1] == 7


def test_a_length_that_is_only_declared_costs_little():
    """Memory of a large answer is given page by page, as it comes."""
    receiver = AnswerReceiver(1 << 30)
    head = struct.pack(">i", 1 << 30)
    before = resident_bytes()
    tracemalloc.start()
    try:
        receiver.writable()[:4] = head
        assert list(receiver.received(4)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(receiver.writable()) == 1 << 30
    assert peak < LAZY_BYTES
    assert resident_bytes() - before < 64 * MIB


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, 1001, 2**31 - 1])
def test_a_length_that_no_answer_has_is_refused(length):
    """Less than a correlation id, or more than may be; frames before it are given out."""
    receiver = AnswerReceiver(1000)
    data = framed(b"good") + struct.pack(">i", length)
    receiver.writable()[: len(data)] = data
    frames = receiver.received(len(data))
    assert next(frames) == b"good"
    with pytest.raises(FrameError, match=f"{length} bytes"):
        next(frames)


def test_the_largest_answer_is_taken():
    """The bound itself is allowed."""
    assert feed(AnswerReceiver(1000), framed(bytes(1000)), [100]) == [bytes(1000)]
