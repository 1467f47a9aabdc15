"""Says which log this is, where it lies and which settings it has; all parts of a log share it."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.hot.config import LogConfig
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["LogPlace"]


class LogPlace:
    """One partition on one disk. ``config`` changes when the topic gets new settings, ``directory`` when the log is moved."""

    __slots__ = ("before_cut", "cache", "clean_below", "config", "directory", "files", "topic_id", "topic_partition")

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        files: Filesystem,
        cache: SegmentCache,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.files = files
        self.cache = cache
        self.before_cut: Callable[[int], None] = lambda _offset: None
        """Called before batches from an offset on go, for copies of others perhaps. May raise `OSError`."""
        self.clean_below: Callable[[], int] = lambda: 0
        """Below this offset the cleaner has been."""

    def path(self, name: str) -> str:
        """The path of a file of this log."""
        return f"{self.directory}/{name}"

    def new_segment(self, base_offset: int) -> Segment:
        """An empty segment, in memory only; its first use makes the file."""
        segment = Segment(self.files, self.directory, base_offset, self.config, self.cache)
        segment.take_stored_aborted([])  # an append looks for no file: there may be no descriptor for that
        return segment
