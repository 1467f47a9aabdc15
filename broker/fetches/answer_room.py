"""The room of one answer to a consumer: what is behind its limit is not looked for.

A consumer may name thousands of partitions with more than an answer holds. To look where each one's next batch ends, only to
find that it does not fit, would hold the event loop for 0.1 s with two thousand.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from stratalog.broker.replicas.unified_log import UnifiedLog

__all__ = ["MISSES_MAX", "AnswerRoom"]

MISSES_MAX: Final = 100
"""So many partitions may have batches that do not fit into what is left before no more are looked at: a small one may fit."""


class AnswerRoom:
    """Counts the partitions whose records found no room in the present attempt at an answer."""

    __slots__ = ("misses",)

    def __init__(self) -> None:
        self.misses = 0

    def is_full(self) -> bool:
        """Whether no more partitions are looked at."""
        return self.misses > MISSES_MAX

    def needs_no_look(
        self, unified: UnifiedLog, reader: Hashable, offset: int, limit: int, *, has_room: bool, is_cut: bool
    ) -> bool:
        """Whether the log is not asked: the reader has everything, or there is no room for what the disk has.

        ``limit`` is up to where the reader may see. ``is_cut``: what is left of the answer is less than the partition may have.
        """
        log = unified.log
        if limit <= offset <= log.log_end_offset and offset >= log.log_start_offset:
            unified.leave_archive(reader, offset)
            return True  # the usual first look of a reader that has everything: there is nothing to be read yet
        on_disk = log.local_log_start_offset <= offset <= log.log_end_offset
        if not on_disk or (has_room and not (is_cut and self.is_full())):
            return False
        self.misses += is_cut
        return True
