"""The checks of a leader on a batch before it gets a place in the log, in Kafka's order and with Kafka's codes.

Headers only: records are not looked at on the hot path. The one CRC of a batch's life on this broker is computed
here. Source: Kafka's ``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``, ``ProduceRequest``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from stratalog.hot.config import LogConfig
from stratalog.hot.state.producer_state import AppendOrigin, EndMarker
from stratalog.wire.batch import (
    BATCH_HEADER,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    check_batch,
    iter_records,
    read_header,
)
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.record_rules import RecordRules
from stratalog.wire.topic import TopicPartition

__all__ = ["HeaderFields", "check_follower_batches", "check_leader_batch", "read_end_marker", "record_rules"]

HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A batch header as the struct yields it; the fields of `BatchHeader`, without its cost."""

_MAGIC: Final = 2
_CODEC: Final = 0x07
_CODEC_LAST: Final = 4
_LOG_APPEND_TIME: Final = 0x08
_CONTROL: Final = 0x20
_TRANSACTIONAL: Final = 0x10
_CLIENT: Final = AppendOrigin.CLIENT
_COMMIT: Final = 1
_MARKER_KEY_BYTES: Final = 4
_MARKER_VALUE_BYTES: Final = 6
_COPIED_BYTES: Final = 4 << 10
"""A slice of fewer bytes costs less as a copy than as a view of a view."""

_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = 8
_LENGTH_MIN: Final = 14
"""Bytes of the smallest record of the oldest format."""

_unpack_header = BATCH_HEADER.unpack_from


def check_leader_batch(
    records: bytes | bytearray | memoryview,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    topic_partition: TopicPartition,
) -> HeaderFields:
    """Verify that ``records`` is exactly one good batch. Raises `KafkaError`.

    INVALID_RECORD: not one whole batch of format v2, counts that disagree, an unknown codec, a control batch or a
    non-zero base offset from a client. MESSAGE_TOO_LARGE. CORRUPT_MESSAGE: lengths below the header's, or CRC.
    INVALID_TIMESTAMP. RECORD_LIST_TOO_LARGE: larger than a segment.
    """
    size_bytes = len(records)
    if size_bytes < HEADER_BYTES:
        raise _no_batch(records, topic_partition)
    fields: HeaderFields = _unpack_header(records)
    base_offset, length, _, magic, crc, attributes, delta, base_ms, max_ms, producer_id, _, sequence, count = fields
    if (
        # The usual batch passes everything below in one expression; any other is looked at again, in Kafka's order.
        origin is _CLIENT
        and magic == _MAGIC
        and length + LOG_OVERHEAD_BYTES == size_bytes <= config.max_message_bytes
        and not base_offset
        and 0 <= delta == count - 1
        and 0 <= attributes & ~_TRANSACTIONAL <= _CODEC_LAST
        and (producer_id < 0 or sequence >= 0)
        and max_ms - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - base_ms <= config.message_timestamp_before_max_ms
        and size_bytes <= config.segment_bytes
        and crc == crc32c(records[CRC_START:] if size_bytes < _COPIED_BYTES else memoryview(records)[CRC_START:])
    ):
        return fields
    _check_with_care(records, fields, config, origin, now_ms, topic_partition)
    return fields


def _check_with_care(
    records: bytes | bytearray | memoryview,
    fields: HeaderFields,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    topic_partition: TopicPartition,
) -> None:
    """The rules of `check_leader_batch` one by one."""
    size_bytes = len(records)
    if fields[3] != _MAGIC or fields[1] + LOG_OVERHEAD_BYTES != size_bytes:
        raise _not_one_batch(fields, size_bytes, topic_partition)
    from_client = origin is _CLIENT
    if from_client and (fields[0] or size_bytes > config.max_message_bytes):
        raise _beyond_limits(fields[0], size_bytes, config, topic_partition)
    if fields[4] != crc32c(memoryview(records)[CRC_START:]):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the CRC of a batch sent to {topic_partition} is not {fields[4]:#010x}"
        )
    if from_client:
        _check_client_header(fields, config, now_ms, topic_partition)
    if size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size_bytes} bytes does not fit into a segment of {topic_partition} "
            f"(segment.bytes={config.segment_bytes})",
        )


def _check_client_header(fields: HeaderFields, config: LogConfig, now_ms: int, topic_partition: TopicPartition) -> None:
    """Counts, kind, sequence and times of a batch whose CRC is right."""
    _, _, _, _, _, attributes, delta, base_timestamp, max_timestamp, producer_id, _, sequence, count = fields
    if delta < 0 or delta + 1 != count:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch sent to {topic_partition} counts {count} records over {delta + 1} offsets",
        )
    if attributes & _CODEC > _CODEC_LAST:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch sent to {topic_partition} is compressed by codec {attributes & _CODEC}, which is unknown",
        )
    if attributes & _CONTROL:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"clients may not write control records to {topic_partition}")
    if producer_id >= 0 and sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"producer {producer_id} sent a batch without a sequence number to {topic_partition}",
        )
    if attributes & _LOG_APPEND_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"a producer may not set LogAppendTime on a batch; {topic_partition} was sent one",
        )
    after_max_ms, before_max_ms = config.message_timestamp_after_max_ms, config.message_timestamp_before_max_ms
    too_new = max_timestamp - now_ms > after_max_ms
    too_old = base_timestamp >= 0 and now_ms - base_timestamp > before_max_ms
    if (too_new or too_old) and config.message_timestamp_type == "CreateTime":
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamps {base_timestamp} to {max_timestamp} of a batch sent to {topic_partition} are outside "
            f"[{now_ms - before_max_ms}, {now_ms + after_max_ms}]",
        )


def record_rules(
    config: LogConfig, topic_partition: TopicPartition, *, keys_required: bool, now_ms: int
) -> RecordRules:
    """The rules for every record of a batch at ``now_ms``, where records are looked at."""
    name = str(topic_partition)
    if config.message_timestamp_type != "CreateTime":
        return RecordRules(name, keys_required)
    earliest_ms = now_ms - config.message_timestamp_before_max_ms
    return RecordRules(name, keys_required, earliest_ms, now_ms + config.message_timestamp_after_max_ms)


def _beyond_limits(base_offset: int, size_bytes: int, config: LogConfig, topic_partition: TopicPartition) -> KafkaError:
    if base_offset:
        return KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the base offset of a batch sent to {topic_partition} must be 0, it is {base_offset}",
        )
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {size_bytes} bytes sent to {topic_partition} is larger than "
        f"max.message.bytes={config.max_message_bytes}",
    )


def _no_batch(records: bytes | bytearray | memoryview, topic_partition: TopicPartition) -> KafkaError:
    """The refusal of fewer bytes than a header: CORRUPT_MESSAGE if they hold a length that no record can have."""
    broken = len(records) >= LOG_OVERHEAD_BYTES and _LENGTH.unpack_from(records, _LENGTH_AT)[0] < _LENGTH_MIN
    code = ErrorCode.CORRUPT_MESSAGE if broken else ErrorCode.INVALID_RECORD
    return KafkaError(code, f"{len(records)} bytes sent to {topic_partition} hold no batch")


def _not_one_batch(fields: HeaderFields, size_bytes: int, topic_partition: TopicPartition) -> KafkaError:
    """Why the buffer is not one batch of format v2."""
    batch_length, magic = fields[1], fields[3]
    if magic != _MAGIC:
        code = ErrorCode.INVALID_RECORD if 0 <= magic < _MAGIC else ErrorCode.CORRUPT_MESSAGE
        return KafkaError(code, f"magic {magic} was sent to {topic_partition}, only {_MAGIC} is supported")
    too_short = batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES
    if too_short or batch_length + LOG_OVERHEAD_BYTES > size_bytes:
        # Kafka takes a batch that is cut off for none, and one shorter than its own header for a broken one.
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE if too_short else ErrorCode.INVALID_RECORD,
            f"a batch sent to {topic_partition} claims {batch_length} bytes, {size_bytes} are there",
        )
    return KafkaError(
        ErrorCode.INVALID_RECORD, f"a produce request must hold exactly one batch for {topic_partition}, it holds more"
    )


def check_follower_batches(
    records: memoryview, next_offset: int, leader_epoch: int, topic_partition: TopicPartition
) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a fetch answer that a follower may append: whole, valid, ascending from ``next_offset``.

    A torn last batch is left out, and everything from the first batch of an epoch above ``leader_epoch`` on
    (KAFKA-18723). Raises `KafkaError`: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE.
    """
    batches: list[tuple[BatchHeader, memoryview]] = []
    position = 0
    while position + HEADER_BYTES <= len(records):
        header = read_header(records, position)
        if header.batch_length >= HEADER_BYTES - LOG_OVERHEAD_BYTES and position + header.size_bytes > len(records):
            break
        try:
            check_batch(records, position)
        except Corrupt as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a leader sent {topic_partition}: {error}") from error
        if header.partition_leader_epoch > leader_epoch:
            break
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"a leader sent {topic_partition} offset {header.base_offset}, the next one is {next_offset}",
            )
        after = position + header.size_bytes
        batches.append((header, records[position:after]))
        position, next_offset = after, header.next_offset
    return batches


def read_end_marker(batch: bytes | bytearray | memoryview, header: BatchHeader | None = None) -> EndMarker | None:
    """The transaction marker in a control batch; None for other control records or one cleaned away.

    Raises `Corrupt` for a control batch whose record is neither.
    """
    header = read_header(batch) if header is None else header
    if header.record_count == 0:
        return None
    record = next(iter_records(batch))
    key, value = record.key or b"", record.value or b""
    if len(key) < _MARKER_KEY_BYTES:
        raise Corrupt(f"the control record at offset {header.base_offset} has a key of {len(key)} bytes")
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (0, _COMMIT):
        return None
    if len(value) < _MARKER_VALUE_BYTES:
        raise Corrupt(f"the transaction marker at offset {header.base_offset} has a value of {len(value)} bytes")
    coordinator_epoch = int.from_bytes(value[2:6], "big", signed=True)
    return EndMarker(header.producer_id, header.producer_epoch, coordinator_epoch, record.timestamp_ms, kind == _COMMIT)
