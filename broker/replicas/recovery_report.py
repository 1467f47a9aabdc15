"""Reports in the broker's own log what opening the logs found after an unclean stop, and which ranges a disk has lost."""

from __future__ import annotations

import logging

from stratalog.hot.log.log import Log
from stratalog.hot.recovery.missing import MissingRange
from stratalog.wire.topic import TopicPartition

__all__ = ["RecoveryReport", "missing_sentence"]

log = logging.getLogger(__name__)


class RecoveryReport:
    """The cost of an unclean stop: damage is logged at once, the rest in one line for all partitions."""

    def __init__(self) -> None:
        self._logs = 0
        self._segments = 0
        self._rebuilt = 0
        self._truncated_bytes = 0

    def add(self, log_: Log) -> None:
        """One more log was opened."""
        report = log_.recovery
        for path in report.frozen_indexes_rebuilt:
            log.warning(
                "%s: an index of %s.log was missing or damaged, both were built anew", log_.topic_partition, path
            )
        self._logs += report.segments_checked > 0
        self._segments += report.segments_checked
        self._rebuilt += len(report.indexes_rebuilt)
        self._truncated_bytes += report.truncated_bytes
        if report.tail_offset is not None:
            log.log(
                logging.WARNING if report.tail_is_short else logging.ERROR,
                "%s ends at offset %d: %d bytes behind it are no whole batch (%s). A stop in the middle of a write "
                "leaves such bytes, never acknowledged; so does a disk that changed them. They are kept in %s",
                log_.topic_partition,
                report.tail_offset,
                report.truncated_bytes,
                report.reason,
                report.quarantine,
            )
        if report.damaged_offset is not None:
            log.error(
                "%s: damaged at offset %d (%s); %s, the log goes on at offset %s",
                log_.topic_partition,
                report.damaged_offset,
                report.reason,
                "no bytes of it are there"
                if report.quarantine is None
                else f"the bytes are kept in {report.quarantine}",
                report.resume_offset,
            )

    def tell(self) -> None:
        """Say it, if there is anything to say, once."""
        if self._logs:
            log.warning(
                "after an unclean stop %d partitions were recovered: %d segments verified, the indexes of %d derived "
                "anew, %d bytes of torn tails cut off",
                self._logs,
                self._segments,
                self._rebuilt,
                self._truncated_bytes,
            )
        self._logs = self._segments = self._rebuilt = self._truncated_bytes = 0


def missing_sentence(
    topic_partition: TopicPartition, remote_end: int | None, missing: MissingRange, *, others_have_it: bool = False
) -> str:
    """Names the range, the reason, who serves it and what to do. ``remote_end`` is None without an archive."""
    base, end = missing.base_offset, missing.end_offset
    archived_end = base if remote_end is None else min(max(base, remote_end), end)
    said = f"{topic_partition}: offsets [{base}, {end}) are missing on this disk: {missing.why}."
    if others_have_it:
        return f"{said} Other replicas have them: this one leaves the in-sync set and copies its log again from there"
    if archived_end == end:
        return f"{said} They are read from the archive, nothing has to be done"
    if archived_end > base:
        said = f"{said} Those below {archived_end} are read from the archive."
    return (
        f"{said} No reader gets [{archived_end}, {end}), all others are served. Stop the broker, put the damaged file back from a "
        f"copy, and remove the note beside {missing.path} (and that file, if it is empty). Or move the log start to {end} with "
        "DeleteRecords, or have consumers seek to it"
    )
