"""The promises of replicas: nothing committed goes, and in the end all replicas are one log.

Looked at after every event of a broker; the comparison of the logs themselves comes at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sim.cluster.archives import Archives, batches_of
from sim.cluster.bit_rot import is_lost
from sim.cluster.member import Member
from sim.cluster.plan import Kind
from sim.cluster.surroundings import Surroundings
from sim.model import PartitionModel, Violation
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery, PartitionImage

__all__ = ["ReplicaChecker"]

_Key = tuple[bytes, int]
"""A partition, by the id of its topic."""


class _Mark(NamedTuple):
    """The highest mark that any replica has had."""

    offset: int
    member: Member
    leader_epoch: int


class _State(NamedTuple):
    """A replica after an event: its mark, the epoch in which it leads (-1) and with whom, and the ends of its log."""

    mark: int
    epoch: int
    in_sync: tuple[int, ...]
    end: int
    start: int
    first: int
    """Where its first local segment begins."""


_UNSEEN: Final = _State(-1, -1, (), 0, -1, -1)


class ReplicaChecker:
    """Watches the replicas of all brokers."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._marks: dict[_Key, _Mark] = {}
        self._highest: dict[_Key, int] = {}
        """The same, whatever was elected since."""
        self._deleted: dict[_Key, int] = {}
        """Up to where records had to go when they went; since then the clock may have been set back."""
        self.archives = Archives(world, self._mark_of)
        self._seen: dict[Any, _State] = {}
        """By partition object, which dies with its process."""

    # -- after every event ---------------------------------------------------------------------------------------------

    def after_event(self, member: Member) -> None:
        """Look at the replicas of a broker in whose process something has happened. Raises `Violation`."""
        seen = self._seen
        for unified in member.hosted():
            partition = unified.partition
            leader, log = partition.leader, partition.log
            now = (
                partition.high_watermark,
                -1 if leader is None else leader.epoch,
                () if leader is None else leader.state.in_sync,
                log.tail.end_offset,
                log.start.offset,
                log.first_base_offset,
            )
            before = seen.get(partition, _UNSEEN)
            if now != before:
                seen[partition] = now = _State(*now)
                self._changed(member, partition, before, now)

    def _changed(self, member: Member, partition: Any, before: _State, now: _State) -> None:
        if now.end < before.end:
            self._check_cut(member, partition)
        if now.start != before.start or now.first > before.first:
            self._check_starts(member, partition, before)
        if now[:3] != before[:3]:
            self._check_mark(member, partition, before, now)
            if partition.leader is not None:
                self._check_leader(member, partition, before, now)

    def _check_mark(self, member: Member, partition: Any, before: _State, now: _State) -> None:
        """It does not go back, and a broker that begins to lead has all below the highest of any replica."""
        name = partition.topic_partition
        if now.mark > now.end:
            raise Violation(f"{member}: the mark of {name} is {now.mark}, its log ends at {now.end}")
        unclean = self._unclean(partition)
        is_cut = now.mark == now.end and self._is_given_up(member, partition)
        if now.mark < before.mark and unclean < 0 and not is_cut:
            raise Violation(f"{member}: the mark of {name} goes back from {before.mark} to {now.mark}")
        known = self._known_mark(partition)
        begins = now.epoch > before.epoch
        if begins and known is not None and now.end < known.offset and now.epoch >= known.leader_epoch:
            raise Violation(
                f"{member} leads {name} in epoch {now.epoch} and ends at {now.end}; {known.member} had the mark at "
                f"{known.offset} in epoch {known.leader_epoch}"
            )
        is_quiet = now.epoch < 0 and (now.mark <= before.mark or before is _UNSEEN)
        if unclean >= 0 and (partition.leader_epoch < unclean or is_quiet):
            return  # of a time before the election, or not heard from its leader
        if known is None or now.mark > known.offset or self._is_recovering(partition):
            self._marks[_key(partition)] = _Mark(now.mark, member, partition.leader_epoch)
            self._highest[_key(partition)] = max(now.mark, self._highest.get(_key(partition), 0))

    def _unclean(self, partition: Any) -> int:
        """The leader epoch that the last unclean election of a partition began; -1 if there was none."""
        epoch: int = self._world.unclean.epoch(bytes(partition.topic_id), partition.topic_partition.partition)
        return epoch

    def _known_mark(self, partition: Any) -> _Mark | None:
        """The highest mark since the last unclean election."""
        known = self._marks.get(_key(partition))
        return known if known is not None and known.leader_epoch >= self._unclean(partition) else None

    def _is_recovering(self, partition: Any) -> bool:
        """Whether its leader has yet to compare its log with the archive, which wins."""
        state = self._state_of(partition)
        return state is not None and state.leader_recovery is LeaderRecovery.RECOVERING

    def _is_given_up(self, member: Member, partition: Any) -> bool:
        """Whether its disk has lost some of the log, so that it counts nowhere and copies it again."""
        state = self._state_of(partition)
        return state is not None and is_lost(state, member)

    def _state_of(self, partition: Any) -> PartitionImage | None:
        topic = self._world.newest_image().topics.by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.topic_partition.partition)

    def _check_leader(self, member: Member, partition: Any, before: _State, now: _State) -> None:
        if now.epoch == before.epoch and now.mark > before.mark and not self._is_recovering(partition):
            self._check_enough(member, partition.leader.state, str(partition.topic_partition))
        if now.epoch < self._unclean(partition):
            return  # its followers have another leader, whose log they are cut to
        if now.mark > before.mark or not set(now.in_sync).issubset(before.in_sync):
            self._check_copies(member, partition)

    @staticmethod
    def _check_enough(member: Member, state: Any, name: str) -> None:
        """A mark rises only with enough replicas in sync: others may be elected for what they have below it (KIP-966)."""
        least = min(state.min_insync_replicas, len(state.replicas))
        if len(state.in_sync) < least:
            raise Violation(f"{member} moves the mark of {name} with {state.in_sync} in sync, {least} are needed")

    def _check_starts(self, member: Member, partition: Any, before: _State) -> None:
        """Log starts do not go back, records go only if they had to, and leave the disk only for the archive."""
        log, name = partition.log, partition.topic_partition
        start, local_start = log.log_start_offset, log.local_log_start_offset
        # A copy that begins anew behind the archive takes its leader's start, as in Kafka.
        begins_anew = partition.follower is not None and log.first_base_offset > before.end
        if start < before.start and self._unclean(partition) < 0 and not begins_anew:
            raise Violation(f"{member}: the log start of {name} goes back from {before.start} to {start}")
        topic = self._world.model.topics.get(partition.topic_id)
        if topic is None:
            return
        model = topic.partitions[name.partition]
        if start > before.start:
            self._check_deleted(member, model, start)
        if local_start > max(start, before.first):
            self.archives.check_evicted(model, local_start, str(member))

    def _check_deleted(self, member: Member, partition: PartitionModel, start: int) -> None:
        """Records below a log start were deleted, or are older than retention, by the clocks that were not set."""
        key = partition.topic.topic_id, partition.number
        checked = max(partition.deleted_to, self._deleted.get(key, 0))
        retention_ms, now_ms = partition.topic.retention_ms, member.clock.wall_ms()
        self._deleted[key] = max(checked, start)
        if ("clock" in self._world.plan.faults and retention_ms >= 0) or partition.may_lack_records:
            return
        for offset in range(checked, start):
            value = partition.known.get(offset)
            if value is None:
                continue
            if retention_ms < 0 or partition.sent[value].timestamp_ms > now_ms - retention_ms:
                raise Violation(f"{member}: {partition} starts at {start}, but offset {offset} was to be kept")

    def _mark_of(self, partition: PartitionModel) -> int:
        return self._highest.get((partition.topic.topic_id, partition.number), -1)

    def _check_cut(self, member: Member, partition: Any) -> None:
        """A log that was cut still has all that is committed, if its broker is in sync: it may be elected next."""
        name, known = partition.topic_partition, self._known_mark(partition)
        state, end = self._state_of(partition), partition.log.log_end_offset
        if state is None or state.leader_recovery is LeaderRecovery.RECOVERING:
            return
        if member.id in state.in_sync_replicas and known is not None and end < known.offset:
            raise Violation(
                f"{member} is in sync and cuts {name} to {end}; {known.member} had the mark at {known.offset}"
            )

    def _check_copies(self, leader: Member, partition: Any) -> None:
        """Records below a leader's mark are in the log of every member of its in-sync set."""
        mark = partition.high_watermark
        for broker_id in partition.leader.state.in_sync:
            member: Member = self._world.members[broker_id]
            copy = member.replica(partition.topic_partition, partition.topic_id)
            if member is leader or copy is None or not _has_heard_of_losses(leader, member):
                continue
            if self._is_given_up(member, copy.partition):
                continue
            log = copy.partition.log
            end = log.written_offset if log.config.flush_messages > 1 else log.flushed_offset
            if end < mark:
                raise Violation(
                    f"{leader} has the mark of {partition.topic_partition} at {mark} in epoch {partition.leader_epoch}; "
                    f"{member}, in sync, has {end}"
                )

    # -- at the end ----------------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """Return what replicas still lack, or None once all of them are in sync."""
        for name, number, state in self._partitions():
            if state.leader == NO_LEADER:
                return f"{name}-{number} has no leader: {state}"
            if set(state.in_sync_replicas) != set(state.replicas):
                return f"{name}-{number}: {state.in_sync_replicas} of {state.replicas} are in sync"
            if state.adding_replicas or state.removing_replicas:
                return f"{name}-{number} is still moved: {state}"
        return None

    def unequal(self) -> str | None:
        """Return how replicas still differ, or None once all are one log, up to its end. All writers have ended."""
        for name, number, state in self._partitions():
            views = [self._view(name, number, broker_id) for broker_id in state.replicas]
            for broker_id, view in zip(state.replicas, views, strict=True):
                found = _difference(views[0], view)
                if found is not None:
                    return f"{name}-{number}: brokers {state.replicas[0]} and {broker_id} have {found}"
        for topic in self._world.model.living():
            for partition in topic.partitions if topic.tiered else ():
                found = self._archive_problem(partition)
                if found is not None:
                    return found
        return None

    def _archive_problem(self, partition: PartitionModel) -> str | None:
        topic = self._world.newest_image().topics.by_id[partition.topic.topic_id]
        leader: Member | None = self._world.members.get(topic.partitions[partition.number].leader)
        found = None if leader is None else self._replica(leader, topic.name, partition.number)
        if found is None:
            return f"{partition} has no leader"
        return self.archives.behind(partition, found.partition.log)

    def _replica(self, member: Member, name: str, number: int) -> Any:
        for one in member.hosted():
            if one.topic_partition.topic == name and one.topic_partition.partition == number:
                return one
        return None

    def _view(self, name: str, number: int, broker_id: int) -> _View:
        found = self._replica(self._world.members[broker_id], name, number)
        if found is None:
            return _View(None, (), (), 0, {}, is_cleaned=False)
        partition = found.partition
        log = partition.log
        start, end, plan = log.log_start_offset, log.log_end_offset, self._world.plan
        epochs = tuple(  # one that was copied from inside a batch begins with the batch
            (one.epoch, max(one.start_offset, start)) for one in log.leader_epochs.entries if one.start_offset < end
        )
        if plan.kind is Kind.EXPIRING and "clock" in plan.faults:
            start, epochs = 0, ()  # each broker deletes what is old by its own clock
        return _View(
            (start, partition.high_watermark, end),
            epochs,
            _producers(log) if self._keeps_all(name) else (),
            log.local_log_start_offset,
            batches_of(log),
            is_cleaned=bool(log.may_have_gaps) and dict(plan.settings).get("log.cleaner.enable") == "true",
        )

    def _keeps_all(self, name: str) -> bool:
        """Whether all records of a topic are kept, here or in its archive."""
        plan = self._world.plan
        return name.startswith("replicated") and plan.kind in {Kind.PLAIN, Kind.TIERED} and "delete" not in plan.changes

    def _partitions(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """Those with several replicas."""
        for topic in self._world.newest_image().topics.by_id.values():
            for number, state in topic.partitions.items():
                if len(state.replicas) > 1:
                    yield topic.name, number, state


class _View(NamedTuple):
    """One replica at the end."""

    offsets: tuple[int, int, int] | None
    """Log start, mark, end; None without a log."""
    epochs: tuple[Any, ...]
    producers: tuple[Any, ...]
    """Its state of each producer, if no record has gone: one that was deleted tells a new replica nothing."""
    local_start: int
    batches: dict[int, bytes]
    is_cleaned: bool
    """The cleaner of each broker works at its own pace: batches of one base offset need not be equal."""


def _has_heard_of_losses(leader: Member, member: Member) -> bool:
    """Whether the leader's image has a registration of the other that is younger than all that it lost."""
    broker = None if leader.image is None else leader.image.brokers.brokers.get(member.id)
    return broker is not None and broker.epoch > member.lost_in


def _producers(log: Any) -> tuple[Any, ...]:
    """Each producer that a log knows: its epoch, its last sequence, and where its open transaction began."""
    entries = log.producer_state.entries.values()
    return tuple(
        sorted(
            (one.producer_id, one.producer_epoch, one.last_sequence, one.transaction_first_offset) for one in entries
        )
    )


def _key(partition: Any) -> _Key:
    return bytes(partition.topic_id), partition.topic_partition.partition


def _difference(one: _View, other: _View) -> str | None:
    """In words, how two replicas differ; None if they do not. Records that one of them has in the archive alone are left out."""
    if one.offsets != other.offsets:
        return f"log start, mark and end {one.offsets} and {other.offsets}"
    if one.is_cleaned:
        return None
    if one.epochs != other.epochs:
        return f"epochs {one.epochs} and {other.epochs}"
    if one.producers != other.producers:
        return f"producers {one.producers} and {other.producers}"
    start = max(one.local_start, other.local_start)
    mine = {offset: batch for offset, batch in one.batches.items() if offset >= start}
    others = {offset: batch for offset, batch in other.batches.items() if offset >= start}
    if mine != others:
        first = min(offset for offset in mine.keys() | others.keys() if mine.get(offset) != others.get(offset))
        return f"different bytes from offset {first} on"
    return None
