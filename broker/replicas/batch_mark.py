"""Finds the batch that a local log holds at an offset, to compare it with the archive's."""

from __future__ import annotations

from typing import Any

from stratalog.hot.log.log import Log
from stratalog.tier.manifests.second_timeline import BatchMark
from stratalog.wire.batch import HEADER_BYTES, read_header
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["batch_at"]


def batch_at(log: Log, offset: int) -> BatchMark:
    """The batch that holds ``offset``, or follows it, by its header. Raises `OSError`, and `KafkaError` if none is on the disk."""
    if offset >= log.written_offset:
        log.write_queued()
    parts = log.read(offset, max_bytes=1, max_offset=log.log_end_offset).parts
    if not parts:  # the log was cut in a gap that a cleaner had left
        text = f"offset {offset} of {log.topic_partition} is not on this disk, and no batch follows it"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    part = parts[0]
    file: Any = part.file
    with open(file.path, "rb") as stream:  # noqa: PTH123 - paths are strings throughout
        stream.seek(part.position)
        header = read_header(stream.read(HEADER_BYTES))
    return BatchMark(header.base_offset, header.next_offset, header.crc)
