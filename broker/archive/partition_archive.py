"""Drives the archive of one led partition: steps its plan, sends its uploads, lets local copies go.

The plan (`tier.planning.plan`) decides; its actions become commands for the ``io`` worker. No line here waits for a bucket.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any, ClassVar

from stratalog.broker.archive.alarms import doubt_of, tell, warn
from stratalog.broker.archive.log_start import ArchiveLogStart, archive_begin
from stratalog.broker.archive.removal import ArchiveRemoval, RemovalPorts, RemovalSettings
from stratalog.broker.archive.retention import evict_local
from stratalog.broker.archive.seal_times import SealTimes
from stratalog.broker.archive.upload_request import commit_command, not_uploaded, upload_command
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant, Uploaded
from stratalog.tier.manifests.second_timeline import MadeClaims
from stratalog.tier.messages import commands
from stratalog.tier.planning import plan_events
from stratalog.tier.planning.plan import ArchivePlan, Phase, PlanSettings
from stratalog.tier.planning.plan_events import RangeRef
from stratalog.tier.stores.backoff import Backoff
from stratalog.wire.errors import Corrupt, KafkaError

__all__ = ["Archive"]

log = logging.getLogger(__name__)


class Archive:
    """One leadership's archive. A new leadership makes a new one."""

    def __init__(
        self,
        unified: UnifiedLog,
        remote: RemotePartition,
        *,
        claimant: Claimant,
        cluster_id: str,
        submit: Submit,
        now_ms: Callable[[], int],
        elapsed_ms: Callable[[], int],
        dice: random.Random,
        settings: PlanSettings,
        removal: RemovalSettings | None = None,
        keep_log_start: Callable[[UnifiedLog], bool] = lambda _: True,
        keep_remote_end: Callable[[], None] = lambda: None,
        made: Callable[[], MadeClaims | None] = lambda: None,
        compare: Callable[[Archive, str, bool], None] = lambda *_: None,
    ) -> None:
        """``keep_log_start`` and ``keep_remote_end`` make durable what is known of either.

        ``made`` are the claims of the data directory. ``compare`` has log and archive compared before this goes on, for a
        reason, and if it is certain that the log lacks something (True) the log takes no requests meanwhile.
        """
        self.unified = unified
        self.remote = remote
        self.claimant = claimant
        self.evictable_offset = 0
        self.corrupt: str | None = None
        self.lost_reason = ""
        """Why the archive is lost, or was the last time."""
        name = unified.topic_partition
        self._partition = PartitionId(name.topic, unified.topic_id, name.partition)
        self._cluster_id = cluster_id
        self._submit = submit
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._dice = dice
        self._settings = settings
        self._keep_remote_end = keep_remote_end
        self._made = made
        self._compare = compare
        self.log_start = ArchiveLogStart(unified, remote, self._partition, claimant, now_ms)
        self._life, self._resumption, self._closed = 0, 0, False
        self._begin()
        ports = RemovalPorts(
            send=self._send_for_good,
            want_claim=lambda: self._step(plan_events.ClaimWanted()),
            ended=self._ended,
            emptied=self._restart,
            keep_log_start=keep_log_start,
            now_ms=now_ms,
            elapsed_ms=elapsed_ms,
            chance=dice.random,
        )
        self._removal_settings = removal or RemovalSettings()
        self.removal = ArchiveRemoval(unified, remote, self._partition, claimant, self._removal_settings, ports)

    def _begin(self) -> None:
        """Start over, as if claim and uploads had not begun and the archive were unknown."""
        self._forget_log()
        self._plan = ArchivePlan(self._settings, local_start=self._local_start, copy_enabled=self._copies)

    def _forget_log(self) -> None:
        """Look for sealed segments anew."""
        self._uploads: dict[RangeRef, Uploaded] = {}
        self._local_start = self.unified.log.first_base_offset
        self.seals = SealTimes(self._local_start)
        self._progress = (-1, -1, -1, -1, 0)
        self.log_start.turn = Backoff()

    def _restart(self) -> None:
        """Take the archive for another one from now on; late answers to earlier requests are ignored."""
        if self._plan.fenced:
            return
        self._life += 1
        self.evictable_offset = 0
        self._begin()

    # -- events ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The state of this leadership, in a word."""
        return "quarantined" if self.corrupt else self._plan.phase.value

    @property
    def lost(self) -> bool:
        """True if the bucket does not hold this archive; then uploads, eviction and removals stop."""
        return self._plan.phase is Phase.LOST

    @property
    def fenced(self) -> bool:
        """True if another owner has this archive; then this log is no longer archived."""
        return self._plan.fenced

    @property
    def archived_end(self) -> int:
        """Behind the last offset of its log that is archived, or was before another owner came."""
        return max(self.remote.end_offset, self._plan.remote_end)

    @property
    def lag(self) -> tuple[int, int]:
        """The first offset that is not archived, and the end of the offsets that could be."""
        return self._plan.lag

    @property
    def due_end(self) -> int:
        """The offset below which no copy lag held a segment back at the last `look`."""
        return self._progress[3]

    def look(self, resumption: int = 0) -> None:
        """Give the plan news of the log, cheap without any. With another ``resumption`` what failed is sent again at once."""
        log_ = self.unified.log
        if log_.first_base_offset != self._local_start:
            self._local_files_changed()
        news = self.seals.news(log_, self._now_ms())
        partition = self.unified.partition
        eligible = self.seals.eligible_end(log_, self.remote.end_offset, self._now_ms())
        stable = partition.high_watermark, partition.last_stable_offset, log_.flushed_offset
        progress = (*stable, eligible, self.log_start.resume_at() or 0)
        if progress != self._progress:
            self._progress = progress
            self._step(plan_events.Progress(*progress))
        for segment in news:  # after it: they may lie below the log start
            self._step(plan_events.Sealed(segment.base_offset, segment.end_offset))
        resumes, self._resumption = resumption != self._resumption, resumption
        if resumes:
            self.log_start.turn.resume()
        deadline = self._plan.deadline()
        if resumes or (deadline is not None and deadline <= self._elapsed_ms()):
            self._step(plan_events.Tick(resumes))
        if self.corrupt and not self._plan.blocked:
            self.corrupt = None  # all that is damaged lies below the log start by now
        if self.lost:
            return
        if not self._deleted:
            self._move_log_start()
        elif self._plan.phase is Phase.HELD and self.unified.log.config.remote_storage_enable:
            self._restart()  # the next claim begins a new one
        self.removal.look(held=self._plan.phase is Phase.HELD)

    @property
    def _deleted(self) -> bool:
        """True if the archive is being removed, or gone."""
        facts = self.remote.facts
        return facts is not None and facts.deleted

    @property
    def _copies(self) -> bool:
        config = self.unified.log.config
        return config.remote_storage_enable and not config.remote_copy_disable

    def comparing(self) -> None:
        """Stop requests while log and archive are compared; late answers are ignored."""
        self._life += 1
        self._step(plan_events.ComparisonBegun())

    def compared(self) -> None:
        """Go on after a comparison: look for sealed segments anew, as the log may have begun again, and claim."""
        self.corrupt = None
        self._forget_log()
        self._step(plan_events.Compared(self._local_start))

    def compare_later(self) -> None:
        """Claim again after a while, since the comparison could not begin."""
        self._step(plan_events.ClaimFailed(self._dice.random()))

    def configured(self) -> None:
        """Take the topic's changed settings."""
        if self.removal.switched_off:
            self.evictable_offset = 0  # what is local has to stay: the archive goes
        if self._deleted:
            self._restart()
        self._step(plan_events.Configured(self._copies))
        self.evict()

    def close(self) -> None:
        """Stop; late answers are ignored."""
        self._closed = True

    def _step(self, event: plan_events.Event) -> None:
        for action in self._plan.step(event, self._elapsed_ms()):
            self._ACTIONS[type(action)](self, action)

    def _send(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        life = self._life
        self._send_for_good(command, lambda report: answered(report) if life == self._life else None)

    def _send_for_good(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        self._submit(command, lambda report: None if self._closed else answered(report))

    # -- actions --------------------------------------------------------------------------------------------------

    def _claim(self, _: plan_events.SendClaim) -> None:
        command = commands.Claim(
            self._partition,
            self.claimant,
            self._now_ms(),
            start_offset=archive_begin(self.unified.log),
            cluster_id=self._cluster_id,
            known_end=self.remote.known_end,
            archived_end=self.remote.end_offset,
            archived_seq=self.remote.state.manifest_seq,
            made=self._made(),
        )
        self._send(command, lambda report: None if self._doubtful(report) else self._claimed(report))

    def _doubtful(self, claimed: commands.Report) -> bool:
        """True if the archive has claims that this directory does not know; then the two are compared first."""
        end = self.remote.end_offset if self.remote.known else self.unified.log.log_end_offset
        if (doubt := None if self._made() is None else doubt_of(self._partition, claimed, end)) is not None:
            self._compare(self, *doubt)
        return doubt is not None

    def _claimed(self, report: commands.Report) -> None:
        """Go on after the claim. A log start that moved meanwhile is sent before the uploads."""
        if isinstance(report, commands.ManifestRead):
            if not self.remote.apply(report.view):
                self._step(plan_events.ArchiveLost("its manifest ends too early", self._dice.random()))
                return
            if self.lost:
                log.warning("%s: its archive is in the bucket again: archiving goes on", self._partition)
            if report.view.deleted:
                self._claimed_deleted(report.view.remote_end)
                return
            self.log_start.follow(report.view.log_start_offset)
            if self.log_start.is_news(report.view.log_start_offset, report.view.remote_end):
                self._send(self.log_start.command(), self._claimed)
            else:
                self._step(plan_events.Claimed(report.view.remote_end))
        elif not self._ended(report):
            warn(self._partition, "claim", report)
            self.unified.metrics.remote_copy_errors += 1
            self._step(plan_events.ClaimFailed(self._dice.random()))

    def _claimed_deleted(self, remote_end: int) -> None:
        """Go on after the archive went to the trash: begin a new one if tiering is on, else only empty the trash."""
        if self.removal.switched_off or not self.unified.log.config.remote_storage_enable:
            self._step(plan_events.Claimed(remote_end))
            return
        self._keep_remote_end()  # it falls back: what an older checkpoint says must not be missed later
        command = commands.BeginAgain(
            self._partition, self.claimant, self.unified.log.first_base_offset, self._now_ms()
        )
        self._send(command, self._claimed)

    def _upload(self, action: plan_events.SendUpload) -> None:
        ref = action.ref
        try:
            command = upload_command(
                self.unified, self._partition, ref, self.claimant, self._cluster_id, self._now_ms()
            )
        except (OSError, Corrupt, KafkaError) as error:
            log.error("%s: offsets [%d, %d) cannot be archived: %s", self._partition, ref.base, ref.end, error)
            self._step(not_uploaded(ref, error, self._dice.random()))
            return
        self._send(command, lambda report: self._uploaded(ref, report))

    def _uploaded(self, ref: RangeRef, report: commands.Report) -> None:
        metrics = self.unified.metrics
        metrics.remote_copy_requests += 1
        if isinstance(report, commands.UploadDone):
            metrics.remote_copy_bytes += report.uploaded.entry.size_bytes
            self._uploads[ref] = report.uploaded
            self._step(plan_events.UploadDone(ref))
            return
        metrics.remote_copy_errors += 1
        if isinstance(report, commands.CorruptReport):
            self._step(plan_events.UploadCorrupt(ref, report.message))
        elif not self._ended(report):
            warn(self._partition, "upload", report)
            self._step(plan_events.UploadFailed(ref, self._dice.random()))

    def _commit(self, action: plan_events.SendCommit) -> None:
        uploads, kept_history = [self._uploads[ref] for ref in action.refs], self._removal_settings.kept_history
        command = commit_command(
            self.unified, self.remote, self._partition, self.claimant, uploads, self._now_ms(), kept_history
        )
        self._send(command, self._committed)

    def _committed(self, report: commands.Report) -> None:
        if isinstance(report, commands.ManifestRead):
            self.remote.apply(report.view)
            self._uploads = {ref: up for ref, up in self._uploads.items() if ref.end > report.view.remote_end}
            self._step(plan_events.CommitDone(report.view.remote_end))
        elif isinstance(report, commands.MovedReport):
            self.remote.refresh()
            self._step(plan_events.RemoteEndMoved(report.remote_end))
        elif not self._ended(report):
            warn(self._partition, "commit", report)
            self.unified.metrics.remote_copy_errors += 1
            self._step(plan_events.CommitFailed(self._dice.random()))

    def _read_back(self, action: plan_events.SendReadBack) -> None:
        command = commands.ReadBack(self._partition, action.start, action.end, self.claimant.incarnation, self.claimant)
        self._send(command, self._verified)

    def _verified(self, report: commands.Report) -> None:
        if isinstance(report, commands.VerifiedUpTo):
            self._step(plan_events.ReadBackDone(report.offset))
        elif not self._ended(report):
            warn(self._partition, "read-back", report)
            self._step(plan_events.ReadBackFailed(self._dice.random()))

    def _evict_below(self, action: plan_events.EvictBelow) -> None:
        self.evictable_offset = action.offset
        self.evict()

    def evict(self) -> None:
        """Apply local retention to what is safely archived; a disk that fails goes offline."""
        if self._closed or self.removal.keeps_local or self.evictable_offset <= self.unified.log.first_base_offset:
            return
        if evict_local(self.unified, self.evictable_offset, self._now_ms()):
            self._local_files_changed()

    def _local_files_changed(self) -> None:
        """Note that local files are gone: evicted, below a moved log start, or set aside because the archive won."""
        self._local_start = self.unified.log.first_base_offset
        self.seals.end = max(self.seals.end, self._local_start)
        self._step(plan_events.Evicted(self._local_start))

    def _tell(self, action: plan_events.StandDown | plan_events.ReportLost) -> None:
        tell(self._partition, action)

    def _gap(self, action: plan_events.ReportGap) -> None:
        if self.log_start.resume_at() is None:  # otherwise the next commit moves the manifest's log start past it
            tell(self._partition, action)

    def _quarantine(self, action: plan_events.ReportQuarantine) -> None:
        self.corrupt = action.reason
        tell(self._partition, action)

    # -- log start ------------------------------------------------------------------------------------------------

    def _move_log_start(self) -> None:
        """Move the log start of the manifest or of the log, whichever is behind."""
        known = self.remote.log_start_offset
        if known is None or not self.log_start.may_move(known, self._plan.remote_end, self._elapsed_ms()):
            return
        if self._plan.phase is Phase.UNCLAIMED and self.log_start.has_expired(known):
            self._step(plan_events.ClaimWanted())  # what expired has to go, also where nothing is copied any more
        elif self._plan.phase is Phase.HELD:
            self.log_start.turn.start()
            self._send(self.log_start.command(), self._log_start_moved)

    def _log_start_moved(self, report: commands.Report) -> None:
        self.log_start.turn.busy = False
        if isinstance(report, commands.ManifestRead):
            self.log_start.turn.succeed()
            self.remote.apply(report.view)
            if report.view.remote_end > self._plan.remote_end:  # readers may have seen it before
                self._step(plan_events.RemoteEndMoved(report.view.remote_end))
        elif not self._ended(report):
            warn(self._partition, "moving the log start", report)
            self.log_start.turn.fail(self._settings.backoff, self._dice.random(), self._elapsed_ms())

    def _ended(self, report: commands.Report) -> bool:
        """Whether the archive has another leader, is lost or is in the trash; then the plan knows, or is a new one."""
        if isinstance(report, commands.FencedReport):
            self._step(plan_events.FencedOut(report.message))
        elif isinstance(report, commands.LostReport):
            self.lost_reason = report.message
            self._step(plan_events.ArchiveLost(report.message, self._dice.random()))
        elif isinstance(report, commands.DeletedReport):
            log.warning("%s: archiving begins anew: %s", self._partition, report.message)
            self._restart()
        else:
            return False
        return True

    _ACTIONS: ClassVar[dict[type, Callable[[Archive, Any], None]]] = {
        plan_events.SendClaim: _claim,
        plan_events.SendUpload: _upload,
        plan_events.SendCommit: _commit,
        plan_events.SendReadBack: _read_back,
        plan_events.EvictBelow: _evict_below,
        plan_events.StandDown: _tell,
        plan_events.ReportGap: _gap,
        plan_events.ReportLost: _tell,
        plan_events.ReportQuarantine: _quarantine,
    }
