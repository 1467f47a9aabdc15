"""Where logs start, and below which offset some may be missing: a file beside Kafka's checkpoints.

``log-bounds``: a line with version, CRC-32C of the rest and its length, then JSON: by partition the log start, and the
offset below which the cleaner may have left gaps, or null where it is not written down. Kafka's checkpoints have no
checksum, and one digit that changes in ``log-start-offset-checkpoint`` would hide records, and have them deleted. So
the log starts stand here again. This file is always written after the other: where it is not the older one of the
two, it is right; otherwise something else wrote the checkpoint (Kafka itself), or a stop came between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from stratalog.hot.storage.checkpoint import LOG_START_OFFSETS
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

__all__ = [
    "LOG_BOUNDS",
    "LogBounds",
    "bound_rows",
    "bounds_from_bytes",
    "bounds_to_bytes",
    "framed_bounds",
    "is_newer_than_checkpoint",
]

LOG_BOUNDS: Final = "log-bounds"
_VERSION: Final = 1
_NAME_PARTS: Final = 2


class LogBounds(NamedTuple):
    """One log."""

    log_start_offset: int
    gaps_below: int | None
    """No offset is missing from here on; None of a log that is not compacted, and never was."""


def bounds_to_bytes(bounds: Mapping[TopicPartition, LogBounds]) -> bytes:
    """The content of ``log-bounds``."""
    body = json.dumps({str(name): list(one) for name, one in sorted(bounds.items())}, separators=(",", ":")).encode()
    return _framed(body)


def bound_rows(topic: str, rows: Mapping[int, LogBounds]) -> str:
    """The rows of one topic, as they stand in the file."""
    return json.dumps({f"{topic}-{number}": list(one) for number, one in rows.items()}, separators=(",", ":"))[1:-1]


def framed_bounds(pieces: Iterable[str]) -> bytes:
    """The content of ``log-bounds`` with the rows of these topics."""
    return _framed(f"{{{','.join(pieces)}}}".encode())


def _framed(body: bytes) -> bytes:
    return b"%d %08x %d\n%b" % (_VERSION, crc32c(body), len(body), body)


def bounds_from_bytes(data: bytes) -> dict[TopicPartition, LogBounds]:
    """Parse ``log-bounds``. Raises `Corrupt` for anything that this version did not write."""
    head, _, body = data.partition(b"\n")
    try:
        version, crc, length = head.split(b" ")
        if int(version) != _VERSION or int(length) != len(body) or int(crc, 16) != crc32c(body):
            raise ValueError(f"version {int(version)}, {len(body)} of {int(length)} bytes")
        return {_partition(name): LogBounds._make(row) for name, row in json.loads(body).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise Corrupt(f"{LOG_BOUNDS} is not readable ({error}); Kafka's checkpoints are read instead") from error


def _partition(name: str) -> TopicPartition:
    parts = name.rsplit("-", 1)
    if len(parts) != _NAME_PARTS:
        raise ValueError(f"{name!r} names no partition")
    return TopicPartition(parts[0], int(parts[1]))


def is_newer_than_checkpoint(files: Filesystem, directory: str) -> bool:
    """Whether this file was written after the checkpoint of log starts, or that is not there. Raises `OSError`."""
    try:
        checkpoint = files.status(f"{directory}/{LOG_START_OFFSETS}")
    except FileNotFoundError:
        return True
    return files.status(f"{directory}/{LOG_BOUNDS}").modified_ns >= checkpoint.modified_ns
