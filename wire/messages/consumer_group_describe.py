"""ConsumerGroupDescribe (key 69): the members of consumer groups, their assignments and targets.

Source: KIP-848.

- 1: whether a member speaks the classic protocol (KIP-1099).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, Uuid, field

__all__ = [
    "Assignment",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "DescribedGroup",
    "Member",
    "TopicPartitions",
]


class ConsumerGroupDescribeRequest(Message, api_key=69, versions=(0, 1), flexible=0):
    """Which groups."""

    group_ids: list[str]
    include_authorized_operations: Bool = field()


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


class Assignment(Struct):
    """The partitions of a member."""

    topic_partitions: list[TopicPartitions] = field()


class Member(Struct):
    """A member. ``member_type``: 0 speaks the classic protocol, 1 the consumer protocol, -1 unknown."""

    member_id: str
    instance_id: str | None = field(None)
    rack_id: str | None = field(None)
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = field(None)
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = field(-1, since=1)


class DescribedGroup(Struct):
    """A group, or why it cannot be described."""

    error_code: Int16 = field()
    error_message: str | None = field(None)
    group_id: str
    group_state: str = field()
    group_epoch: Int32 = field()
    assignment_epoch: Int32 = field()
    assignor_name: str = field()
    members: list[Member] = field()
    authorized_operations: Int32 = field(-2147483648)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions=(0, 1), flexible=0):
    """One answer a group, in the order asked."""

    throttle_time_ms: Int32 = field()
    groups: list[DescribedGroup]
