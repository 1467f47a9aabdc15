"""Tests of hot/recovery/set_aside.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.wire.batch import iter_headers

CONFIG = LogConfig(index_interval_bytes=400)


@pytest.fixture
def log(bench):
    """Segments [0,10) [10,20) [20,30) and an active one."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    bench.append(log, 2)
    log.write_queued()
    return log


def path(bench, base, suffix=".log"):
    return Path(f"{bench.directory}/{base:020d}{suffix}")


def flip(bench, base, batch, at=70):
    data = bytearray(path(bench, base).read_bytes())
    position = [position for position, _ in iter_headers(data)][batch]
    data[position + at] ^= 1
    path(bench, base).write_bytes(data)
    return position


def damage(bench, base, position):
    return UnreadableBatch(str(path(bench, base)), position, "seen")


@pytest.mark.parametrize("batch", [0, 1, 3, 4])
@pytest.mark.parametrize("index", [True, False])
def test_sound_batches_before_the_damage_stay(bench, log, batch, index):
    """By the last index entry before it, or from the beginning."""
    position = flip(bench, 10, batch)
    if not index:
        path(bench, 10, ".index").unlink()
    missing = log.set_aside(damage(bench, 10, position))
    assert (missing.base_offset, missing.end_offset) == (10 + 2 * batch, 20)
    assert "crc" in missing.why.lower()
    read = log.read(0, max_bytes=1 << 20, max_offset=30)
    assert read.next_offset == 10 + 2 * batch
    assert [header.base_offset for _, header in iter_headers(bench.content(read))] == list(range(0, 10 + 2 * batch, 2))
    with pytest.raises(MissingRange):
        log.read(19, max_bytes=1 << 20, max_offset=30)
    assert log.read(20, max_bytes=1 << 20, max_offset=30).next_offset == 30
    assert log.timestamp_search(0, 20, max_offset=30) is not None


def test_damage_before_the_place_where_a_reader_noticed_counts(bench, log):
    """A length that changed shows at some later position, where no header is."""
    position = flip(bench, 10, 3, at=11)
    missing = log.set_aside(damage(bench, 10, position + 90))
    assert missing.base_offset == 16


def test_an_undamaged_segment_is_not_set_aside(bench, log):
    """An active segment, and one that is aside already, are not set aside either."""
    assert log.set_aside(damage(bench, 10, 0)) is None
    assert log.set_aside(damage(bench, 30, 0)) is None
    assert log.set_aside(damage(bench, 99, 0)) is None
    position = flip(bench, 10, 0)
    assert log.set_aside(damage(bench, 10, position)) is not None
    assert log.set_aside(damage(bench, 10, position)) is None
    assert len(log.missing_ranges()) == 1


@pytest.mark.parametrize("left", [None, 0, 100, 3])
def test_a_file_that_is_cut_while_the_log_is_open_is_noticed_when_it_is_opened(bench, log, left):
    """Or gone: a reader gets no part of a batch."""
    log._parts.place.cache.drop(log._segments[1])
    if left is None:
        path(bench, 10).unlink()
    else:
        data = path(bench, 10).read_bytes()
        size = [position for position, _ in iter_headers(data)][3] if left == 3 else left
        path(bench, 10).write_bytes(data[:size])
    with pytest.raises(UnreadableBatch) as met:
        log.read(10, max_bytes=1 << 20, max_offset=30)
    missing = log.set_aside(met.value)
    assert (missing.base_offset, missing.end_offset) == (16 if left == 3 else 10, 20)


def test_a_range_that_was_evicted_is_missing_no_more(bench, log):
    """Eviction and removal drop the range and its marker file."""
    flip(bench, 0, 2)
    log.set_aside(damage(bench, 0, path(bench, 0).stat().st_size // 2))
    assert len(log.missing_ranges()) == 1
    log.delete_local_before(10)
    assert log.missing_ranges() == []
    log.sync()
    log.take_removal(0)
    assert not [name for name in Path(bench.directory).iterdir() if name.suffix == ".missing"]


def test_no_offset_is_cleaned_from_a_missing_range_on(bench, log):
    """Records behind the range may be newer than those that are missing."""
    assert [one.base_offset for one in log.compaction.cleanable_segments()] == [0, 10, 20]
    log.set_aside(damage(bench, 10, flip(bench, 10, 2)))
    assert [(one.base_offset, one.end_offset) for one in log.compaction.cleanable_segments()] == [(0, 10), (10, 14)]


def test_a_range_with_a_hole_is_not_read_for_the_archive(bench, log):
    """Short of it and behind it it is."""
    log.set_aside(damage(bench, 10, flip(bench, 10, 2)))
    with pytest.raises(MissingRange):
        log.read_range(0, 30)
    assert log.read_range(0, 14).next_offset == 14
    assert log.read_range(20, 30).next_offset == 30


@pytest.mark.parametrize("damaged", [True, False])
def test_bytes_that_a_start_has_to_set_aside_leave_no_summary(bench, log, damaged):
    """The next start opens such a log and looks at its files; a sound one it takes from the summary."""
    if damaged:
        assert log.set_aside(damage(bench, 10, flip(bench, 10, 1))) is not None
    assert (bench.stop(log) is None) == damaged
