"""Which records of a batch a topic refuses, and in which words (KIP-467).

Source: Kafka's ``LogValidator``: a record without a key in a compacted topic, a time too far from the broker's. The
fields of the batch header alone are checked before (`stratalog.hot.state.validation`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stratalog.wire.batch import NO_TIMESTAMP, BatchHeader
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.record_walk import RecordFacts, walk_records

__all__ = ["RECORD_ERRORS_MAX", "RecordError", "RecordRules", "RecordsRefused", "check_records"]

RECORD_ERRORS_MAX: Final = 1000
"""A batch of a mebibyte may hold 100,000 records: the answer does not grow with them."""

_SHOWN_MAX: Final = 3


class RecordError(NamedTuple):
    """One record that was refused: its index in the batch, and why."""

    batch_index: int
    message: str

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class RecordsRefused(KafkaError):
    """A batch with records that cannot be taken; ``record_errors`` names the first `RECORD_ERRORS_MAX` of them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.args = (code, message, record_errors)  # what pickle makes it from again, on the way from a worker
        self.record_errors = record_errors


class RecordRules(NamedTuple):
    """A topic's demands on every record; times in milliseconds, None where any will do."""

    topic_partition: str
    keys_required: bool = False
    earliest_ms: int | None = None
    latest_ms: int | None = None

    def refusal(self, record: RecordFacts) -> tuple[ErrorCode, str] | None:
        """Why a record cannot be taken: Kafka looks at its key first."""
        if self.keys_required and not record.has_key:
            return (
                ErrorCode.INVALID_RECORD,
                f"Compacted topic cannot accept message without key in topic partition {self.topic_partition}",
            )
        earliest, latest, at = self.earliest_ms, self.latest_ms, record.timestamp_ms
        if earliest is not None and latest is not None and at != NO_TIMESTAMP and not earliest <= at <= latest:
            where = f"message with offset {record.offset_delta} is out of range"
            return (
                ErrorCode.INVALID_TIMESTAMP,
                f"Timestamp {at} of {where}. The timestamp should be within [{earliest}, {latest}]",
            )
        return None


def check_records(header: BatchHeader, payload: bytes, rules: RecordRules) -> bool:
    """Look at every record of a batch; returns whether their offset deltas are 0, 1, 2 ... as Kafka wants them.

    ``payload`` are the records, uncompressed.

    Raises `RecordsRefused`: INVALID_TIMESTAMP if the time of any record is wrong, else INVALID_RECORD; plain
    `KafkaError` INVALID_RECORD for a header whose counts disagree; `Corrupt` for records that are not what it says.
    """
    if header.last_offset_delta + 1 != header.record_count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch sent to {rules.topic_partition} counts {header.record_count} records over "
            f"{header.last_offset_delta + 1} offsets",
        )
    errors: list[RecordError] = []
    refused_count, code, is_numbered = 0, ErrorCode.INVALID_RECORD, True
    for index, record in enumerate(walk_records(header, payload)):
        is_numbered = is_numbered and record.offset_delta == index
        refusal = rules.refusal(record)
        if refusal is None:
            continue
        refused_count += 1
        if refusal[0] is ErrorCode.INVALID_TIMESTAMP:
            code = refusal[0]
        if len(errors) < RECORD_ERRORS_MAX:
            errors.append(RecordError(index, refusal[1]))
    if errors:
        raise RecordsRefused(code, _summary(code, refused_count, errors), tuple(errors))
    return is_numbered


def _summary(code: ErrorCode, refused_count: int, errors: list[RecordError]) -> str:
    if code is ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(map(str, errors[:_SHOWN_MAX]))
    return (
        f"One or more records have been rejected due to {refused_count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
