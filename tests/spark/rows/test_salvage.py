"""Batches believed in a damaged chunk, against the real damage."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.rows.salvage import salvage
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records


def chunk(*bases: int, count: int = 3) -> tuple[bytes, list[int]]:
    """Batches of ``count`` records at these offsets, and where each begins."""
    data, positions = b"", []
    for base in bases:
        positions.append(len(data))
        made = [Record(base + i, 1_000, b"k", b"value of %d" % (base + i)) for i in range(count)]
        data += bytes(build_batch(made, leader_epoch=0))
    return data, positions


def spoiled(data: bytes, *positions: int) -> bytes:
    """``data`` with the bytes at these positions changed."""
    changed = bytearray(data)
    for position in positions:
        changed[position] ^= 0x55
    return bytes(changed)


def records(data: bytes, found: list[tuple[int, int]]) -> list[Record]:
    return [
        record
        for start, end in found
        for position, _ in iter_headers(data, start, end)
        for record in iter_records(data, position)
    ]


def offsets(data: bytes, found: list[tuple[int, int]]) -> list[int]:
    return [record.offset for record in records(data, found)]


def test_one_damaged_batch_is_reported_and_no_other_is_lost() -> None:
    """Its offsets, its bytes and why; the batches around it are two runs."""
    data, positions = chunk(0, 3, 6, 9)
    found = salvage(spoiled(data, positions[2] + 70), 0, 12)
    assert found.intact == [(0, positions[2]), (positions[3], len(data))]
    ((start, end, position, length, reason),) = found.damaged
    assert (start, end, position, length) == (6, 9, positions[2], positions[3] - positions[2])
    assert "CRC" in reason


@pytest.mark.parametrize("byte", [8, 9, 10, 11])
def test_a_damaged_length_does_not_hide_the_next_batch(byte: int) -> None:
    """It is found by its bytes."""
    data, positions = chunk(0, 3, 6)
    found = salvage(spoiled(data, positions[1] + byte), 0, 9)
    assert offsets(data, found.intact) == [0, 1, 2, 6, 7, 8]
    assert [(part.start_offset, part.end_offset) for part in found.damaged] == [(3, 6)]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_unconfirmed_base_offset_is_not_believed(index: int) -> None:
    """Though the CRC of the batch holds, which does not cover it."""
    data, positions = chunk(10, 13, 16)
    found = salvage(spoiled(data, positions[index] + 7), 10, 19)
    assert offsets(data, found.intact) == [o for o in range(10, 19) if (o - 10) // 3 != index]
    ((start, end, *_),) = found.damaged
    assert (start, end) == (10 + 3 * index, 13 + 3 * index)


def test_damage_over_a_border_costs_both_batches() -> None:
    """The second one's CRC holds, but no batch behind it confirms where it begins."""
    data, positions = chunk(0, 3, 100)
    found = salvage(spoiled(data, positions[1] - 1, positions[1] + 7), 0, 103)
    assert offsets(data, found.intact) == [100, 101, 102]
    assert [(part.start_offset, part.end_offset) for part in found.damaged] == [(0, 100)]


def test_damage_that_no_row_feels_costs_nothing() -> None:
    """A leader epoch is neither in the CRC nor in a row."""
    data, positions = chunk(0, 3)
    assert salvage(spoiled(data, positions[1] + 13), 0, 6) == ([(0, len(data))], [])


def test_a_chunk_of_rubbish_is_one_damaged_part() -> None:
    """With all offsets it should have held."""
    found = salvage(bytes(500), 7, 50)
    assert found.intact == []
    assert [part[:4] for part in found.damaged] == [(7, 50, 0, 500)]
    assert salvage(b"", 0, 0) == ([], [])


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    hits=st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 40)), min_size=1, max_size=3),
    junk=st.binary(min_size=40, max_size=40),
)
def test_every_byte_is_either_intact_or_told(counts: list[int], hits: list[tuple[float, int]], junk: bytes) -> None:
    """Kept records are written ones, under their own offsets, and the rest is reported."""
    data, base = b"", 0
    for count in counts:
        data += chunk(base, count=count)[0]
        base += count
    broken = bytearray(data)
    for where, length in hits:
        at = int(where * len(data))
        broken[at : at + length] = junk[: min(length, len(data) - at)]
    found = salvage(bytes(broken), 0, base)
    kept = records(bytes(broken), found.intact)
    believed = {record.offset for record in kept}
    assert kept == [record for record in records(data, [(0, len(data))]) if record.offset in believed]
    lost = [o for part in found.damaged for o in range(part.start_offset, part.end_offset)]
    assert sorted([*believed, *lost]) == list(range(base))
    spans = sorted([*found.intact, *((p.position, p.position + p.length) for p in found.damaged)])
    assert spans[0][0] == 0
    assert spans[-1][1] == len(data)
    assert all(a[1] == b[0] for a, b in pairwise(spans))
