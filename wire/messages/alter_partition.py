"""AlterPartition (key 56): the leader of partitions asks the controller for other in-sync replicas (KIP-497).

- 2: topics are named by id (KIP-704 brought the recovery state, KIP-841 the ids).
- 3: the new members come with their broker epochs (KIP-903).

``leader_epoch_above`` is this project's own. It is a tagged field, which Kafka's controllers pass over, with a number far above
those that Kafka gives out.
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, Uuid, field

__all__ = [
    "AlterPartitionPartition",
    "AlterPartitionPartitionResult",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlterPartitionTopic",
    "AlterPartitionTopicResult",
    "BrokerState",
]


class BrokerState(Struct):
    """A member of the wanted set; a broker epoch of -1 is not compared with the registration."""

    broker_id: Int32 = field(since=3)
    broker_epoch: Int64 = field(-1, since=3)


class AlterPartitionPartition(Struct):
    """The wanted set, and the leader epoch and partition epoch on which it rests.

    ``leader_recovery_state`` is 1 while the leader recovers from an unclean election, else 0. With a ``leader_epoch_above`` that
    is not negative, no other set is wanted, but a leader epoch above it.
    """

    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32] = field(until=2)
    new_isr_with_epochs: list[BrokerState] = field(since=3)
    leader_recovery_state: Int8 = field()
    partition_epoch: Int32
    leader_epoch_above: Int32 = field(-1, tag=21_000)


class AlterPartitionTopic(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[AlterPartitionPartition]


class AlterPartitionRequest(Message, api_key=56, versions=(2, 3), flexible=0):
    """A broker's request for partitions that it leads."""

    broker_id: Int32
    broker_epoch: Int64 = field(-1)
    topics: list[AlterPartitionTopic]


class AlterPartitionPartitionResult(Struct):
    """The partition as the controller has it after the change."""

    partition_index: Int32
    error_code: Int16 = field()
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = field()
    partition_epoch: Int32


class AlterPartitionTopicResult(Struct):
    """The partitions of one topic."""

    topic_id: Uuid
    partitions: list[AlterPartitionPartitionResult]


class AlterPartitionResponse(Message, api_key=56, versions=(2, 3), flexible=0):
    """The outcome for each partition."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    topics: list[AlterPartitionTopicResult]
