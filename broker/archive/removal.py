"""One leadership's removals: the trash of its partition's archive, and all of the archive when tiering is switched off.

No removal is urgent. The worker empties the trash now and then, and only if there is any; the next
leader goes on with the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from stratalog.broker.archive.retention import retained_bytes
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.settings.config import BrokerConfig
from stratalog.hot.log.log import Log
from stratalog.tier.bucket.trash import TIERING_OFF, Retention
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.history import KeptHistory
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages import commands
from stratalog.tier.stores.backoff import Backoff, BackoffSettings
from stratalog.wire.errors import Corrupt

__all__ = ["ArchiveRemoval", "RemovalPorts", "RemovalSettings", "may_have_archive"]

_FIRST_LOOK_INTERVALS: Final = 10
"""The first look after a start comes within so many intervals, by chance: ten thousand partitions must not ask at once."""
_READ_PAUSES: Final = BackoffSettings()
"""Between reads of a manifest that is not known, while tiering is switched off."""
_NEVER_MS: Final = 1 << 62
_DOUBLINGS_MAX: Final = 8
_OTHERS_MS: Final = 3_600_000
"""Changes by jobs and cuts to a manifest are noticed with the next commit, and within this time where none comes."""
_PAUSE_INTERVALS_MAX: Final = 20
"""Trash that cuts, leases or retention hold for long is looked at less
and less often, up to once in so many intervals.
"""

log = logging.getLogger(__name__)


class RemovalSettings(Struct, frozen=True):
    """The settings that removals obey; each may change while the broker runs."""

    grace_ms: Callable[[], int] = lambda: 86_400_000
    interval_ms: Callable[[], int] = lambda: 180_000
    history_copies_min: Callable[[], int] = lambda: 16

    @classmethod
    def of(cls, config: Callable[[], BrokerConfig]) -> RemovalSettings:
        """Those of a broker, whose settings are replaced as a whole where one changes."""
        return cls(
            lambda: config().integer("stratalog.trash.grace.ms"),
            lambda: config().integer("stratalog.trash.check.interval.ms"),
            lambda: config().integer("stratalog.history.copies.min"),
        )

    @property
    def kept_history(self) -> KeptHistory:
        """Which copies of earlier manifests stay, as of now."""
        return KeptHistory(self.history_copies_min(), self.grace_ms())


class RemovalPorts(Struct, frozen=True):
    """The leadership's ports: how to send, to want the claim, to end with a
    report, to begin anew, to make a start durable.
    """

    send: Callable[[commands.Command, Callable[[commands.Report], None]], None]
    want_claim: Callable[[], None]
    ended: Callable[[commands.Report], bool]
    emptied: Callable[[], None]
    keep_log_start: Callable[[UnifiedLog], bool]
    now_ms: Callable[[], int]
    elapsed_ms: Callable[[], int]
    chance: Callable[[], float]


def may_have_archive(log_: Log) -> bool:
    """Whether a log's records may lie in an archive: by the topic's settings, or because its disk begins behind the log.

    So does a copy that began behind an archive. If it leads after tiering was switched off, `ArchiveRemoval` has the log
    begin where the disk does.
    """
    return log_.config.remote_storage_enable or log_.log_start_offset < log_.local_log_start_offset


class ArchiveRemoval:
    """One per leadership; `look` is called a few times a second and mostly costs two comparisons."""

    def __init__(
        self,
        unified: UnifiedLog,
        remote: RemotePartition,
        partition: PartitionId,
        claimant: Claimant,
        settings: RemovalSettings,
        ports: RemovalPorts,
    ) -> None:
        self._unified = unified
        self._remote = remote
        self._partition = partition
        self._claimant = claimant
        self._settings = settings
        self._ports = ports
        self._busy = False
        self._may_be_trashed = False
        """Whether `TrashArchive` was sent, and no answer has told since what became of the archive."""
        self._empty_at_seq = -1
        self.leased_count = 0
        """Items of the trash that only leases held when it was looked at last."""
        self._in_vain = 0
        self._told = ""
        first_ms = ports.chance() * settings.interval_ms() * _FIRST_LOOK_INTERVALS
        self._due_ms = self._behind_ms = ports.elapsed_ms() + int(first_ms)
        self._retry_ms = 0
        self._reads = Backoff()
        self._no_archive = False
        self._others_ms = ports.elapsed_ms() + int(ports.chance() * _OTHERS_MS)

    @property
    def switched_off(self) -> bool:
        """True if the topic's settings order the removal of its archive."""
        config = self._unified.log.config
        return config.remote_delete_on_disable and not config.remote_storage_enable

    @property
    def keeps_local(self) -> bool:
        """True if all that is local has to stay: the archive is about to go, or may have gone."""
        return self.switched_off or self._may_be_trashed

    def look(self, *, held: bool) -> None:
        """Send the commands that are due. ``held``: the manifest is believed to carry this leadership's claim."""
        now_ms = self._ports.elapsed_ms()
        facts = self._remote.facts
        # Known or not: jobs put things into the trash of partitions that are neither written nor read after a start.
        is_there = facts is not None or not self._remote.known or self._remote.size_bytes > 0
        if is_there and now_ms >= self._others_ms:
            self._others_ms = now_ms + _OTHERS_MS
            self._remote.refresh(entries=False)
        if (
            facts is None
            and now_ms >= self._behind_ms
            and self._unified.log.log_start_offset > self._remote.start_offset
        ):
            # An earlier leadership may have died before it moved the manifest's log start; this one may never commit.
            self._behind_ms = now_ms + self._settings.interval_ms()
            self._remote.refresh(entries=False)
        if self._busy:
            return
        if facts is not None and self._reads.failures:
            self._reads.succeed()
            self._retry_ms = 0
        if not self.switched_off:
            self._retry_ms, self._no_archive = 0, False
            if self._may_be_trashed:
                self._look_anew()
        if self.switched_off and self._may_have_to_go and now_ms >= self._retry_ms:
            self._switch_off(held=held)
        elif facts is not None and facts.trash_count and facts.seq > self._empty_at_seq:
            self._due_ms = min(self._due_ms, now_ms + self._settings.interval_ms())
        if not self._busy and now_ms >= self._due_ms:
            self._empty()

    # -- switching off --------------------------------------------------------------------------------------------

    @property
    def _may_have_to_go(self) -> bool:
        """Whether there may be an archive outside the trash; a claim that was under way may still have made one."""
        facts = self._remote.facts
        return facts is None or (not facts.deleted and (bool(facts.seq) or not self._no_archive))

    def _switch_off(self, *, held: bool) -> None:
        """KIP-950: the log begins where the local disk does, durably, and then the archive goes to the trash."""
        self._retry_ms = self._ports.elapsed_ms() + self._settings.interval_ms()
        log_ = self._unified.log
        start = min(log_.local_log_start_offset, self._unified.partition.high_watermark)
        if log_.advance_log_start(start):
            log.info("%s: tiering is switched off, the log now begins at offset %d", self._partition, start)
        if log_.log_start_offset < log_.local_log_start_offset or not self._ports.keep_log_start(self._unified):
            return
        facts = self._remote.facts
        if facts is None:
            self._reads.fail(_READ_PAUSES, self._ports.chance(), self._ports.elapsed_ms())
            self._retry_ms = self._reads.not_before_ms
            self._remote.refresh()
        elif not facts.seq:
            self._no_archive = True  # there never was one
        elif not held:
            self._retry_ms = 0
            self._ports.want_claim()
        else:
            self._busy = self._may_be_trashed = True
            command = commands.TrashArchive(self._partition, self._claimant, self._ports.now_ms(), TIERING_OFF)
            self._ports.send(command, self._trashed)

    def _trashed(self, report: commands.Report) -> None:
        self._busy = False
        if isinstance(report, commands.ManifestRead):
            self._may_be_trashed = False
            self._remote.apply(report.view)
            self._ports.emptied()
            log.info("%s: its archive is in the trash; objects go after the grace", self._partition)
        elif not self._ports.ended(report):
            self._tell("moving the archive to the trash", getattr(report, "message", str(report)))

    def _look_anew(self) -> None:
        """Tiering is on again and the answer was lost: forget what was read back before, a claim tells where the archive is."""
        self._may_be_trashed = False
        self._ports.emptied()
        self._ports.want_claim()

    # -- the trash ------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        self._due_ms = _NEVER_MS
        if not self._remote.known:
            return
        self._busy = True
        command = commands.EmptyTrash(
            self._partition, self._claimant, self._ports.now_ms(), self._settings.grace_ms(), self._retention()
        )
        self._ports.send(command, self._emptied)

    def _retention(self) -> Retention | None:
        """The topic's retention as it is now; an unknown size counts as nothing, which keeps more."""
        config = self._unified.log.config
        if not config.remote_storage_enable:
            return None
        if not config.deletes:
            return Retention(-1, -1, 0)
        live_bytes = 0
        if config.retention_bytes >= 0:
            try:
                live_bytes = retained_bytes(self._unified, self._remote)
            except (OSError, Corrupt) as error:
                self._tell("counting what is retained", str(error))
        return Retention(config.retention_ms, config.retention_bytes, live_bytes)

    def _emptied(self, report: commands.Report) -> None:
        self._busy = False
        interval_ms, now_ms = self._settings.interval_ms(), self._ports.elapsed_ms()
        if not isinstance(report, commands.TrashEmptied):
            if not self._ports.ended(report):
                self._due_ms = now_ms + interval_ms
                self._tell("emptying the trash", getattr(report, "message", str(report)))
            return
        self.leased_count = report.leased_count
        self._remote.note_trash(report)
        if report.removed_count:
            log.info("%s: %d objects left the trash", self._partition, report.removed_count)
        if report.problem:
            self._tell("emptying the trash", report.problem)
        if report.claim_needed:
            self._ports.want_claim()
        self._in_vain = 0 if report.removed_count or report.claim_needed else self._in_vain + 1
        if report.left_count or report.claim_needed:
            wait_ms = 0 if report.next_ms is None else report.next_ms - self._ports.now_ms() + 1
            pause_ms = interval_ms * min(1 << min(self._in_vain // 4, _DOUBLINGS_MAX), _PAUSE_INTERVALS_MAX)
            self._due_ms = now_ms + max(wait_ms, pause_ms)
        else:
            self._empty_at_seq = max(self._empty_at_seq, report.seq)

    def _tell(self, what: str, message: str) -> None:
        """Log each message once: a bucket that is down for a day needs no line every three minutes."""
        if message != self._told:
            self._told = message
            log.warning("%s: %s did not succeed and is tried again: %s", self._partition, what, message)
