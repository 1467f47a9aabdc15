"""The state of a log at an orderly stop, for a start that opens none of its files. Pure.

``log-summaries`` in a log directory: a line with version, CRC-32C of the rest and its length, then JSON. A summary is
a hint: a start compares the state of each file with the one noted. If they differ, or if there is no summary, it reads
the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from stratalog.hot.segments.segment_indexes import IndexTail
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.storage.filesystem import FileStatus
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import TopicPartition, Uuid, uuid_parse, uuid_text

__all__ = ["LOG_SUMMARIES", "ActiveSummary", "LogSummary", "summaries_from_bytes", "summaries_to_bytes"]

LOG_SUMMARIES: Final = "log-summaries"
_VERSION: Final = 1
_NAME_PARTS: Final = 2


class ActiveSummary(NamedTuple):
    """The active segment, whose last batch ends the log."""

    base_offset: int
    roll_timestamp_ms: int
    last_batch_position: int
    last_batch_header: str
    """Its 61 bytes, in hexadecimal digits; empty where the segment is."""
    indexes: IndexTail
    aborted_count: int
    """Entries of the transaction index."""
    aborted_crc: int


class LogSummary(NamedTuple):
    """One partition, closed in order; everything it says is durable."""

    topic_id: Uuid
    end_offset: int
    producer_count: int
    """How many the snapshot at ``end_offset`` holds."""
    directory: FileStatus
    files: Mapping[str, FileStatus]
    """Every file of the partition but its indexes, by name."""
    epochs: tuple[EpochEntry, ...]
    active: ActiveSummary


def summaries_to_bytes(summaries: Mapping[TopicPartition, LogSummary]) -> bytes:
    """The content of ``log-summaries``."""
    rows = {str(name): _row(one) for name, one in summaries.items()}
    body = json.dumps(rows, separators=(",", ":")).encode("ascii")
    return b"%d %08x %d\n%b" % (_VERSION, crc32c(body), len(body), body)


def _row(one: LogSummary) -> list[object]:
    files = {name: list(status) for name, status in one.files.items()}
    head = [uuid_text(one.topic_id), one.end_offset, one.producer_count, list(one.directory), files]
    return [*head, [list(entry) for entry in one.epochs], list(one.active)]


def summaries_from_bytes(data: bytes) -> dict[TopicPartition, LogSummary]:
    """Parse ``log-summaries``. Raises `Corrupt` for anything that this version did not write."""
    head, _, body = data.partition(b"\n")
    try:
        version, crc, length = head.split(b" ")
        if int(version) != _VERSION or int(length) != len(body) or int(crc, 16) != crc32c(body):
            raise ValueError(f"version {int(version)}, {len(body)} of {int(length)} bytes")
        return {_partition(name): _summary(row) for name, row in json.loads(body).items()}
    except (ValueError, TypeError, KeyError, AttributeError, Invalid) as error:
        raise Corrupt(f"{LOG_SUMMARIES} is not readable ({error}); the logs are read instead") from error


def _partition(name: str) -> TopicPartition:
    parts = name.rsplit("-", 1)
    if len(parts) != _NAME_PARTS:
        raise ValueError(f"{name!r} names no partition")
    return TopicPartition(parts[0], int(parts[1]))


def _summary(row: list[Any]) -> LogSummary:
    topic_id, end_offset, producer_count, directory, files, epochs, active = row
    return LogSummary(
        uuid_parse(topic_id),
        end_offset,
        producer_count,
        FileStatus._make(directory),
        {name: FileStatus._make(status) for name, status in files.items()},
        tuple([EpochEntry._make(entry) for entry in epochs]),
        _active(active),
    )


def _active(row: list[Any]) -> ActiveSummary:
    base_offset, roll_timestamp_ms, position, header, indexes, aborted_count, aborted_crc = row
    tail = IndexTail._make(indexes)
    return ActiveSummary(base_offset, roll_timestamp_ms, position, header, tail, aborted_count, aborted_crc)
