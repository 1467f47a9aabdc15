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
        is_lost = not view.image.brokers.serves(broker_id, directory)
        target = PartitionTarget(
            directories={broker_id: directory}, lost=frozenset({broker.broker_id}) if is_lost else frozenset()
        )
        record = partition_change(key.topic_id, key.number, state, target, rules(topic.name))
        if record is not None:
            records.append(record)
            now[key] = state.changed(record)
        codes.append(ErrorCode.NONE)
    return Decision(tuple(records), tuple(codes), is_atomic=False)


assign_replicas_to_directories = at_once(assigning_replicas_to_directories)
