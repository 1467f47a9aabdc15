"""The controller's answer to a broker that says where its replicas lie (AssignReplicasToDirs, key 73).

Sources: Kafka's ``ReplicationControlManager.handleAssignReplicasToDirs``; KIP-858. A replica that comes to lie in a
directory that is not online leaves the in-sync and the eligible ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stratalog.metadata.controller.broker_changes import present_registration
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.controller.partition_change import PartitionTarget, partition_change
from stratalog.metadata.image.decision import Decision, Steps, at_once
from stratalog.metadata.image.directory_ids import LOST
from stratalog.metadata.image.features import DIRECTORIES_SINCE
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.topic import Uuid

__all__ = ["Placed", "assign_replicas_to_directories", "assigning_replicas_to_directories"]


class Placed(NamedTuple):
    """A replica of the asking broker, and the directory it lies in."""

    key: PartitionKey
    directory: Uuid


def assigning_replicas_to_directories(
    view: ClusterView, broker_id: int, broker_epoch: int, placed: Sequence[Placed]
) -> Steps[tuple[ErrorCode, ...]]:
    """Note where replicas lie; the result is a code for each of ``placed``, in their order.

    Raises `KafkaError` UNSUPPORTED_VERSION below level 17 of ``metadata.version``, STALE_BROKER_EPOCH.
    """
    if view.level < DIRECTORIES_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = present_registration(view, broker_id, broker_epoch)
    rules = view.rules()
    records: list[PartitionChangeRecord] = []
    codes: list[ErrorCode] = []
    now: dict[PartitionKey, PartitionImage] = {}
    for key, directory in placed:
        yield
        topic = view.image.topics.by_id.get(key.topic_id)
        state = None if topic is None else now.get(key, topic.partitions.get(key.number))
        if topic is None or state is None:
            codes.append(ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        if broker_id not in state.replicas:
            codes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            continue
        is_lost = not view.image.brokers.serves(broker.broker_id, directory)
        target = _lost(state, broker_id, directory) if is_lost else PartitionTarget(directories={broker_id: directory})
        record = partition_change(key.topic_id, key.number, state, target, rules(topic.name))
        if record is not None:
            records.append(record)
            now[key] = state.changed(record)
        codes.append(ErrorCode.NONE)
    return Decision(tuple(records), tuple(codes), is_atomic=False)


def _lost(state: PartitionImage, broker_id: int, directory: Uuid) -> PartitionTarget:
    """The state of a partition without a replica that cannot be served.

    In no directory that ever was lies a replica whose broker gives it up, as its log is damaged. It goes on if it is the last
    that has everything, and so stays in the set, without a leader until its broker names its directory again. Else the leader
    epoch rises, also for another leader: fetches that it sent before it cut its log, and that come late, count nothing.
    """
    others = {*state.in_sync_replicas, *state.eligible_leader_replicas} - {broker_id}
    directories = {broker_id: directory}
    if directory == LOST and not others:
        return PartitionTarget(directories=directories, in_sync_replicas=())
    return PartitionTarget(directories=directories, lost=frozenset({broker_id}), raises_leader_epoch=directory == LOST)


assign_replicas_to_directories = at_once(assigning_replicas_to_directories)
