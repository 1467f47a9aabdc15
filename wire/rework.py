"""Batches that a topic's settings do not let in as they are: another codec, or records that must have keys.

Kafka's leader does this in its request threads (``LogValidator``); here it runs in a worker process, because it
touches every record.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from stratalog.wire.batch import BATCH_HEADER, CRC_START, HEADER_BYTES, LOG_OVERHEAD_BYTES, iter_records, read_header
from stratalog.wire.compression import Codec, compress, decompress
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["needs_rework", "rework"]

_DECOMPRESSED_BYTES_MAX: Final = 1 << 28
_CODEC_MASK: Final = 0x07

Buffer = bytes | bytearray | memoryview


def needs_rework(attributes: int, codec: Codec | None, *, keys_required: bool) -> bool:
    """Whether a batch with these attributes must be opened before it is appended.

    ``codec`` is what the topic demands, None where the producer's choice stays.
    """
    return keys_required or (codec is not None and attributes & _CODEC_MASK != codec)


def rework(batch: Buffer, codec: Codec | None, *, keys_required: bool) -> bytearray:
    """The same records, offsets, times and producer fields under ``codec``, with their records checked.

    Raises `Corrupt` for records that are not what the header says and `KafkaError` INVALID_RECORD for a record
    without a key where ``keys_required``.
    """
    header = read_header(batch)
    for record in iter_records(batch):
        if keys_required and record.key is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"the record at offset delta {record.offset - header.base_offset} has no key; "
                "a compacted topic needs one to know what it replaces",
            )
    if codec is None or header.codec is codec:
        return bytearray(batch)
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], _DECOMPRESSED_BYTES_MAX)
    out = bytearray(HEADER_BYTES) + compress(codec, payload)
    attributes = header.attributes & ~_CODEC_MASK | codec
    fields = header._replace(batch_length=len(out) - LOG_OVERHEAD_BYTES, attributes=attributes)
    BATCH_HEADER.pack_into(out, 0, *fields)
    BATCH_HEADER.pack_into(out, 0, *fields._replace(crc=crc32c(memoryview(out)[CRC_START:])))
    return out
