"""The leaders that an answer names beside the errors of partitions that have moved (KIP-951)."""

from __future__ import annotations

from typing import Final

from stratalog.broker.requests.context import RequestContext, ServedBroker
from stratalog.broker.requests.current_leaders import CurrentLeaders
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import FetchResponse, LeaderIdAndEpoch, NodeEndpoint

__all__ = ["MOVED", "name_leaders"]

_SINCE: Final = 16
MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors beside which the leader is named."""


def name_leaders(context: RequestContext[ServedBroker], response: FetchResponse) -> None:
    """Beside each of these errors say who leads, and where that is reached; from version 16 on."""
    if context.row.version < _SINCE:
        return
    leaders = CurrentLeaders(context.broker.image, context.connection.listener.name)
    for topic in response.responses:
        for answer in topic.partitions:
            if answer.error_code in MOVED:
                now = leaders.of(topic.topic, topic.topic_id, answer.partition_index)
                if now is not None:
                    answer.current_leader = LeaderIdAndEpoch(leader_id=now.leader_id, leader_epoch=now.leader_epoch)
    response.node_endpoints = [
        NodeEndpoint(node_id=at.node_id, host=at.host, port=at.port, rack=at.rack) for at in leaders.endpoints.values()
    ]
