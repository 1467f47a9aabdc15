"""The produce answer for a batch that was refused, as Kafka's ``ReplicaManager.appendToLocalLog`` gives it.

Records are named where some of them were the reason (KIP-467). The log start is answered for batches that the log
itself refused; a batch that never reached it, or was too large or broken, is answered with -1.
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from stratalog.wire.record_rules import RecordsRefused

__all__ = ["RECORD_ERRORS_SINCE", "describe_refusal"]

RECORD_ERRORS_SINCE: Final = 8

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
