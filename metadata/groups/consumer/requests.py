"""The requests that a member may make, and the events of consumer groups that are no requests of members.

Source: Kafka's ``GroupCoordinatorService``, whose sentences clients print.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from stratalog.metadata.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from stratalog.metadata.groups.consumer.reconcile import Owned
from stratalog.metadata.record_texts import check_text
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

__all__ = ["DescribeConsumerGroup", "check_heartbeat", "is_full", "owned_partitions", "said_bytes"]

_OWN_ID_SINCE = 1
"""The version of the request from which on members make their own ids (KIP-1082)."""


class DescribeConsumerGroup(Struct):
    """Describe one group, as part of a ConsumerGroupDescribe."""

    group_id: str


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Raises INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR for an assignor that is not among ``assignors``."""
    if not request.member_id and (
        version >= _OWN_ID_SINCE or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    ):
        raise _invalid("MemberId can't be empty.")
    if not request.group_id:
        raise _invalid("GroupId can't be empty.")
    if request.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    check_text("InstanceId", request.instance_id)  # the record of a classic group, which this one may become, is short
    if request.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def said_bytes(request: ConsumerGroupHeartbeatRequest) -> int:
    """The bytes of a member's record that it chooses itself."""
    texts = (request.subscribed_topic_regex, request.rack_id, request.instance_id)
    return sum([len((text or "").encode()) for text in (*texts, *(request.subscribed_topic_names or ()))])


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member tells everything, as it does when it joins or lost an answer: it wants its assignment told."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """The partitions that the member says it owns; None if it says nothing."""
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, set[int]] = {}
    for part in request.topic_partitions:
        owned.setdefault(bytes(part.topic_id), set()).update(part.partitions)
    return owned
