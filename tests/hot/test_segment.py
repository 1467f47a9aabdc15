"""Tests of hot/segment.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.segment import Segment, SegmentCache
from stratalog.hot.transaction_index import AbortedTxn


@pytest.fixture
def make(files, tmp_path):
    """Makes segments of batches, written and stored."""

    def build(base, batches, *, config=None, cache=None):
        segment = Segment(
            files,
            str(tmp_path),
            base,
            config or LogConfig(index_interval_bytes=100),
            SegmentCache() if cache is None else cache,
        )
        for offset, batch in batches:
            segment.queue(batch, offset, 1000 + offset, 5)
        if batches:
            segment.write_pending()
        segment.store_indexes(final=True)
        return segment

    return build


@pytest.fixture
def batches(make_batch):
    return [(offset, make_batch(offset, timestamp_ms=1000 + offset)) for offset in range(40, 60)]


def test_the_file_names_are_20_digits_of_the_base_offset(make, batches, tmp_path):
    """With Kafka's suffixes."""
    make(40, batches)
    names = [f"{40:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert sorted(entry.name for entry in Path(tmp_path).iterdir()) == names


def test_an_offset_is_located_by_index_and_scan(make, batches):
    """At every offset, below the first and behind the last."""
    segment = make(40, batches)
    size = len(batches[0][1])
    assert [segment.locate(offset)[0] for offset in range(40, 60)] == [number * size for number in range(20)]
    assert segment.locate(0)[0] == 0
    assert segment.locate(60) is None


def test_a_frozen_segment_gives_its_indexes_back_and_loads_them_again(make, batches):
    """The same answers from the files."""
    segment = make(40, batches)
    before = segment.indexes.offsets.to_bytes(), segment.max_timestamp
    segment.freeze()
    segment.release()
    assert not segment.has_indexes
    assert segment.max_timestamp == before[1]
    assert segment.indexes.offsets.to_bytes() == before[0]


def test_index_files_that_point_beyond_their_log_are_rebuilt(make, batches, tmp_path):
    """A stale index of another life of the segment."""
    segment = make(40, batches)
    expected = segment.indexes.offsets.to_bytes()
    path = tmp_path / f"{40:020d}.index"
    path.write_bytes(expected + bytes.fromhex("0fffffff 0fffffff"))
    segment.freeze()
    segment.release()
    assert segment.locate(59) is not None
    assert path.read_bytes() == expected


def test_the_cache_bounds_files_and_indexes(make, make_batch):
    """The least recently used segment leaves first."""
    cache = SegmentCache(open_max=2)
    segments = []
    for base in (0, 10, 20):
        segment = make(base, [(base + n, make_batch(base + n)) for n in range(5)], cache=cache)
        segment.freeze()
        segments.append(segment)
    assert cache.held_count == 2
    assert [segment.has_indexes for segment in segments] == [False, True, True]
    segments[1].locate(12)
    segments[0].locate(2)
    assert [segment.has_indexes for segment in segments] == [True, True, False]
    small = SegmentCache(index_bytes_max=1)
    for base in (30, 40):
        segment = make(base, [(base + n, make_batch(base + n)) for n in range(5)], cache=small)
        segment.freeze()
    assert small.held_count == 1
    small.drop(segment)
    assert small.held_count == 0


def test_a_file_that_somebody_keeps_open_is_not_opened_twice(make, batches):
    """What the cache lets go of is taken back from whoever has it; what is released for good is not."""
    cache = SegmentCache(open_max=1)
    segment = make(40, batches, cache=cache)
    file = segment.file
    make(60, [], cache=cache).file.fileno()
    assert cache.held_count == 1
    assert segment.file is file
    segment.release()
    assert segment.file is not file
    segment.lend()
    segment.release()
    number = file.fileno()
    del file
    assert segment.file.fileno() == number  # nobody had it: it was closed


def test_an_active_segment_counts_as_used_again_after_others_and_after_it_was_dropped(make):
    """However often its file was asked for before, in between nothing has to be said."""
    cache = SegmentCache(open_max=1)
    first, second = make(0, [], cache=cache), make(10, [], cache=cache)
    files = [one.file for one in (first, first, second, first)]
    assert files[0] is files[1] is files[3]  # this test has kept it open
    assert (cache.latest, cache.held_count) == (first, 1)
    cache.drop(first)
    assert (cache.latest, cache.held_count) == (None, 0)
    assert first.file is first.file
    assert (cache.latest, cache.held_count) == (first, 1)


def test_an_active_segment_that_is_released_keeps_what_is_not_stored(make, batches):
    """Only its descriptor goes."""
    segment = make(40, batches)
    entries = len(segment.indexes.offsets)
    segment.release()
    assert len(segment.indexes.offsets) == entries
    assert segment.locate(45) is not None


def test_aborted_transactions_are_appended_and_rewritten(make, batches, tmp_path):
    """The file appears with the first abort and goes with the last."""
    segment = make(40, batches)
    path = tmp_path / f"{40:020d}.txnindex"
    assert segment.aborted == []
    segment.store_indexes(final=False)
    assert not path.exists()
    segment.aborted.append(AbortedTxn(1, 40, 41, 42))
    segment.store_indexes(final=False)
    segment.aborted.append(AbortedTxn(1, 43, 44, 45))
    segment.store_indexes(final=False)
    assert path.stat().st_size == 68
    segment.replace_aborted(segment.aborted[:1])
    segment.store_indexes(final=False)
    assert path.stat().st_size == 34
    segment.replace_aborted([])
    segment.store_indexes(final=False)
    assert not path.exists()


def test_what_a_segment_tells_of_itself(make, batches, tmp_path):
    """Offsets, sizes and times for retention and tiering."""
    info = make(40, batches).info(active=False)
    assert (info.base_offset, info.end_offset, info.first_append_ms, info.max_timestamp_ms) == (40, 60, 5, 1059)
    assert info.size_bytes == Path(info.path).stat().st_size
