"""Which logs are being compared with their archives, at the start and when the bucket shows a run that nobody here made.

A data directory that went back in time (an older copy of the disk was put back) may give out offsets that are archived
already, with other records. Then the log takes no requests until the two have been compared, and the archive wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stratalog.broker.archive import Archive
from stratalog.broker.archive_checkpoints import ArchiveCheckpoints
from stratalog.broker.bucket_gate import BucketGate
from stratalog.broker.io_worker import Submit
from stratalog.broker.led_partitions import Led
from stratalog.broker.reconciling import Reconciling, TimelinePorts
from stratalog.broker.timelines import Timelines
from stratalog.broker.unified_log import UnifiedLog
from stratalog.hot.checkpoint import RemoteLogState
from stratalog.tier.manifest import Claimant

__all__ = ["ComparisonPorts", "Comparisons"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ComparisonPorts:
    """What the archive side of a broker lends. ``renew`` begins a partition's archive anew under its present epoch."""

    submit: Submit
    gate: BucketGate
    checkpoints: ArchiveCheckpoints
    timelines: Timelines
    archives: Mapping[UnifiedLog, Archive]
    renew: Callable[[UnifiedLog], Archive]
    cluster_id: str
    now_ms: Callable[[], int]
    later: Callable[[float, Callable[[], None]], object]


class Comparisons:
    """Those of all partitions that are led here."""

    def __init__(self, ports: ComparisonPorts) -> None:
        self.running: dict[UnifiedLog, Reconciling] = {}
        self._ports = ports
        self._all_suspect = False

    def begin(self, archive: Archive, state: RemoteLogState | None, led: Led) -> None:
        """Compare a partition that is led from now on, if it has to be (rule 8)."""
        unified = archive.unified
        suspect = self._ports.checkpoints.is_suspect(unified)
        reconciling = self._of(archive, state, lost=led is Led.LOST)
        if led is not Led.CREATED and (suspect or reconciling.needed()):
            # A log that was served all the time goes on; it stops only if its archive turns out to know better.
            self._start(archive, reconciling, hold=led is not Led.RECONFIGURED)

    def compare(self, archive: Archive, why: str, *, hold: bool) -> None:
        """Compare one that is served; ``hold`` it back meanwhile where it is certain that something is missing."""
        log.log(logging.ERROR if hold else logging.INFO, "%s", why)
        if hold:
            self._ports.timelines.skip_producers(archive.unified)
        if archive.unified in self.running:
            return  # it claims for itself, and meets the same
        if self._ports.checkpoints.suspect(archive.unified):
            self._compare(archive, hold=hold)
        else:
            archive.compare_later()

    def second_timeline(self, why: str) -> None:
        """Compare all: the bucket shows a run that the directory does not know.

        That is written down first, because the bucket forgets it with the next write.
        """
        if self._all_suspect:
            return
        self._all_suspect = self._ports.checkpoints.suspect_all()
        log.error("%s. Each log is compared with its archive before it goes on; the archive wins", why)
        for archive in list(self._ports.archives.values()):
            if archive.unified not in self.running:
                self._ports.timelines.skip_producers(archive.unified)
                self._compare(archive, hold=True)

    def forget(self, unified: UnifiedLog) -> None:
        """Drop a partition that is led no longer."""
        reconciling = self.running.pop(unified, None)
        if reconciling is not None:
            reconciling.close()

    def waiting(self) -> Iterable[tuple[UnifiedLog, Reconciling]]:
        """Those whose archive has not answered so far."""
        return [(unified, one) for unified, one in self.running.items() if one.waits_for]

    def _compare(self, archive: Archive, *, hold: bool) -> None:
        remote = archive.remote
        state = RemoteLogState(remote.start_offset, remote.end_offset, remote.size_bytes) if remote.known else None
        self._start(archive, self._of(archive, state, lost=False), hold=hold)

    def _start(self, archive: Archive, reconciling: Reconciling, *, hold: bool) -> None:
        unified = archive.unified
        self.running[unified] = reconciling
        archive.comparing()

        def finished() -> None:
            self.running.pop(unified, None)
            current = self._ports.archives.get(unified)
            if current is not None:
                current.compared()

        reconciling.start(finished, hold=hold)

    def _of(self, archive: Archive, state: RemoteLogState | None, *, lost: bool) -> Reconciling:
        ports = self._ports
        return Reconciling(
            archive.unified,
            archive.remote,
            claimant=archive.claimant,
            cluster_id=ports.cluster_id,
            submit=ports.submit,
            now_ms=ports.now_ms,
            checkpoint=state,
            lost=lost,
            later=ports.later,
            timeline=self._timeline(archive.unified),
        )

    def _timeline(self, unified: UnifiedLog) -> TimelinePorts:
        ports = self._ports

        def renewed() -> Claimant:
            archive = ports.renew(unified)
            archive.comparing()
            return archive.claimant

        return TimelinePorts(
            made=ports.gate.equal_claims,
            raise_epoch=lambda above, done: ports.timelines.raise_epoch(unified, above, lambda: done(renewed())),
            compared=lambda: ports.checkpoints.clear(unified),
        )
