"""The metadata log as the quorum sees it: offsets, epochs, snapshots and voters, without a byte of its records.

A `LogView` is a value. A change makes another one, so a caller can compare before and after, and a model can keep
thousands. Kafka's rules are those of ``KafkaRaftLog`` and ``LeaderEpochFileCache``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from stratalog.metadata.raft.messages import Batch, KRaftVersion, OffsetAndEpoch, Voters
from stratalog.metadata.raft.voter_set import VoterSet
from stratalog.wire.errors import Invalid

__all__ = ["BEFORE_THE_LOG", "EpochStart", "LogView"]

BEFORE_THE_LOG: Final = -1
"""The offset of voters and versions that no record in the log has set: those of settings or of `format`."""

_Value = TypeVar("_Value")


class EpochStart(NamedTuple):
    """An epoch, and the offset of its first record."""

    epoch: int
    offset: int


class LogView(Struct, frozen=True):
    """One replica's log. Offsets count records; every end is exclusive."""

    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    """Where the part ends that is on disk whatever happens."""
    epochs: tuple[EpochStart, ...] = ()
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Whole and synced, oldest first."""
    voter_sets: tuple[tuple[int, VoterSet], ...] = ()
    """By the offset of their record, the newest last."""
    kraft_versions: tuple[tuple[int, int], ...] = ()
    """Levels by the offset of their record, the newest last."""

    # -- what is in it -------------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, which may lie in the snapshot only; 0 for a log that has never had any."""
        if self.epochs:
            return self.epochs[-1].epoch
        return self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def voters(self) -> VoterSet:
        """The newest voters in the log, committed or not: they count from their append on (KIP-853)."""
        return self.voter_sets[-1][1] if self.voter_sets else VoterSet()

    @property
    def voters_offset(self) -> int:
        """The offset of the record with these voters."""
        return self.voter_sets[-1][0] if self.voter_sets else BEFORE_THE_LOG

    @property
    def kraft_version(self) -> int:
        """The newest level of ``kraft.version`` in the log: 0 static voters, 1 voters that change."""
        return self.kraft_versions[-1][1] if self.kraft_versions else 0

    def voters_at(self, end_offset: int) -> VoterSet:
        """The voters that the records below ``end_offset`` leave."""
        return next((voters for offset, voters in reversed(self.voter_sets) if offset < end_offset), VoterSet())

    def kraft_version_at(self, end_offset: int) -> int:
        """The level that the records below ``end_offset`` leave."""
        return next((level for offset, level in reversed(self.kraft_versions) if offset < end_offset), 0)

    def is_covered_by(self, last_epoch: int, end_offset: int) -> bool:
        """Whether a log with this last epoch and end has all that this one may have: Raft's "up to date" (5.4.1)."""
        return (last_epoch, end_offset) >= (self.last_epoch, self.end_offset)

    @property
    def overtaken_by(self) -> OffsetAndEpoch | None:
        """The newest snapshot, if the log ends below it or in an older epoch; a start then begins an empty log behind it.

        An observer that does not sync its log, but its snapshots, comes to this by a power cut.
        """
        newest = self.snapshots[-1] if self.snapshots else None
        last = (
            self.epochs[-1].epoch if self.epochs else newest.epoch if newest and self.end_offset >= newest.offset else 0
        )
        return newest if newest and (newest.epoch, newest.offset) > (last, self.end_offset) else None

    def epoch_at(self, end_offset: int) -> int:
        """The epoch of the record before ``end_offset``."""
        for epoch, offset in reversed(self.epochs):
            if offset < end_offset:
                return epoch
        return next((each.epoch for each in reversed(self.snapshots) if each.offset == end_offset), 0)

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """Where the records of the largest epoch up to ``epoch`` end; the log end for an epoch above all.

        For an epoch below all of the log it is the first offset, under the epoch that was asked for.
        """
        if not self.epochs or epoch > self.epochs[-1].epoch:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        end, found = self.end_offset, epoch
        for known, offset in reversed(self.epochs):
            if known <= epoch:
                found = known
                break
            end = offset
        return OffsetAndEpoch(end, found)

    def where_parts(self, offset: int, last_epoch: int) -> OffsetAndEpoch | None:
        """Where this log ends for a replica at ``offset`` whose last record is of ``last_epoch``.

        None if the replica's log is a beginning of this one: it goes on from its offset.
        """
        end = self.end_of(last_epoch)
        return None if end.epoch == last_epoch and end.offset >= offset else end

    def snapshot_for(self, offset: int, last_epoch: int) -> OffsetAndEpoch | None:
        """The snapshot with which a replica at ``offset`` has to begin; None if the log serves it.

        An empty replica gets the snapshot even where the log still has offset 0, as in Kafka.
        """
        if not self.snapshots or self.snapshots[-1].offset == 0:
            return None
        first = self.snapshots[0]
        cleaned = self.start_offset > 0 and (
            offset < self.start_offset
            or (offset == self.start_offset and last_epoch != first.epoch)
            or last_epoch < first.epoch
        )
        return self.snapshots[-1] if offset == 0 or cleaned else None

    # -- changes of it -------------------------------------------------------------------------------------------------

    def appended(self, batches: Iterable[Batch]) -> LogView:
        """With these batches at its end. Raises `Invalid` for a gap, or for an epoch that goes back."""
        end, epochs = self.end_offset, list(self.epochs)
        voter_sets, levels = list(self.voter_sets), list(self.kraft_versions)
        for batch in batches:
            last = epochs[-1].epoch if epochs else self.last_epoch
            if batch.base_offset != end or batch.epoch < last or batch.end_offset <= end:
                raise Invalid(
                    f"a batch [{batch.base_offset}, {batch.end_offset}) of epoch {batch.epoch} does not follow the "
                    f"metadata log's end {end} in epoch {last}"
                )
            if not epochs or batch.epoch > last:
                epochs.append(EpochStart(batch.epoch, end))
            for offset, record in enumerate(batch.control, end):
                if isinstance(record, Voters):
                    voter_sets.append((offset, record.voters))
                elif isinstance(record, KRaftVersion):
                    levels.append((offset, record.level))
            end = batch.end_offset
        return replace(
            self, end_offset=end, epochs=tuple(epochs), voter_sets=tuple(voter_sets), kraft_versions=tuple(levels)
        )

    def truncated(self, offset: int) -> LogView:
        """Without the records from ``offset`` on: their epochs, voters and levels never were."""
        if offset >= self.end_offset:
            return self
        return replace(
            self,
            end_offset=offset,
            flushed_offset=min(self.flushed_offset, offset),
            epochs=tuple(each for each in self.epochs if each.offset < offset),
            voter_sets=tuple(each for each in self.voter_sets if each[0] < offset),
            kraft_versions=tuple(each for each in self.kraft_versions if each[0] < offset),
        )

    def flushed(self, end_offset: int) -> LogView:
        """With the records below ``end_offset`` on disk."""
        return replace(self, flushed_offset=max(self.flushed_offset, end_offset))

    def with_snapshot(self, snapshot: OffsetAndEpoch) -> LogView:
        """With one snapshot more, of its own records."""
        return replace(self, snapshots=tuple(sorted({*self.snapshots, snapshot})))

    def cleaned(self, snapshot: OffsetAndEpoch) -> LogView:
        """Without the records and the snapshots below ``snapshot``, which it has. Raises `Invalid` if it has not."""
        if snapshot not in self.snapshots:
            raise Invalid(f"the metadata log cannot begin at {snapshot}: there is no such snapshot on disk")
        start = snapshot.offset
        kept = [each for each in self.epochs if each.offset > start]
        covering = [each for each in self.epochs if each.offset <= start]
        if covering:
            kept.insert(0, EpochStart(covering[-1].epoch, start))
        return replace(
            self,
            start_offset=max(self.start_offset, start),
            epochs=tuple(kept),
            snapshots=tuple(each for each in self.snapshots if each >= snapshot),
            voter_sets=_from(self.voter_sets, start),
            kraft_versions=_from(self.kraft_versions, start),
        )

    def restarted_at(self, snapshot: OffsetAndEpoch, voters: VoterSet, kraft_version: int) -> LogView:
        """An empty log behind a snapshot of the leader, with the voters and the level that the snapshot has."""
        at = snapshot.offset - 1
        return LogView(
            start_offset=snapshot.offset,
            end_offset=snapshot.offset,
            flushed_offset=snapshot.offset,
            snapshots=(snapshot,),
            voter_sets=((at, voters),) if voters.voters else self.voter_sets[:1],
            kraft_versions=((at, kraft_version),),
        )


def _from(records: tuple[tuple[int, _Value], ...], start: int) -> tuple[tuple[int, _Value], ...]:
    """The records at or above ``start``, and the last one below it."""
    below = [each for each in records if each[0] < start]
    return (*below[-1:], *(each for each in records if each[0] >= start))
