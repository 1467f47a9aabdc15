"""Begins and ends the comparisons of logs with their archives, at most one for each log at a time.

A data directory went back in time if an older copy of the disk was put back. Its logs may then give out offsets that are
archived already, with other records. Each log takes no requests until it has been compared with its archive, and the
archive wins. `Reconciling` is one comparison; this module decides when one begins:

- at a start that may lack what was archived (`Comparisons.begin`);
- when a claim or a manifest gives a reason to doubt one log (`Comparisons.compare`);
- when the bucket shows a run of this broker that its directory does not know (`Comparisons.second_timeline`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from stratalog.broker.archive.bucket_gate import BucketGate
from stratalog.broker.archive.checkpoints import ArchiveCheckpoints
from stratalog.broker.archive.partition_archive import Archive
from stratalog.broker.archive.reconciling import Reconciling, TimelinePorts
from stratalog.broker.archive.timelines import Timelines, TransactionPorts
from stratalog.broker.replicas.led import Led
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.workers.io_worker import Submit
from stratalog.hot.storage.checkpoint import RemoteLogState
from stratalog.tier.manifests.manifest import Claimant

__all__ = ["ComparisonPorts", "Comparisons"]

_CLEAR_SECONDS: Final = 1.0
"""Doubts that are settled in this time go by one write."""
_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class ComparisonPorts(Struct, frozen=True):
    """The ports that the archive side of a broker hands in.

    ``archives`` are those of all partitions that are led. ``renew`` replaces a partition's archive by one that claims under
    the partition's present leader epoch. ``later`` calls a callable after some seconds.
    """

    submit: Submit
    gate: BucketGate
    checkpoints: ArchiveCheckpoints
    timelines: Timelines
    transactions: TransactionPorts
    archives: Mapping[UnifiedLog, Archive]
    renew: Callable[[UnifiedLog], Archive]
    cluster_id: str
    now_ms: Callable[[], int]
    later: Callable[[float, Callable[[], None]], object]


class Comparisons:
    """The comparisons of all partitions that are led here."""

    def __init__(self, ports: ComparisonPorts) -> None:
        self.running: dict[UnifiedLog, Reconciling] = {}
        """A log's archive neither uploads nor evicts while its comparison is here."""
        self._ports = ports
        self._all_suspect = False
        """Whether the doubt about all logs is on disk."""
        self._agreed: list[UnifiedLog] = []
        """Logs that agree with their archives; their transactions are judged when no comparison runs."""
        self._clearing = False

    def begin(self, archive: Archive, state: RemoteLogState | None, led: Led) -> None:
        """Compare a partition that is led from now on, if its start may lack what was archived (rule 8).

        ``state`` is the checkpoint of the archive's bounds; None if there is none.
        """
        suspect = self._ports.checkpoints.is_suspect(archive.unified)
        certain = self._ports.checkpoints.is_certain(archive.unified)
        if led is Led.UNCLEAN:  # it may have led before in this run
            state = _state_of(archive) or state
        reconciling = self._new(archive, state, led)
        complete = led is Led.TAKEN_OVER  # a member of the in-sync set has all that was committed, and so archived
        needed = archive.unified.comparison_owed or (not complete and reconciling.needed())
        if led is not Led.CREATED and (suspect or needed):
            # A log that was served all the time, or is only doubted, goes on; it stops only if its archive turns out to know
            # better.
            self._start(archive, reconciling, hold=(certain or needed) and led is not Led.RECONFIGURED)
        if certain:  # an earlier start may have ended before it was through with this
            self._ports.transactions.retire_producers()

    def compare(self, archive: Archive, why: str, *, hold: bool) -> None:
        """Compare a log that is served, for the reason ``why``.

        With ``hold`` it is certain that the log lacks something: it takes no requests until the comparison has ended.
        """
        log.log(logging.ERROR if hold else logging.INFO, "%s", why)
        if hold:
            self._went_back()
        running = self.running.get(archive.unified)
        if running is not None:  # it claims for itself, and meets the same
            if hold:
                _hold(running, archive.unified)
        elif self._ports.checkpoints.suspect(archive.unified, certain=hold):
            self._compare(archive, hold=hold)
        else:  # the disk did not take the note; without it, a crash during the comparison would forget the doubt
            archive.compare_later()

    def second_timeline(self, why: str) -> None:
        """Compare all logs: the bucket shows a run that the directory does not know. ``why`` is logged.

        The doubt is written to the disk first, because the broker's next note in the bucket replaces the proof.
        """
        if self._all_suspect:
            return
        self._all_suspect = self._ports.checkpoints.suspect_all()
        log.error("%s. Each log is compared with its archive before it goes on; the archive wins", why)
        self._went_back()
        for archive in list(self._ports.archives.values()):
            running = self.running.get(archive.unified)
            if running is None:
                self._compare(archive, hold=True)
            else:
                _hold(running, archive.unified)

    def _went_back(self) -> None:
        """Producer ids and transactions come from logs of this disk as well."""
        self._ports.timelines.skip_producers()
        self._ports.transactions.retire_producers()

    def forget(self, unified: UnifiedLog) -> None:
        """Drop a partition that is led no longer."""
        reconciling = self.running.pop(unified, None)
        if reconciling is not None:
            reconciling.close()
            self._judge_transactions()

    def waiting(self) -> Iterable[tuple[UnifiedLog, Reconciling]]:
        """The comparisons whose archive has failed to answer, and is asked again."""
        return [(unified, reconciling) for unified, reconciling in self.running.items() if reconciling.waits_for]

    def _compare(self, archive: Archive, *, hold: bool) -> None:
        self._start(archive, self._new(archive, _state_of(archive)), hold=hold)

    def _start(self, archive: Archive, reconciling: Reconciling, *, hold: bool) -> None:
        unified = archive.unified
        self.running[unified] = reconciling
        unified.comparison_owed |= hold
        archive.comparing()

        def finished() -> None:
            unified.comparison_owed = False
            self.running.pop(unified, None)
            current = self._ports.archives.get(unified)  # another one than ``archive`` if the epoch was raised
            if current is not None:
                current.compared()
            self._judge_transactions()

        reconciling.start(finished, hold=hold)

    def _judge_transactions(self) -> None:
        """Once nothing is compared any more: the logs speak for each other."""
        if not self.running:
            agreed, self._agreed = self._agreed, []
            for unified in agreed:
                self._ports.transactions.judge(unified, partial(self._clear, unified))

    def _clear(self, unified: UnifiedLog) -> None:
        """Forget the doubt. It is off the disk soon: a kill before that would have the next start doubt again."""
        self._ports.checkpoints.clear(unified)
        if not self._clearing:
            self._clearing = True
            self._ports.later(_CLEAR_SECONDS, self._write_cleared)

    def _write_cleared(self) -> None:
        self._clearing = False
        if self._ports.archives:  # this broker goes on
            self._ports.checkpoints.write_cleared()

    def _new(self, archive: Archive, state: RemoteLogState | None, led: Led = Led.RECONFIGURED) -> Reconciling:
        ports = self._ports
        return Reconciling(
            archive.unified,
            archive.remote,
            claimant=archive.claimant,
            cluster_id=ports.cluster_id,
            submit=ports.submit,
            now_ms=ports.now_ms,
            checkpoint=state,
            lost=led is Led.LOST,
            elected_uncleanly=led is Led.UNCLEAN,
            later=ports.later,
            timeline=self._timeline(archive.unified),
        )

    def _timeline(self, unified: UnifiedLog) -> TimelinePorts:
        ports = self._ports

        def restarts() -> bool:
            ports.transactions.retire_producers()
            return ports.checkpoints.suspect(unified)

        return TimelinePorts(
            made=ports.gate.equal_claims,
            raise_epoch=partial(self._raise_epoch, unified),
            compared=lambda: self._agreed.append(unified),
            restarts=restarts,
        )

    def _raise_epoch(self, unified: UnifiedLog, above: int, done: Callable[[Claimant], None]) -> None:
        """Have the leader epoch raised for the comparison that runs, and ``done`` called with the new claimant."""
        ports, asking = self._ports, self.running[unified]

        def raised() -> None:
            if self.running.get(unified) is asking:  # otherwise the archive that is there now is not being compared
                archive = ports.renew(unified)
                archive.comparing()
                done(archive.claimant)

        def note() -> None:
            """The next claim replaces the proof, so what was a mere doubt is written down as certain before it."""
            if self.running.get(unified) is not asking:
                return
            if ports.checkpoints.suspect(unified):
                ports.timelines.raise_epoch(unified, above, raised, refused=partial(asking.epoch_refused, above))
            else:
                asking.waits_for = "its disk takes no note that the log lacks something: free some of it"
                ports.later(_RETRY_SECONDS, note)

        self._went_back()
        note()


def _hold(running: Reconciling, unified: UnifiedLog) -> None:
    """Have a comparison that runs hold its partition back."""
    unified.comparison_owed = True
    running.hold()


def _state_of(archive: Archive) -> RemoteLogState | None:
    remote = archive.remote
    return remote.state if remote.known else None
