"""Starts of records found by guesses are those of the chain of lengths, whatever the bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.rows.starts import append_record_starts, record_starts
from stratalog.wire.errors import Corrupt

HEADER_BYTES = 61


def prefix(length: int) -> bytes:
    """The zigzag varint of a record's length."""
    number = length << 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def batches(lengths: list[list[int]]) -> tuple[bytes, list[tuple[int, int]], list[int]]:
    """Records of these lengths with a header's bytes before each batch, bounds and counts."""
    payload = bytearray()
    bounds = []
    for batch in lengths:
        payload += b"\xaa" * HEADER_BYTES
        start = len(payload)
        for length in batch:
            payload += prefix(length) + bytes(length)
        bounds.append((start, len(payload)))
    return bytes(payload), bounds, [len(batch) for batch in lengths]


def chain(payload: bytes, bounds: list[tuple[int, int]], counts: list[int]) -> list[int] | None:
    """The starts step by step; None if the chain does not fit the batches."""
    starts: list[int] = []
    for (start, end), count in zip(bounds, counts, strict=True):
        try:
            if append_record_starts(payload, start, count, starts) != end:
                return None
        except IndexError:
            return None
    return starts


def found(payload: bytes, bounds: list[tuple[int, int]], counts: list[int]) -> list[int] | None:
    """Result of `record_starts`; None if it refuses."""
    try:
        starts = record_starts(payload, bounds, counts)
    except (Corrupt, IndexError):
        return None
    assert starts.dtype == np.int64
    return starts.tolist()


@pytest.mark.story
@given(st.lists(st.sampled_from([6, 63, 64, 127, 8191, 8192, 20_000]), max_size=20), st.integers(0, 3))
def test_record_starts_follow_the_length_prefixes(lengths: list[int], before: int) -> None:
    """Lengths of one, two and three bytes all lead to the next record."""
    payload = bytes(before)
    expected = []
    for length in lengths:
        expected.append(len(payload))
        payload += prefix(length) + bytes(length)
    starts: list[int] = []
    assert append_record_starts(payload, before, len(lengths), starts) == len(payload)
    assert starts == expected


runs = st.tuples(st.sampled_from([6, 7, 63, 64, 65, 100, 300, 8192]), st.sampled_from([1, 2, 31, 33, 200, 700]))
contents = st.lists(st.lists(runs, min_size=1, max_size=6), min_size=1, max_size=3).map(
    lambda drawn: [[length for length, times in batch for _ in range(times)] for batch in drawn]
)


@pytest.mark.story
@given(contents)
def test_whole_batches_give_the_starts_of_their_chain(lengths: list[list[int]]) -> None:
    """Long runs, short runs and none: the same starts."""
    payload, bounds, counts = batches(lengths)
    expected = chain(payload, bounds, counts)
    assert expected is not None
    assert found(payload, bounds, counts) == expected


@pytest.mark.story
@given(contents, st.data())
def test_damaged_batches_give_the_chain_or_an_error(lengths: list[list[int]], choice: st.DataObject) -> None:
    """Rubbish anywhere, wrong counts and wrong borders: never another answer than the chain's."""
    payload, bounds, counts = batches(lengths)
    rubbish = choice.draw(st.binary(max_size=4))
    at = choice.draw(st.sampled_from(chain(payload, bounds, counts) or [0])) + choice.draw(st.integers(-3, 3))
    damaged = payload[:at] + rubbish + payload[at + len(rubbish) :]
    counts[-1] = max(1, counts[-1] + choice.draw(st.sampled_from([0, 0, 0, -1, 1, 40])))
    start, end = bounds[-1]
    bounds[-1] = (start, end - choice.draw(st.sampled_from([0, 0, 0, 1, 9])))
    assert found(damaged, bounds, counts) == chain(damaged, bounds, counts)


@pytest.mark.parametrize("odd", [[], [0], [3, 7], list(range(6)), list(range(8))])
def test_small_batches_are_compared_at_once(odd: list[int]) -> None:
    """Those whose records are not equally long are followed; also where two of them fill the batch by chance."""
    lengths = [[9, 11, 10, 10] if number in odd else [300 + number] * (5 + number) for number in range(8)]
    payload, bounds, counts = batches(lengths)
    assert found(payload, bounds, counts) == chain(payload, bounds, counts)
    counts[4] += 1
    assert found(payload, bounds, counts) is None


def test_lengths_that_change_each_time_are_followed() -> None:
    """A batch without runs is no reason for another answer."""
    payload, bounds, counts = batches([[6 + index % 97 for index in range(3000)], [50] * 500])
    assert found(payload, bounds, counts) == chain(payload, bounds, counts)


@pytest.mark.parametrize("count", [3, 1 << 40])
def test_a_count_that_cannot_be_true_is_refused_at_once(count: int) -> None:
    """More records than seven bytes each leave room for never become memory."""
    with pytest.raises(Corrupt, match="claims"):
        record_starts(bytes(20), [(0, 20)], [count])


def test_records_that_end_before_their_batch_are_corrupt() -> None:
    """Bytes behind the last record are no part of any."""
    payload, ((start, end),), _ = batches([[10] * 300])
    with pytest.raises(Corrupt, match="exactly"):
        record_starts(payload, [(start, end)], [299])
