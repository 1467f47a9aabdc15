"""The produce answer for a refused batch."""

import pytest

from stratalog.broker.api.produce_refusal import describe_refusal
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.produce import PartitionProduceResponse
from stratalog.wire.record_rules import RecordError, RecordsRefused


@pytest.mark.parametrize(
    ("code", "log_start_offset"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 7),
        (ErrorCode.INVALID_RECORD, 7),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 7),
        (ErrorCode.MESSAGE_TOO_LARGE, -1),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
    ],
)
def test_the_log_start_is_answered_for_refusals_by_the_log(code, log_start_offset):
    """And -1 for the rest, as in Kafka."""
    answer = PartitionProduceResponse(index=0, base_offset=-1)
    assert describe_refusal(answer, KafkaError(code, "why"), 7, 10) == 0
    assert (answer.error_code, answer.error_message, answer.log_start_offset) == (code, "why", log_start_offset)
    assert answer.record_errors == []


def test_no_more_records_are_named_than_there_is_room_for():
    """The count that comes back is what the next partition of the request has less."""
    errors = tuple(RecordError(at, f"no {at}") for at in range(5))
    answer = PartitionProduceResponse(index=0, base_offset=-1)
    refused = RecordsRefused(ErrorCode.INVALID_RECORD, "five", errors)
    assert describe_refusal(answer, refused, 0, 3) == 3
    assert [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors] == list(errors[:3])
