"""Rule 8 at a start: a leader that may lack what it archived asks the archive before its first write.

Needed when the checkpoint of the remote end is missing or lies above the log end, or after an unclean stop without
sync on ack. Until it is settled the partition takes no requests. The archive wins: local data that disagrees is kept
aside, and the log goes on at the remote end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from stratalog.broker.io_worker import Submit
from stratalog.broker.remote_reader import RemotePartition
from stratalog.broker.unified_log import UnifiedLog
from stratalog.hot.checkpoint import RemoteLogState
from stratalog.hot.leader_epochs import EpochEntry
from stratalog.tier import commands
from stratalog.tier.entry import LeaderEpoch
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Claimant
from stratalog.tier.manifest_view import NO_ENTRIES
from stratalog.tier.reconcile import Keep, RestartAt, must_reconcile, reconcile

__all__ = ["Reconciling"]

_RETRY_SECONDS: Final = 1.0
_REASON: Final = "its archive is being compared with its local log"

log = logging.getLogger(__name__)


class Reconciling:
    """The check of one partition."""

    def __init__(
        self,
        unified: UnifiedLog,
        remote: RemotePartition,
        *,
        claimant: Claimant,
        cluster_id: str,
        submit: Submit,
        now_ms: Callable[[], int],
        checkpoint: RemoteLogState | None,
        lost: bool,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._unified = unified
        self._remote = remote
        self._claimant = claimant
        self._cluster_id = cluster_id
        self._submit = submit
        self._now_ms = now_ms
        self._checkpoint = checkpoint
        self._lost = lost
        self._later = later
        self._partition = PartitionId(
            unified.topic_partition.topic, unified.topic_id, unified.topic_partition.partition
        )
        self._finished: Callable[[], object] = lambda: None
        self._closed = False
        self.waits_for = ""
        """Why the archive has not answered so far; empty while it is being asked for the first time."""

    def needed(self) -> bool:
        """Whether this start has to ask."""
        log_ = self._unified.log
        return must_reconcile(
            remote_end_checkpoint=None if self._checkpoint is None else self._checkpoint.remote_end_offset,
            log_end_offset=log_.log_end_offset,
            elected_uncleanly=False,
            stopped_uncleanly=log_.recovery.segments_checked > 0 and log_.config.flush_messages > 1,
            wiped=self._lost,
        )

    def start(self, finished: Callable[[], object], *, hold: bool) -> None:
        """Claim and compare; with ``hold`` the partition takes no requests until ``finished`` is called."""
        self._finished = finished
        if hold:
            self._unified.partition.held_back = _REASON
        self._claim()

    def close(self) -> None:
        """Answers change nothing any more."""
        self._closed = True

    def _claim(self) -> None:
        if self._closed:
            return
        command = commands.Claim(
            self._partition,
            self._claimant,
            self._now_ms(),
            start_offset=self._unified.log.first_base_offset,
            cluster_id=self._cluster_id,
            known_end=NO_ENTRIES,
            archived_end=0 if self._checkpoint is None else self._checkpoint.remote_end_offset,
        )
        self._submit(command, self._claimed)

    def _claimed(self, report: commands.Report) -> None:
        if self._closed:
            return
        if not isinstance(report, commands.ManifestRead) or not self._remote.apply(report.view):
            self._wait(getattr(report, "message", "its manifest ends before what was archived"))
            return
        self.waits_for = ""
        log_ = self._unified.log
        outcome = reconcile(
            remote_end=report.view.remote_end,
            remote_log_start=report.view.log_start_offset,
            remote_epochs=report.view.leader_epochs,
            snapshot_key=report.view.newest_key or None,
            local_start=log_.local_log_start_offset,
            local_end=log_.log_end_offset,
            local_epochs=[LeaderEpoch(*entry) for entry in log_.leader_epochs.entries],
            log_start_checkpoint=log_.log_start_offset,
        )
        if isinstance(outcome, Keep):
            self._keep(outcome)
            return
        self._unified.partition.held_back = _REASON
        if outcome.snapshot_key is None:
            self._restart(outcome, None)
        else:
            command = commands.ReadRestartState(self._partition, outcome.snapshot_key)
            self._submit(command, lambda state: self._restart_state(outcome, state))

    def _wait(self, why: str) -> None:
        """Ask again soon; a reason is told once."""
        if why != self.waits_for:
            log.warning("%s waits for its archive before it serves: %s", self._partition, why)
        self.waits_for = why
        self._later(_RETRY_SECONDS, self._claim)

    def _restart_state(self, outcome: RestartAt, report: commands.Report) -> None:
        if self._closed:
            return
        if isinstance(report, commands.RestartStateRead):
            self._restart(outcome, report.producer_snapshot or None)
            return
        self._wait(f"its restart state cannot be read: {getattr(report, 'message', report)}")

    def _keep(self, outcome: Keep) -> None:
        log_ = self._unified.log
        log_.advance_log_start(min(outcome.log_start_offset, log_.log_end_offset))
        self._done()

    def _restart(self, outcome: RestartAt, snapshot: bytes | None) -> None:
        unified = self._unified
        log_ = unified.log
        epochs = [EpochEntry(*entry) for entry in outcome.leader_epochs]
        try:
            kept = log_.quarantine_and_restart_at(
                outcome.offset,
                epochs,
                snapshot,
                now_ms=self._now_ms(),
                reason=outcome.reason,
                log_start_offset=outcome.log_start_offset,
            )
            log_.assign_leader_epoch(unified.partition.leader_epoch)
            log_.sync()
        except OSError as error:
            unified.partition.directory.fail(error)
            return
        log.error(
            "%s: the archive wins: %s. The log goes on at offset %d; the local data is kept in %s",
            self._partition,
            outcome.reason,
            outcome.offset,
            kept,
        )
        unified.partition.restarted()
        self._done()

    def _done(self) -> None:
        self._unified.partition.held_back = None
        self._finished()
