"""Unclean elections of a run, as the metadata log has them, and what they excuse.

A leader that was neither in sync nor eligible may lack records that were acknowledged. They are excused if no leader from the
election on has written them: each batch names the leader epoch in which it was written, and a record is one and the same
by its offset and that epoch for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from sim.cluster.plan import Unclean
from sim.cluster.surroundings import Surroundings
from sim.model import PartitionModel, Violation
from stratalog.metadata.image.directory_ids import is_online
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery, PartitionImage, TopicImage
from stratalog.wire.batch import iter_headers, iter_records
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["UncleanElections"]

NEVER: Final = -1


class UncleanElections:
    """Watches the newest image."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._epochs: dict[tuple[Uuid, int], int] = {}
        self.count = 0

    def epoch(self, topic_id: Uuid, number: int) -> int:
        """The leader epoch that the last unclean election of a partition began; -1 if there was none."""
        return self._epochs.get((topic_id, number), NEVER)

    def image_changed(self, before: ClusterImage, image: ClusterImage) -> None:
        """Look for elections in a newer image. Raises `Violation` for one that was allowed nowhere."""
        if before.topics is image.topics:
            return
        for topic_id, topic in image.topics.by_id.items():
            earlier = before.topics.by_id.get(topic_id)
            if earlier is topic or earlier is None:
                continue
            for number, state in topic.partitions.items():
                former = earlier.partitions.get(number)
                if former is not None and former is not state and _is_unclean(former, state):
                    self._elected((before, image), topic, number, former)

    def _elected(
        self, images: tuple[ClusterImage, ClusterImage], topic: TopicImage, number: int, former: PartitionImage
    ) -> None:
        state = topic.partitions[number]
        model = self._world.model.topics.get(topic.topic_id)
        what = (
            f"{topic.name}-{number} is led by {state.leader} in epoch {state.leader_epoch}; in sync were "
            f"{former.in_sync_replicas}, eligible {former.eligible_leader_replicas}, known {former.last_known_eligible}"
        )
        is_last_known = not (former.in_sync_replicas or former.eligible_leader_replicas) and (
            former.last_known_eligible == (state.leader,)
        )
        if self._world.plan.unclean is Unclean.NEVER or (model is None and not is_last_known):
            raise Violation(f"an unclean election that is not allowed: {what}")
        if state.leader in state.adding_replicas and not is_last_known:
            self._check_added(images, former, state, what)
        self._world.trace.note("unclean", what)
        if model is None:  # the last known leader needs no setting (KIP-966), and no client writes to these topics
            return
        self.count += 1
        self._epochs[topic.topic_id, number] = state.leader_epoch
        model.partitions[number].elected_uncleanly(state.leader_epoch)

    def _check_added(
        self, images: tuple[ClusterImage, ClusterImage], former: PartitionImage, state: PartitionImage, what: str
    ) -> None:
        """A replica that was never in sync leads only by an election on request, while no other one lives."""
        if self._world.plan.unclean is Unclean.SETTING:
            raise Violation(f"a replica that is being added is elected without a request: {what}")
        for other, directory in zip(former.replicas, former.directories, strict=True):
            was_there = other in state.replicas and other not in state.adding_replicas
            if was_there and all(_may_lead(image, other, directory) for image in images):
                raise Violation(f"a replica that is being added is elected, and {other} lives: {what}")

    def acknowledged(self, partition: PartitionModel, base_offset: int, values: list[bytes]) -> None:
        """A producer was acknowledged a batch: find the leader epoch that its batch names."""
        if self._world.plan.unclean is Unclean.NEVER or base_offset < 0:
            return
        for log in self._logs(partition):
            epoch = _epoch_of(log, base_offset, values)
            if epoch is not None:
                partition.written_in.update(dict.fromkeys(values, epoch))
                return

    def _logs(self, partition: PartitionModel) -> Iterator[Any]:
        name = TopicPartition(partition.topic.name, partition.number)
        for member in self._world.members.values():
            found = None if member.is_controller else member.replica(name, partition.topic.topic_id)
            if found is not None:
                yield found.partition.log


def _is_unclean(former: PartitionImage, state: PartitionImage) -> bool:
    """Whether the leader of the later image may lack what was acknowledged before."""
    if state.leader_epoch == former.leader_epoch or state.leader == NO_LEADER:
        return False
    if state.leader_recovery is not LeaderRecovery.RECOVERING:
        return False
    if former.leader_recovery is not LeaderRecovery.RECOVERING:
        return True
    return state.leader not in former.in_sync_replicas and state.leader not in former.eligible_leader_replicas


def _may_lead(image: ClusterImage, broker_id: int, directory: Uuid) -> bool:
    broker = image.brokers.brokers[broker_id]
    is_active = not broker.is_fenced and not broker.in_controlled_shutdown
    return is_active and is_online(directory, broker.directories)


def _epoch_of(log: Any, base_offset: int, values: list[bytes]) -> int | None:
    """The leader epoch of the batch with these values at an offset; None if the disk has another one there, or none."""
    try:
        read = log.read(base_offset, max_bytes=1, max_offset=log.written_offset)
    except KafkaError:
        return None
    data = b"".join(os.pread(part.file.fileno(), part.length, part.position) for part in read.parts)
    for position, header in iter_headers(data):
        if header.base_offset == base_offset and [one.value for one in iter_records(data, position)] == values:
            return header.partition_leader_epoch
    return None
