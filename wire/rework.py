"""Batches that a topic's settings do not let in as they are: another codec, or records that must have keys.

Kafka's leader does this in its request threads (``LogValidator``); here it runs in a worker process, because it
touches every record.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from stratalog.wire.batch import BATCH_HEADER, CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, check_batch
from stratalog.wire.compression import DECOMPRESSED_BYTES_MAX, Codec, TooLarge, compress, decompress
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.record_rules import RecordRules, check_records
from stratalog.wire.record_walk import renumbered

__all__ = ["OPENED_RECORDS_MAX", "needs_rework", "opened_bytes_max", "rework"]

_OPENED_BYTES_MIN: Final = 16 << 20
_RATIO_MAX: Final = 16
OPENED_RECORDS_MAX: Final = 1 << 21
"""Records of one batch that are looked at one by one, which takes about a microsecond each."""
_CODEC_MASK: Final = 0x07

Buffer = bytes | bytearray | memoryview


def needs_rework(attributes: int, codec: Codec | None, *, keys_required: bool) -> bool:
    """Whether a batch with these attributes must be opened before it is appended.

    ``codec`` is what the topic demands, None where the producer's choice stays.
    """
    return keys_required or (codec is not None and attributes & _CODEC_MASK != codec)


def opened_bytes_max(max_message_bytes: int) -> int:
    """How large the records of a batch may be uncompressed where a topic has its batches opened.

    Two kilobytes of zstd can hold a gigabyte: what the topic may hold compressed is the measure, and a ratio of 16. Never
    more than the cleaner and readers open: the cleaner would skip the log for good.
    """
    return min(max(_OPENED_BYTES_MIN, _RATIO_MAX * max_message_bytes), DECOMPRESSED_BYTES_MAX)


def rework(batch: Buffer, codec: Codec | None, rules: RecordRules, opened_bytes_max: int) -> bytearray:
    """The same records, offsets, times and producer fields under ``codec``, with their records checked.

    Records that a client has numbered otherwise than 0, 1, 2 ... are numbered so, in their order.

    Raises `Corrupt` for a batch whose CRC or records are not what the header says, what `check_records` raises for
    records that break ``rules``, and `KafkaError` MESSAGE_TOO_LARGE for records of more than ``opened_bytes_max``
    bytes, or more than `OPENED_RECORDS_MAX`: Java producers then send them again in smaller batches.
    """
    header = check_batch(batch)
    # A batch that stays uncompressed needs no limit to be read.
    stays_uncompressed = header.codec is Codec.NONE and codec in {None, Codec.NONE}
    payload = _opened(header, batch, len(batch) if stays_uncompressed else opened_bytes_max)
    if not check_records(header, payload, rules):
        payload = renumbered(header, payload)
    elif codec is None or header.codec is codec:
        return bytearray(batch)
    codec = header.codec if codec is None else codec
    out = bytearray(HEADER_BYTES) + compress(codec, payload)
    attributes = header.attributes & ~_CODEC_MASK | codec
    fields = header._replace(batch_length=len(out) - LOG_OVERHEAD_BYTES, attributes=attributes)
    BATCH_HEADER.pack_into(out, 0, *fields)
    BATCH_HEADER.pack_into(out, 0, *fields._replace(crc=crc32c(memoryview(out)[CRC_START:])))
    return out


def _opened(header: BatchHeader, batch: Buffer, limit_bytes: int) -> bytes:
    if header.record_count > OPENED_RECORDS_MAX:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch holds {header.record_count} records; this topic's batches are opened before they are appended, "
            f"and may hold {OPENED_RECORDS_MAX}",
        )
    try:
        return decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], limit_bytes)
    except TooLarge as error:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the records of the batch have more than {limit_bytes} bytes uncompressed; this topic's batches are opened "
            "before they are appended, and may hold 16 MiB or 16 times max.message.bytes, and never more than 256 MiB",
        ) from error
