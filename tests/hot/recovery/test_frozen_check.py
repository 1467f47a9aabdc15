"""Tests of hot/recovery/frozen_check.py."""

from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.frozen_check import lost_logs, suspicion
from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.wire.batch import iter_headers

CONFIG = LogConfig(index_interval_bytes=400)
ANYWHERE = 1 << 60


@pytest.fixture
def stopped(bench):
    """Segments [0,10) [10,20) [20,30) and an active one, closed in order; what is noted of them."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    bench.append(log, 2)
    return bench.stop(log)


def request(bench, *, clean=True, summary=None):
    where = bench.directory, bench.partition, bench.topic_id, CONFIG, bench.files
    return OpenRequest(*where, SegmentCache(), 0, clean, 0, 0, summary=summary)


def path(bench, base, suffix=".log"):
    return Path(f"{bench.directory}/{base:020d}{suffix}")


def look(bench, *, gaps_below=0, end=20, **options):
    asked = request(bench, **options)
    size = path(bench, 10).stat().st_size
    segment = Segment(
        bench.files, bench.directory, 10, CONFIG, asked.cache, size_bytes=size, next_offset=end, frozen=True
    )
    return suspicion(asked, segment, gaps_below)


def cut(bench, batches):
    data = path(bench, 10).read_bytes()
    path(bench, 10).write_bytes(data[: [at for at, _ in iter_headers(data)][batches]])


def change(bench, suffix, at):
    data = bytearray(path(bench, 10, suffix).read_bytes())
    data[at] ^= 0x40
    path(bench, 10, suffix).write_bytes(data)


def test_an_unchanged_file_is_not_opened(bench, stopped, monkeypatch):
    """As long as the same segment follows it."""
    opened = []
    real = type(bench.files).open_read
    monkeypatch.setattr(type(bench.files), "open_read", lambda files, name: opened.append(name) or real(files, name))
    assert look(bench, summary=stopped) is None
    assert not opened
    assert "ends at offset 20" in look(bench, summary=stopped, end=30).why


@pytest.mark.parametrize("batches", [0, 1, 3, 4])
def test_an_end_that_is_gone_is_seen_where_offsets_are_dense(bench, stopped, batches):
    """Whether an index reaches beyond it or not."""
    assert look(bench) is None
    cut(bench, batches)
    assert "the next segment begins at 20" in look(bench).why


@pytest.mark.parametrize("batches", [0, 1, 3, 4])
def test_where_offsets_may_be_missing_the_indexes_or_the_size_tell(bench, stopped, batches):
    """And for certain: reading the batches would not show it."""
    assert look(bench, gaps_below=ANYWHERE) is None
    cut(bench, batches)
    assert look(bench, gaps_below=ANYWHERE).certain
    for suffix in (".index", ".timeindex"):
        path(bench, 10, suffix).write_bytes(b"")
    assert look(bench, gaps_below=ANYWHERE, clean=False, summary=stopped) is None
    assert look(bench, gaps_below=ANYWHERE, summary=stopped).certain


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_bit_of_an_index_makes_nothing_certain(bench, stopped, suffix):
    """An index has no checksum. Where it leads astray it is built anew."""
    for at in range(path(bench, 10, suffix).stat().st_size):
        change(bench, suffix, at)
        found = look(bench, gaps_below=ANYWHERE)
        assert found is None or not found.certain
        change(bench, suffix, at)
    path(bench, 10, suffix).unlink()
    assert "index is missing" in look(bench).why


def test_a_log_that_is_gone_is_known_by_its_index_or_the_last_stop(bench, stopped):
    """A missing log is lost if its index or the summary of the last stop names it; one renamed to .deleted is not."""

    def lost(**options):
        return lost_logs(request(bench, **options), bench.files.scan(bench.directory))

    assert lost() == lost(summary=stopped) == []
    path(bench, 10).rename(path(bench, 10, ".log.1.deleted"))
    assert lost() == []
    path(bench, 10, ".log.1.deleted").unlink()
    assert lost() == lost(clean=False) == [10]
    path(bench, 10, ".index").unlink()
    assert lost() == []
    assert lost(summary=stopped) == [10]
    assert lost(summary=stopped, clean=False) == []
    path(bench, 30).unlink()
    assert lost(summary=stopped) == [10]


@pytest.mark.parametrize("gaps_below", [0, ANYWHERE])
def test_no_single_bit_of_an_index_makes_a_certain_suspicion(bench, gaps_below):
    """The batches are whole: an index that reaches beyond them, or beyond the segment, is itself what changed."""
    log = bench.open(LogConfig(segment_bytes=600, index_interval_bytes=200))
    bench.write_mixed(log, 30, epoch=1, seed=3)
    log.sync()
    spans = [(one.base_offset, one.end_offset) for one in log.segments()[:-1]]
    log.abandon()
    asked = request(bench, clean=False)
    places = [(span, suffix) for span in spans for suffix in (".index", ".timeindex")]
    tried = 0
    for (base, end), suffix in places:
        sound = path(bench, base, suffix).read_bytes()
        for bit in range(0, len(sound) * 8, 3):  # each bit of a byte in turn
            data = bytearray(sound)
            data[bit // 8] ^= 0x80 >> bit % 8
            path(bench, base, suffix).write_bytes(data)
            segment = Segment(
                bench.files, bench.directory, base, CONFIG, SegmentCache(),
                size_bytes=path(bench, base).stat().st_size, next_offset=end, frozen=True,
            )  # fmt: skip
            found = suspicion(asked, segment, gaps_below)
            assert found is None or not found.certain, (base, suffix, bit, found)
            tried += 1
        path(bench, base, suffix).write_bytes(sound)
    assert tried > 50
