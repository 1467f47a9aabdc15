"""The produce answer for a batch that was refused, as Kafka's ``ReplicaManager.appendToLocalLog`` gives it.

A batch for a partition that is led elsewhere is answered with its leader, see `stratalog.broker.requests.current_leaders`.

Records are named where some of them were the reason (KIP-467). The log start is answered for batches that the log
itself refused; a batch that never reached it, or was too large or broken, is answered with -1.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.requests.context import RequestContext, ServedBroker
from stratalog.broker.requests.current_leaders import CurrentLeaders
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from stratalog.wire.record_rules import RecordsRefused

__all__ = ["RECORD_ERRORS_SINCE", "describe_refusal", "name_leaders"]

RECORD_ERRORS_SINCE: Final = 8
_LEADERS_SINCE: Final = 10

_WITH_LOG_START: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


def describe_refusal(
    answer: PartitionProduceResponse, error: KafkaError, log_start_offset: int, record_errors_max: int
) -> int:
    """Fill in the answer for one partition; returns how many records it names, ``record_errors_max`` at most."""
    answer.error_code = error.code
    answer.error_message = error.message
    answer.log_start_offset = log_start_offset if error.code in _WITH_LOG_START else -1
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors[:record_errors_max]
        ]
    return len(answer.record_errors)


def name_leaders(context: RequestContext[ServedBroker], response: ProduceResponse) -> None:
    """Beside each NOT_LEADER_OR_FOLLOWER say who leads, and where that is reached (KIP-951; from version 10 on)."""
    if context.api_version < _LEADERS_SINCE:
        return
    leaders = CurrentLeaders(context.broker.image, context.connection.listener.name)
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                now = leaders.of(topic.name, topic.topic_id, answer.index)
                if now is not None:
                    answer.current_leader = LeaderIdAndEpoch(leader_id=now.leader_id, leader_epoch=now.leader_epoch)
    response.node_endpoints = [
        NodeEndpoint(node_id=at.node_id, host=at.host, port=at.port, rack=at.rack) for at in leaders.endpoints.values()
    ]
