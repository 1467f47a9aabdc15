"""Compares the log start of the local log with that of the manifest, and moves the one that is behind."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.log.log import Log
from stratalog.tier.bucket.trash import DELETED_RECORDS, LOG_START_MOVED, RETENTION
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.lost_archive import NO_BEGIN
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.stores.backoff import Backoff

__all__ = ["ArchiveLogStart", "archive_begin", "tell_log_start"]

log = logging.getLogger(__name__)


def tell_log_start(partition: PartitionId, before: int, after: int) -> None:
    """Log a log start that this log did not move: the disk or the bucket is an older copy."""
    log.warning(
        "%s: the log start moves from offset %d to %d, because its archive begins there", partition, before, after
    )


def archive_begin(log_: Log) -> int:
    """Where an archive of this log begins that does not exist yet; below 0 if it has to exist, as the log begins before its disk.

    Records leave the disk once they are archived. This leadership may know nothing of that: it may be the first one of a copy.
    """
    return log_.first_base_offset if log_.first_base_offset <= log_.log_start_offset else NO_BEGIN


class ArchiveLogStart:
    """One leadership's view of it. Moves by retention are kept apart from
    deletions by clients: they are judged again.
    """

    def __init__(
        self,
        unified: UnifiedLog,
        remote: RemotePartition,
        partition: PartitionId,
        claimant: Claimant,
        now_ms: Callable[[], int],
    ) -> None:
        self.retained_to = -1
        """The offset up to which retention moved the log start in this leadership."""
        self.turn = Backoff()
        """The command that tells the manifest, and its pauses."""
        self._unified = unified
        self._remote = remote
        self._partition = partition
        self._claimant = claimant
        self._now_ms = now_ms
        self._inherited = unified.log.log_start_offset
        # Log start, first and active base offset, and the border that follows from them.
        self._resume = (-1, -1, -1, -1)
        remote.follow_start = self._heard

    def _heard(self, known: int) -> None:
        """Follow a manifest as soon as readers see it: records that it lacks are none of the log's any more."""
        if self._unified.remote is self._remote:  # a late answer may be for a former leadership
            self.follow(known)

    def follow(self, known: int) -> None:
        """Move the log start up to the manifest's: an older local checkpoint must not bring dropped records back."""
        log_ = self._unified.log
        before, known = log_.log_start_offset, min(known, self._unified.partition.high_watermark)
        if log_.advance_log_start(known):
            tell_log_start(self._partition, before, known)

    def may_move(self, known: int, remote_end: int, now_ms: int) -> bool:
        """Follow a manifest with this log start; True if one with this end is behind the log, and may be told so now."""
        self.follow(known)
        return self.turn.may_start(now_ms) and self.is_news(known, remote_end)

    def has_expired(self, known: int) -> bool:
        """True if the archive holds objects, and lies in part below the log start, by a manifest with this one."""
        return bool(self._remote.object_count) and self._unified.log.log_start_offset > known

    def is_news(self, known: int, remote_end: int) -> bool:
        """True if a manifest with this log start and end is behind the log."""
        return self._unified.log.log_start_offset > known or (self.resume_at() or 0) > remote_end

    def resume_at(self) -> int | None:
        """The batch border from which the log is archived: where the segment that holds the log start begins.

        No readable record lies below it. None if the log start lies below the local log.
        """
        log = self._unified.log
        start, first, active = log.log_start_offset, log.first_base_offset, log.active_base_offset
        if first > start:
            return None
        if start >= active:
            return active
        if self._resume[:3] != (start, first, active):
            base = max(one.base_offset for one in log.segments() if one.base_offset <= start)
            self._resume = start, first, active, base
        return self._resume[3]

    def command(self) -> commands.SetLogStart:
        """Tell the manifest."""
        return commands.SetLogStart(
            self._partition,
            self._claimant,
            self._unified.log.log_start_offset,
            self._now_ms(),
            self._reason(),
            resume_at=self.resume_at(),
            known_end=self._remote.known_end,
        )

    def _reason(self) -> str:
        """Why the log start moved. If an earlier leadership moved it, retention counts as possible."""
        log = self._unified.log
        if log.log_start_offset <= self.retained_to:
            return RETENTION
        limited = log.config.deletes and (log.config.retention_ms >= 0 or log.config.retention_bytes >= 0)
        return LOG_START_MOVED if limited and log.log_start_offset <= self._inherited else DELETED_RECORDS
