"""Finds the batches that a local log holds, to compare them with the archive's."""

from __future__ import annotations

from typing import Any

from stratalog.hot.log.log import Log
from stratalog.tier.manifests.second_timeline import BatchMark
from stratalog.wire.batch import HEADER_BYTES, read_header

__all__ = ["batch_at", "holds_any"]


def batch_at(log: Log, offset: int) -> BatchMark:
    """The batch that holds ``offset``, by its header. Raises `OSError`, and `KafkaError` if it is not on the disk."""
    if offset >= log.written_offset:
        log.write_queued()
    part = log.read(offset, max_bytes=1, max_offset=log.log_end_offset).parts[0]
    file: Any = part.file
    with open(file.path, "rb") as stream:  # noqa: PTH123 - paths are strings throughout
        stream.seek(part.position)
        header = read_header(stream.read(HEADER_BYTES))
    return BatchMark(header.base_offset, header.next_offset, header.crc)


def holds_any(log: Log, offsets: range) -> bool:
    """Whether a batch has any of these offsets, which lie below the log end. Raises as `batch_at`."""
    return batch_at(log, offsets.start).base < offsets.stop
