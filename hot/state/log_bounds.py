"""Where logs start, and below which offset some may be missing: a file beside Kafka's checkpoints.

``log-bounds``: a line with version, CRC-32C of the rest and its length, then JSON: by partition the log start, and the
offset below which the cleaner may have left gaps, or null where it is not written down. A third number, if it is less,
is the offset below which there may be gaps between two segments. A fourth one is a leader epoch: no record that was
committed below the second number is of a later one. It is there while a log that a cleaner has passed is copied. Rows of
one name with fewer numbers are for earlier versions, which take the first or the last.

Kafka's checkpoints have no checksum, and one digit that changes in ``log-start-offset-checkpoint`` would hide records,
and have them deleted. So the log starts stand here again. This file is always written after the other: where it is not
the older one of the two, it is right; otherwise something else wrote the checkpoint (Kafka itself), or a stop came between.
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
    "allowed_gaps_below",
    "bound_rows",
    "bounds_from_bytes",
    "bounds_to_bytes",
    "framed_bounds",
    "is_newer_than_checkpoint",
]

LOG_BOUNDS: Final = "log-bounds"
_VERSION: Final = 1
_NAME_PARTS: Final = 2
_PARTS_EARLIER: Final = 2
"""The numbers of a row as an earlier version knows it."""


class LogBounds(NamedTuple):
    """One log."""

    log_start_offset: int
    gaps_below: int | None
    """No offset is missing from here on; None of a log that is not compacted, and never was."""
    border_gaps_below: int | None
    """From here on none is missing between two segments, either: all that the log has below was synced. None as before."""
    passed_epoch: int | None = None
    """No record that was committed below ``gaps_below`` is of a later leader epoch; None if that is not written down."""


def bounds_to_bytes(bounds: Mapping[TopicPartition, LogBounds]) -> bytes:
    """The content of ``log-bounds``."""
    return framed_bounds(bound_rows(topic, {number: one}) for (topic, number), one in sorted(bounds.items()))


def bound_rows(topic: str, rows: Mapping[int, LogBounds]) -> str:
    """The rows of one topic, as they stand in the file."""
    texts = []
    for number, one in rows.items():
        name = json.dumps(f"{topic}-{number}")
        if one.border_gaps_below != one.gaps_below or one.passed_epoch is not None:
            texts.append(f"{name}:[{one.log_start_offset},{one.gaps_below},{one.border_gaps_below}]")
        if one.passed_epoch is not None:
            texts.append(f"{name}:[{one.log_start_offset},{one.gaps_below},{one.border_gaps_below},{one.passed_epoch}]")
        texts.append(f"{name}:{json.dumps(one[:_PARTS_EARLIER], separators=(',', ':'))}")
    return ",".join(texts)


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
        rows = json.loads(body, object_pairs_hook=_longest_rows)
        return {_partition(name): _bounds(row) for name, row in rows.items()}
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise Corrupt(f"{LOG_BOUNDS} is not readable ({error}); Kafka's checkpoints are read instead") from error


def _longest_rows(pairs: list[tuple[str, list[int | None]]]) -> dict[str, list[int | None]]:
    """The longest row of each log: it says most."""
    rows: dict[str, list[int | None]] = {}
    for name, row in pairs:
        if name not in rows or len(row) > len(rows[name]):
            rows[name] = row
    return rows


def _bounds(row: list[int | None]) -> LogBounds:
    return LogBounds(*(row if len(row) > _PARTS_EARLIER else [*row, row[-1]]))  # type: ignore[arg-type]  # others are a `TypeError`


def _partition(name: str) -> TopicPartition:
    parts = name.rsplit("-", 1)
    if len(parts) != _NAME_PARTS:
        raise ValueError(f"{name!r} names no partition")
    return TopicPartition(parts[0], int(parts[1]))


def allowed_gaps_below(
    bounds: Mapping[TopicPartition, LogBounds], name: TopicPartition, *, otherwise: int
) -> tuple[int, int | None]:
    """The offset below which a cleaner of ours may have been, perhaps above the log's end: its row was written before the first gap.

    Behind it, the latest leader epoch of what was committed there; None if that is not known. Both hold also where a stop
    came between the two files. ``otherwise`` is for a log without a row: it was put here by hand, or the file is lost.
    """
    row = bounds.get(name)
    return (otherwise, None) if row is None else (row.gaps_below or 0, row.passed_epoch)


def is_newer_than_checkpoint(files: Filesystem, directory: str) -> bool:
    """Whether this file was written after the checkpoint of log starts, or that is not there. Raises `OSError`."""
    try:
        checkpoint = files.status(f"{directory}/{LOG_START_OFFSETS}")
    except FileNotFoundError:
        return True
    return files.status(f"{directory}/{LOG_BOUNDS}").modified_ns >= checkpoint.modified_ns
