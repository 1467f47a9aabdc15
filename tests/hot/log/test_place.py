"""Tests of hot/log/place.py."""

from pathlib import Path

from stratalog.hot.config import LogConfig


def test_a_new_segment_makes_its_file_with_its_first_use(bench):
    """A roll in memory may still be discarded."""
    log = bench.open()
    segment = log._parts.place.new_segment(5)
    path = Path(bench.directory, f"{5:020d}.log")
    assert (segment.base_offset, segment.size_bytes, path.exists()) == (5, 0, False)
    assert segment.file.pread(1, 0) == b""
    assert path.exists()


def test_a_segment_begins_with_the_settings_of_its_time(bench):
    """New settings hold from the next segment on, and `Log.update_config` tells those that are there."""
    log = bench.open(LogConfig(segment_bytes=1000))
    log.update_config(LogConfig(segment_bytes=2000))
    place = log._parts.place
    assert place.new_segment(0).config is place.config is log.config
    assert log._segments.active.config is log.config
