"""Compares one log with its archive: a leader that may lack what it archived asks before its first write (rule 8).

A log may lack records when the checkpoint of the remote end is missing or lies above the log end, after an unclean stop
without sync on ack, and when the bucket shows a run that the data directory does not know. The partition takes no requests
until the comparison has ended. The archive wins: local data that disagrees is kept aside, and the log goes on at the remote
end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from stratalog.broker.archive.archived_ends import end_archived, open_below
from stratalog.broker.archive.log_start import archive_begin, tell_log_start
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.batch_mark import batch_at
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.workers.io_worker import Submit
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.hot.storage.shortages import SHORTAGES
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.manifests.second_timeline import MadeClaims
from stratalog.tier.manifests.view import NO_ENTRIES, ManifestView
from stratalog.tier.messages import commands
from stratalog.tier.planning.reconcile import Keep, RestartAt, disputed, must_reconcile, reconcile, writer_at
from stratalog.wire.errors import Corrupt, KafkaError

__all__ = ["Reconciling", "TimelinePorts"]

_RETRY_SECONDS: Final = 1.0
_REASON: Final = "its archive is being compared with its local log"

log = logging.getLogger(__name__)


class TimelinePorts(Struct, frozen=True):
    """The ports of a comparison where the log's directory went back in time, or may have.

    ``made`` are the claims of the directory. ``raise_epoch`` has the controller raise the leader epoch above one, and then
    calls back with the new claimant. ``compared`` is called once log and archive agree, and ``restarts`` before the log goes on
    from its archive: what it had acknowledged above that is lost. It answers whether the disk has taken a note of that: without
    one, a crash during the restart would have the next start know nothing of it.
    """

    made: MadeClaims
    raise_epoch: Callable[[int, Callable[[Claimant], None]], None]
    compared: Callable[[], object]
    restarts: Callable[[], bool]


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
        elected_uncleanly: bool = False,
        later: Callable[[float, Callable[[], None]], object],
        timeline: TimelinePorts | None = None,
    ) -> None:
        """``timeline`` is given where the log may be of another timeline than the archive: then batches are compared."""
        self._unified = unified
        self._remote = remote
        self._claimant = claimant
        self._cluster_id = cluster_id
        self._submit = submit
        self._now_ms = now_ms
        self._checkpoint = checkpoint
        self._lost, self._elected_uncleanly = lost, elected_uncleanly
        self._later = later
        self._timeline = timeline
        self._partition = PartitionId(
            unified.topic_partition.topic, unified.topic_id, unified.topic_partition.partition
        )
        self._finished: Callable[[], object] = lambda: None
        self._closed = self._refused = False
        self._view: ManifestView | None = None
        self.waits_for = ""
        """Why the archive has not answered so far; empty while it is being asked for the first time."""

    def needed(self) -> bool:
        """Whether this start has to ask: the log may lack what was archived, whatever the bucket says.

        A cluster that was restored without a takeover has archived nothing, and its claim is refused for ever.
        """
        log_ = self._unified.log
        if self._claimant.incarnation < 0:
            return self._lost
        return must_reconcile(
            remote_end_checkpoint=None if self._checkpoint is None else self._checkpoint.remote_end_offset,
            log_end_offset=log_.log_end_offset,
            elected_uncleanly=self._elected_uncleanly,
            stopped_uncleanly=log_.recovery.segments_checked > 0 and log_.config.flush_messages > 1,
            wiped=self._lost,
        )

    def start(self, finished: Callable[[], object], *, hold: bool) -> None:
        """Claim and compare; with ``hold`` the partition takes no requests until ``finished`` is called."""
        self._finished = finished
        if hold:
            self.hold()
        self._claim()

    def hold(self) -> None:
        """The partition takes no requests from now on until the comparison has ended."""
        self._unified.partition.held_back = _REASON

    def close(self) -> None:
        """Answers change nothing any more. Whether the partition is held back is for the next comparison, if there is one."""
        self._closed = True
        self._unified.partition.held_back = None

    def _claim(self) -> None:
        if self._closed:
            return
        command = commands.Claim(
            self._partition,
            self._claimant,
            self._now_ms(),
            start_offset=archive_begin(self._unified.log),
            cluster_id=self._cluster_id,
            known_end=NO_ENTRIES,
            archived_end=0 if self._checkpoint is None else self._checkpoint.remote_end_offset,
            archived_seq=0 if self._checkpoint is None else self._checkpoint.manifest_seq,
            made=None if self._timeline is None else self._timeline.made,
        )
        self._submit(command, self._claimed)

    def _claimed(self, report: commands.Report) -> None:
        if self._closed:
            return
        if isinstance(report, commands.SecondTimelineReport) and self._timeline is not None:
            self._unified.partition.held_back = _REASON  # this is certain, whatever made the comparison necessary
            self.waits_for = f"the controller is asked to raise its leader epoch above {report.leader_epoch}"
            self._timeline.raise_epoch(report.leader_epoch, self._raised)
            return
        if isinstance(report, commands.FencedReport | commands.LostReport) and not self.needed():
            log.warning("%s is not compared with its archive now: %s", self._partition, report.message)
            self._done(compared=False)  # the next claimant of the archive meets the same
            return
        if not isinstance(report, commands.ManifestRead) or not self._remote.apply(report.view):
            self._wait(getattr(report, "message", "its manifest ends before what was archived"))
            return
        self.waits_for = ""
        self._view = report.view
        if report.view.deleted:
            self._done()
            return
        outcome = self._outcome(report.view)
        if outcome is None:
            return
        if isinstance(outcome, RestartAt):
            self._begin_again(outcome)
        elif self._timeline is not None and report.view.newest_key and self._holds(report.view.remote_end - 1):
            command = commands.ReadLastBatch(self._partition, report.view.newest_key)
            self._submit(command, lambda read: self._last_batch(report.view, read))
        else:
            self._keep(outcome)

    def epoch_refused(self, above: int, why: str) -> None:
        """Name why the leader epoch is not above ``above`` yet, and the way out."""
        self.waits_for = (
            f"the controller is asked every second to raise its leader epoch from {self._claimant.leader_epoch} above {above}, "
            f"the highest one that its archive knows, and refuses: {why}. If that does not end, move its leader to another "
            "broker and back: each move raises the epoch"
        )

    def _raised(self, claimant: Claimant) -> None:
        """Go on under a higher epoch."""
        self.waits_for = ""
        self._claimant = claimant
        self._claim()

    def _outcome(self, view: ManifestView, *, diverged: bool = False) -> Keep | RestartAt | None:
        """Compare the two; None if the disk has refused, which is reported."""
        log_ = self._unified.log
        local_epochs = [LeaderEpoch(*entry) for entry in log_.leader_epochs.entries]
        found = disputed(
            remote_end=min(view.remote_end, log_.log_end_offset),
            remote_epochs=view.leader_epochs,
            local_start=log_.local_log_start_offset,
            local_epochs=local_epochs,
        )
        try:
            bare = [one for one in found if self._is_bare(one, view)]
        except OSError as error:
            self._disk_refused(error, self._claim)
            return None
        return reconcile(
            remote_end=view.remote_end,
            remote_log_start=view.log_start_offset,
            remote_epochs=view.leader_epochs,
            snapshot_key=view.newest_key or None,
            local_start=log_.local_log_start_offset,
            local_end=log_.log_end_offset,
            local_epochs=local_epochs,
            log_start_checkpoint=log_.log_start_offset,
            diverged=diverged,
            bare=bare,
        )

    def _is_bare(self, offsets: range, view: ManifestView) -> bool:
        """Whether the local log has no batch there, and goes on in an epoch that may follow the archive's. Raises `OSError`.

        One that goes on in an earlier epoch is a fork from before the archive's records. One that cannot be read may be of
        another history. One in which no batch follows has nothing to lose: it was cut in a gap.
        """
        log_ = self._unified.log
        try:
            following = batch_at(log_, offsets.start).base
        except (Corrupt, KafkaError):
            return False
        local = writer_at([LeaderEpoch(*entry) for entry in log_.leader_epochs.entries], following)
        return following >= offsets.stop and local >= writer_at(view.leader_epochs, offsets.start)

    def _holds(self, offset: int) -> bool:
        """Whether an offset is on the local disk, and as it was written: the cleaner may have changed it."""
        log_ = self._unified.log
        first = max(log_.local_log_start_offset, log_.log_start_offset)
        return first <= offset < log_.log_end_offset and not log_.may_have_gaps

    def _last_batch(self, view: ManifestView, report: commands.Report) -> None:
        if self._closed:
            return
        if not isinstance(report, commands.LastBatchRead):
            self._wait(f"its last batch cannot be read: {getattr(report, 'message', report)}")
            return
        diverged = False
        batch = report.batch
        if batch is not None and self._holds(batch.end - 1):
            try:
                diverged = batch_at(self._unified.log, batch.end - 1) != batch
            except (Corrupt, KafkaError) as error:
                # Without this batch two timelines look alike: to serve either would be a guess.
                self._wait(f"offset {batch.end - 1}, where the two must agree, cannot be read on this disk: {error}")
                return
            except OSError as error:
                self._disk_refused(error, self._claim)
                return
        outcome = self._outcome(view, diverged=diverged)
        if isinstance(outcome, Keep):
            self._keep(outcome)
        elif outcome is not None:
            self._begin_again(outcome)

    def _begin_again(self, outcome: RestartAt) -> None:
        self._unified.partition.held_back = _REASON
        if self._timeline is not None and not self._timeline.restarts():
            self._wait("its disk takes no note of what is lost")
        elif outcome.snapshot_key is None:
            self._restart(outcome, None)
        else:
            command = commands.ReadRestartState(self._partition, outcome.snapshot_key)
            self._submit(command, lambda state: self._restart_state(outcome, state))

    def _disk_refused(self, error: OSError, again: Callable[[], None]) -> None:
        """Go on with ``again`` soon if the disk lacks room, or the process descriptors; any other failure takes it offline."""
        self._unified.partition.directory.report(error)
        if error.errno in SHORTAGES:
            self._refused = True
            self._wait(f"its disk refuses ({error}): free some of it, it goes on by itself then", again)

    def _wait(self, why: str, again: Callable[[], None] | None = None) -> None:
        """Ask again soon, or do ``again``; log a reason once."""
        if why != self.waits_for:
            log.warning("%s waits for its archive before it serves: %s", self._partition, why)
        self.waits_for = why
        self._later(_RETRY_SECONDS, again or self._claim)

    def _restart_state(self, outcome: RestartAt, report: commands.Report) -> None:
        if self._closed:
            return
        if isinstance(report, commands.RestartStateRead):
            self._restart(outcome, report.producer_snapshot or None)
            return
        self._wait(f"its restart state cannot be read: {getattr(report, 'message', report)}")

    def _keep(self, outcome: Keep) -> None:
        log_ = self._unified.log
        before, after = log_.log_start_offset, min(outcome.log_start_offset, log_.log_end_offset)
        if log_.advance_log_start(after):
            tell_log_start(self._partition, before, after)
        self._agreed()

    def _restart(self, outcome: RestartAt, snapshot: bytes | None) -> None:
        if self._closed:
            return
        unified = self._unified
        log_ = unified.log
        before = log_.log_start_offset
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
        except Corrupt as error:  # before anything of the log has gone
            self._wait(f"its restart state in {outcome.snapshot_key} is damaged: {error}; put a sound copy of it back")
            return
        except OSError as error:
            self._disk_refused(error, lambda: self._restart(outcome, snapshot))
            return
        log.error(
            "%s: the archive wins: %s. The log goes on at offset %d; the local data is kept in %s%s",
            self._partition,
            outcome.reason,
            outcome.offset,
            kept,
            ", and what earlier attempts moved in those beside it whose names end in -stray" if self._refused else "",
        )
        if log_.log_start_offset != before:
            tell_log_start(self._partition, before, log_.log_start_offset)
        unified.partition.restarted()
        self._agreed()

    def _agreed(self) -> None:
        """Log and archive agree: end what is open in both, then go on."""
        view = self._view
        if view is None or not view.newest_key or not open_below(self._unified.log, view.remote_end):
            self._done()
        else:
            self._submit(commands.ReadAborted(self._partition, view.newest_key), self._aborted_read)

    def _aborted_read(self, report: commands.Report) -> None:
        if self._closed:
            return
        if not isinstance(report, commands.AbortedRead) or self._view is None:
            self._wait(f"its aborted transactions cannot be read: {getattr(report, 'message', report)}")
            return
        self._unified.partition.held_back = None
        aborted = {(one.producer_id, one.first_offset) for one in report.aborted}
        end_archived(self._unified, self._view.remote_end, aborted, now_ms=self._now_ms, later=self._later)
        self._done()

    def _done(self, *, compared: bool = True) -> None:
        self._unified.partition.held_back = None
        if compared and self._timeline is not None:
            self._timeline.compared()
        self._finished()
