"""Metadata (key 3): the brokers of the cluster, its topics and the leaders of their partitions.

- 0: an empty list of topics asks for all of them.
- 1: null asks for all, an empty list for none; the answer has racks, the controller and internal topics.
- 2: the cluster id. 3: the throttle time.
- 4: the client says whether topics may be created by asking for them.
- 5: offline replicas (KIP-112). 6: throttling comes after the answer (KIP-219). 7: leader epochs (KIP-320).
- 8: authorised operations, if asked for (KIP-430). 9: flexible.
- 10: topic ids in the answer (KIP-516). 11: the cluster's authorised operations move to DescribeCluster (KIP-700).
- 12: topics can be asked for by id. 13: an error for the answer as a whole (KIP-1102).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, Uuid, field

__all__ = [
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
]


class MetadataRequestTopic(Struct):
    """One topic, by name or, with a null name, by id."""

    topic_id: Uuid = field(since=10)
    name: str | None = field("", nullable_since=10)


class MetadataRequest(Message, api_key=3, versions=(0, 13), flexible=9):
    """Which topics to describe: null for all, except in version 0, where the empty list means all."""

    topics: list[MetadataRequestTopic] | None = field([], nullable_since=1)
    allow_auto_topic_creation: Bool = field(True, since=4)
    include_cluster_authorized_operations: Bool = field(since=8, until=10)
    include_topic_authorized_operations: Bool = field(since=8)


class MetadataResponseBroker(Struct):
    """One broker, at the listener that was asked."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = field(since=1)


class MetadataResponsePartition(Struct):
    """One partition. ``leader_id`` is -1 while there is none."""

    error_code: Int16 = field()
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(-1, since=7)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field(since=5)


class MetadataResponseTopic(Struct):
    """One topic; the name is null for an unknown id. Operations as in the response."""

    error_code: Int16 = field()
    name: str | None = field("", nullable_since=12)
    topic_id: Uuid = field(since=10)
    is_internal: Bool = field(since=1)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field(-(2**31), since=8)


class MetadataResponse(Message, api_key=3, versions=(0, 13), flexible=9):
    """The cluster as the broker sees it. ``cluster_authorized_operations``
    is a bit set, the smallest int32 if not asked for.
    """

    throttle_time_ms: Int32 = field(since=3)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field(since=2)
    controller_id: Int32 = field(-1, since=1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(-(2**31), since=8, until=10)
    error_code: Int16 = field(since=13)
