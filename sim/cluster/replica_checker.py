"""The promises of replicas: nothing committed goes, and in the end all replicas are one log.

Looked at after every event of a broker; the comparison of the logs themselves comes at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sim.cluster.member import Member
from sim.cluster.surroundings import Surroundings
from sim.model import Violation
from stratalog.metadata.image.topics_image import NO_LEADER, PartitionImage

__all__ = ["ReplicaChecker"]

_BYTES_MAX: Final = 1 << 30

_Key = tuple[bytes, int]
"""A partition, by the id of its topic."""


class _Mark(NamedTuple):
    """The highest mark that any replica has had."""

    offset: int
    member: Member
    leader_epoch: int


class ReplicaChecker:
    """Watches the replicas of all brokers."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._marks: dict[_Key, _Mark] = {}
        self._ends: dict[Any, int] = {}
        self._seen: dict[Any, tuple[int, int, tuple[int, ...]]] = {}
        """By partition object, which dies with its process: its mark, the epoch in which it leads, who is in sync then."""

    # -- after every event ---------------------------------------------------------------------------------------------

    def after_event(self, member: Member) -> None:
        """Look at the replicas of a broker in whose process something has happened. Raises `Violation`."""
        for unified in member.hosted():
            partition = unified.partition
            leader = partition.leader
            mark, led_in = partition.high_watermark, -1 if leader is None else leader.epoch
            now = mark, led_in, () if leader is None else leader.state.in_sync
            end_before, self._ends[partition] = self._ends.get(partition, 0), partition.log.log_end_offset
            if self._ends[partition] < end_before:
                self._check_cut(member, partition)
            before = self._seen.get(partition, (-1, -1, ()))
            if before == now:
                continue
            self._seen[partition] = now
            name, end = partition.topic_partition, partition.log.log_end_offset
            if mark > end:
                raise Violation(f"{member}: the mark of {name} is {mark}, its log ends at {end}")
            if mark < before[0]:
                raise Violation(f"{member}: the mark of {name} goes back from {before[0]} to {mark}")
            known = self._marks.get(_key(partition))
            if led_in > before[1] and known is not None and end < known.offset and led_in >= known.leader_epoch:
                raise Violation(
                    f"{member} leads {name} in epoch {led_in} and ends at {end}; {known.member} had the mark at "
                    f"{known.offset} in epoch {known.leader_epoch}"
                )
            if known is None or mark > known.offset:
                self._marks[_key(partition)] = _Mark(mark, member, partition.leader_epoch)
            if led_in >= 0 and (mark > before[0] or not set(now[2]).issubset(before[2])):
                self._check_copies(member, partition)

    def _check_cut(self, member: Member, partition: Any) -> None:
        """A log that was cut still has all that is committed, if its broker is in sync: it may be elected next."""
        name, known = partition.topic_partition, self._marks.get(_key(partition))
        topic = self._world.newest_image().topics.by_id.get(partition.topic_id)
        state = None if topic is None else topic.partitions.get(name.partition)
        end = partition.log.log_end_offset
        if state is not None and member.id in state.in_sync_replicas and known is not None and end < known.offset:
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
            log = copy.partition.log
            end = log.written_offset if self._world.plan.unsynced else log.flushed_offset
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
        return None

    def unequal(self) -> str | None:
        """Return how replicas still differ, or None once all are one log, up to its end. All writers have ended."""
        for name, number, state in self._partitions():
            views = [self._view(name, number, broker_id) for broker_id in state.replicas]
            for broker_id, view in zip(state.replicas, views, strict=True):
                if view != views[0]:
                    return f"{name}-{number}: brokers {state.replicas[0]} and {broker_id} have {_difference(views[0], view)}"
        return None

    def _view(self, name: str, number: int, broker_id: int) -> dict[str, object]:
        member: Member = self._world.members[broker_id]
        found = [
            one
            for one in member.hosted()
            if one.topic_partition.topic == name and one.topic_partition.partition == number
        ]
        if not found:
            return {"log": None}
        partition = found[0].partition
        log = partition.log
        start, end = log.log_start_offset, log.log_end_offset
        read = log.read(start, max_bytes=_BYTES_MAX, max_offset=end)
        data = b"".join(os.pread(part.file.fileno(), part.length, part.position) for part in read.parts)
        return {
            "offsets": (start, partition.high_watermark, end),
            "epochs": tuple(entry for entry in log.leader_epochs.entries if entry.start_offset < end),
            "log": data,
        }

    def _partitions(self) -> Iterator[tuple[str, int, PartitionImage]]:
        """Those with several replicas."""
        for topic in self._world.newest_image().topics.by_id.values():
            for number, state in topic.partitions.items():
                if len(state.replicas) > 1:
                    yield topic.name, number, state


def _has_heard_of_losses(leader: Member, member: Member) -> bool:
    """Whether the leader's image has a registration of the other that is younger than all that it lost."""
    broker = None if leader.image is None else leader.image.brokers.brokers.get(member.id)
    return broker is not None and broker.epoch > member.lost_in


def _key(partition: Any) -> _Key:
    return bytes(partition.topic_id), partition.topic_partition.partition


def _difference(one: dict[str, object], other: dict[str, object]) -> str:
    for what, value in one.items():
        if other.get(what) != value:
            if isinstance(value, bytes) and isinstance(other.get(what), bytes):
                return f"different bytes, of {len(value)} and of {len(other[what])}"  # type: ignore[arg-type]
            return f"{what} {value!r} and {other.get(what)!r}"
    return "the same"
