"""The controller's answer to a request to move replicas to other brokers, or to stop moves (AlterPartitionReassignments).

Sources of rules and texts: Kafka's ``ReplicationControlManager.alterPartitionReassignments``; KIP-455, KIP-860. When a
move ends, and when it may be stopped, is in `reassignment`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.controller.partition_change import (
    Election,
    PartitionRules,
    PartitionTarget,
    partition_change,
)
from stratalog.metadata.controller.placement import check_assignment
from stratalog.metadata.controller.reassignment import Assignment, cancelled, retargeted
from stratalog.metadata.image.decision import RECORDS_PER_BATCH_MAX, Decision, Failure, Steps, at_once, failure_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.topic import TopicPartition

__all__ = ["Move", "reassign_partitions", "reassigning_partitions"]


class Move(NamedTuple):
    """The wanted replicas of one partition, the preferred leader first; None stops the move that is under way."""

    partition: TopicPartition
    replicas: tuple[int, ...] | None


def reassigning_partitions(
    view: ClusterView, moves: Sequence[Move], *, factor_may_change: bool = True
) -> Steps[tuple[Failure | None, ...]]:
    """Begin moves and stop others; the result is what is wrong with each. One that is refused does not stop the others.

    Raises `KafkaError` POLICY_VIOLATION for more of them than one batch holds.
    """
    if len(moves) > RECORDS_PER_BATCH_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    # A move of replicas asks for no unclean election: the holders of the records may be back in a moment.
    begins, stops = view.rules(election=Election.ONLINE), view.rules()
    records: list[PartitionChangeRecord] = []
    results: list[Failure | None] = []
    now: dict[TopicPartition, PartitionImage] = {}
    for move in moves:
        yield
        try:
            topic, state = _found(view.image, move.partition)
            state = now.get(move.partition, state)
            if move.replicas is None:
                target, rules = _stopped(view, move.partition, state), stops
            else:
                rules = begins
                target = _begun(view.image, state, move.replicas, factor_may_change=factor_may_change)
        except KafkaError as error:
            results.append(failure_of(error))
            continue
        results.append(None)
        record = _change(topic, move.partition.partition, state, target, rules)
        if record is not None:
            records.append(record)
            now[move.partition] = state.changed(record)
    return Decision(tuple(records), tuple(results))


reassign_partitions = at_once(reassigning_partitions)


def _change(
    topic: TopicImage,
    number: int,
    state: PartitionImage,
    target: PartitionTarget,
    rules: Callable[[str], PartitionRules],
) -> PartitionChangeRecord | None:
    return partition_change(topic.topic_id, number, state, target, rules(topic.name))


def _found(image: ClusterImage, partition: TopicPartition) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.by_name.get(partition.topic)
    if topic is None:
        why = f"Unable to find a topic named {partition.topic}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    state = topic.partitions.get(partition.partition)
    if state is None:
        why = f"Unable to find partition {partition.topic}:{partition.partition}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    return topic, state


def _begun(
    image: ClusterImage, state: PartitionImage, replicas: tuple[int, ...], *, factor_may_change: bool
) -> PartitionTarget:
    check_assignment(replicas, None, image.brokers)
    wanted = len(state.replicas)
    if state.is_reassigning:
        wanted = len({*state.replicas, *state.adding_replicas}.difference(state.removing_replicas))
    if not factor_may_change and len(replicas) != wanted:
        why = f"The replication factor is changed from {wanted} to {len(replicas)}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    whole = {*state.in_sync_replicas, *state.eligible_leader_replicas, *state.last_known_eligible}
    return PartitionTarget(assignment=retargeted(Assignment.of(state), replicas, whole))


def _stopped(view: ClusterView, partition: TopicPartition, state: PartitionImage) -> PartitionTarget:
    if not state.is_reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    settings = view.settings(partition.topic)
    present = Assignment.of(state)
    left = tuple(one for one in state.in_sync_replicas if one not in state.adding_replicas)
    before = cancelled(present, state.in_sync_replicas, settings.min_in_sync_replicas)
    if before is None:
        start = f"Unable to revert partition assignment for {partition.topic}:{partition.partition} because"
        if left:
            why = f"{start} too few of its former replicas are in sync for min.insync.replicas: {len(left)}."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        if not settings.unclean_allowed:
            why = f"{start} it would require an unclean leader election."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        before = Assignment(tuple(one for one in present.replicas if one not in present.adding))
    return PartitionTarget(in_sync_replicas=left, assignment=before)
