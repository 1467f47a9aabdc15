"""ConsumerGroupHeartbeat (key 68): the only request by which a member of a consumer group joins, stays and leaves.

A field that did not change since the last heartbeat is null, or -1. ``member_epoch`` 0 joins, -1 leaves, -2 leaves for
a while (static members). Source: KIP-848.

- 1: subscription by regular expression; the member makes its own id (KIP-1082).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, Uuid, field

__all__ = [
    "Assignment",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "TopicPartitions",
]


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions=(0, 1), flexible=0):
    """A sign of life, with what changed. ``topic_partitions`` are those that the member owns now."""

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = field(None)
    rack_id: str | None = field(None)
    rebalance_timeout_ms: Int32 = field(-1)
    subscribed_topic_names: list[str] | None = field(None)
    subscribed_topic_regex: str | None = field(None, since=1)
    server_assignor: str | None = field(None)
    topic_partitions: list[TopicPartitions] | None = field(None)


class Assignment(Struct):
    """Everything that the member may own from now on."""

    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions=(0, 1), flexible=0):
    """The member's epoch, and its assignment when that changed or was asked for."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(None)
    member_id: str | None = field(None)
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    assignment: Assignment | None = field(None)
