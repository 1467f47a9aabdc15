"""ConsumerGroupHeartbeat (key 68): members of consumer groups join, stay and leave.

The group's shard answers. Without ``consumer`` among ``group.coordinator.rebalance.protocols`` it is UNSUPPORTED_VERSION,
as in Kafka.
"""

from __future__ import annotations

from stratalog.broker.api.broker_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["API"]

_PROTOCOLS = "group.coordinator.rebalance.protocols"


def handle(context: Context, request: ConsumerGroupHeartbeatRequest) -> Pending:
    """Give the heartbeat to its group; topics that the caller may not know of are refused before."""
    broker = context.broker
    if "consumer" not in broker.config.texts(_PROTOCOLS):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"consumer groups are switched off ({_PROTOCOLS})")
    if not context.allows(request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for name in request.subscribed_topic_names or ():
        if not context.allows(name, Operation.DESCRIBE, ResourceType.TOPIC):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    pattern = request.subscribed_topic_regex
    if pattern and not broker.groups.patterns.knows(pattern):
        return broker.groups.submit_matched(context, request)
    return broker.groups.submit(context, request.group_id, request)


API = Api(
    key=68,
    versions=(0, 1),
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    handle=handle,
    operation=Operation.READ,
    resource=ResourceType.GROUP,
)
