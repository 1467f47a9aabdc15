"""Tests of hot/recovery/listing.py."""

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.listing import listed_segments, listed_snapshots
from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.wire.topic import TopicPartition


def test_segments_begin_and_end_as_their_names_say(files, tmp_path):
    """All but the last are frozen and end where the next one begins; other names are no segments."""
    names = (f"{0:020d}.log", f"{0:020d}.index", f"{7:020d}.log", f"{7:020d}.snapshot", f"{9:020d}.log.swap", "7.log")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    entries = files.scan(str(tmp_path))
    request = OpenRequest(
        str(tmp_path), TopicPartition("t", 0), bytes(16), LogConfig(), files, SegmentCache(), 1, clean=True,
        recovery_point=0, log_start_offset=0,
    )  # fmt: skip
    found = [
        (one.base_offset, one.next_offset, one.frozen, one.size_bytes) for one in listed_segments(request, entries)
    ]
    assert found == [(0, 7, True, 1), (7, 7, False, 1)]
    assert listed_snapshots(entries) == [7]
    assert listed_segments(request, []) == []
