"""ElectLeaders (key 43): hand leadership to preferred replicas, or to any that is alive (KIP-183, KIP-460).

``election_type``: 0 the preferred replica, 1 unclean.

- 0: preferred elections only. 1: the type, and an error for the whole answer. 2: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "PartitionResult",
    "ReplicaElectionResult",
    "TopicPartitions",
]


class TopicPartitions(Struct):
    """Some partitions of one topic."""

    topic: str
    partitions: list[Int32]


class ElectLeadersRequest(Message, api_key=43, versions=(0, 2), flexible=2):
    """The partitions to elect leaders for; null for all: then only those are answered that changed or failed."""

    election_type: Int8 = field(since=1)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = field(60000)


class PartitionResult(Struct):
    """The outcome for one partition."""

    partition_id: Int32
    error_code: Int16 = field()
    error_message: str | None = field()


class ReplicaElectionResult(Struct):
    """The outcomes for one topic."""

    topic: str
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Message, api_key=43, versions=(0, 2), flexible=2):
    """The outcomes."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field(since=1)
    replica_election_results: list[ReplicaElectionResult]
