"""Tests of hot/recovery/clean_tail.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.clean_tail import end_of_clean_tail


@pytest.fixture
def active(bench):
    """An active segment of six batches of one record, with index entries, closed in order."""
    log = bench.open(LogConfig(index_interval_bytes=300))
    for _ in range(6):
        bench.append(log)
    segment = log._segments.active
    log.close()
    return segment


def spoil(segment, position: int, bit: int = 1) -> None:
    path = Path(segment.path())
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


def test_the_end_is_behind_the_last_batch(bench, active):
    """With and without an index."""
    assert end_of_clean_tail(bench.files, active, 0) == 6
    Path(active.path(".index")).unlink()
    assert end_of_clean_tail(bench.files, active, 0) == 6


def test_a_last_batch_with_a_wrong_crc_gives_no_end(bench, active):
    """How many offsets it takes is known from itself alone."""
    size_bytes = active.size_bytes // 6
    spoil(active, 5 * size_bytes + 26)
    assert end_of_clean_tail(bench.files, active, 0) is None


def test_a_gap_is_accepted_where_the_cleaner_was(bench, active):
    """A base offset of 13 where 5 is due."""
    size_bytes = active.size_bytes // 6
    spoil(active, 5 * size_bytes + 7, 8)
    assert end_of_clean_tail(bench.files, active, 0) is None
    assert end_of_clean_tail(bench.files, active, 13) == 14


def test_an_index_that_leads_astray_is_not_followed(bench, active):
    """Its last entry points into the middle of a batch."""
    path = Path(active.path(".index"))
    data = path.read_bytes()
    assert len(data) >= 8
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert end_of_clean_tail(bench.files, active, 0) is None
