"""The frame of a ``.checkpoint`` file: control records around records of the metadata log.

The first batch holds the snapshot header and, from ``kraft.version`` 1 on, that level and the voters; batches of
records follow; the footer is a batch of its own. Offsets count from 0. Sources: KIP-630, KIP-853, Kafka's
``RecordsSnapshotWriter``, ``RecordsSnapshotReader``, ``BatchFileWriter``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from stratalog.metadata.quorum.batch_bounds import parts
from stratalog.wire.batch import (
    Buffer,
    Record,
    build_batch,
    build_control_batch,
    check_batch,
    iter_headers,
    iter_records,
)
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import control
from stratalog.wire.records.control import (
    ControlType,
    KRaftVersionRecord,
    QuorumVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from stratalog.wire.schema import DecodeError, Message

__all__ = [
    "KRAFT_VERSION_MAX",
    "STATIC_QUORUM",
    "Checkpoint",
    "QuorumRecords",
    "build_checkpoint",
    "footer_batch",
    "header_batch",
    "read_checkpoint",
    "record_batches",
]

KRAFT_VERSION_MAX: Final = 1
"""The newest level of ``kraft.version`` that is known: voters that can change (KIP-853)."""

_RECORDS_PER_BATCH: Final = 1000


class QuorumRecords(Struct, frozen=True):
    """The facts about the quorum that control records hold: none with static voters, which settings name."""

    kraft_version: int = 0
    voters: tuple[QuorumVoter, ...] = ()

    def after(self, record: Message) -> QuorumRecords:
        """The facts once ``record`` of the log or a checkpoint is read; other control records change nothing.

        Raises `Corrupt` for a level of ``kraft.version`` that is not known, and for voters below level 1.
        """
        if isinstance(record, KRaftVersionRecord):
            if not 0 <= record.kraft_version <= KRAFT_VERSION_MAX:
                raise Corrupt(
                    f"kraft.version is {record.kraft_version}, known are 0 to {KRAFT_VERSION_MAX}: a newer release wrote it"
                )
            return QuorumRecords(record.kraft_version, self.voters)
        if isinstance(record, VotersRecord):
            if not self.kraft_version:
                raise Corrupt("a VotersRecord stands before any KRaftVersionRecord of level 1")
            return QuorumRecords(self.kraft_version, tuple(record.voters))
        return self


STATIC_QUORUM: Final = QuorumRecords()
"""A quorum of ``kraft.version`` 0, whose voters no checkpoint names."""


class Checkpoint(Struct, frozen=True):
    """The content of a whole checkpoint."""

    last_contained_timestamp_ms: int
    quorum: QuorumRecords
    values: tuple[Buffer, ...]
    """The records of the metadata log, as they are encoded."""


def header_batch(
    quorum: QuorumRecords, *, last_contained_timestamp_ms: int, timestamp_ms: int, epoch: int
) -> tuple[bytearray, int]:
    """The first batch, and the offset of the record behind it."""
    records: list[tuple[ControlType, Message]] = [
        (
            ControlType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp_ms),
        )
    ]
    if quorum.kraft_version:
        records.append((ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=quorum.kraft_version)))
        if quorum.voters:
            records.append((ControlType.KRAFT_VOTERS, VotersRecord(voters=list(quorum.voters))))
    rows = [
        Record(offset, timestamp_ms, control.encode_key(kind), control.encode_record(record))
        for offset, (kind, record) in enumerate(records)
    ]
    return build_batch(rows, leader_epoch=epoch, control=True), len(rows)


def record_batches(
    values: Sequence[bytes], *, first_offset: int, timestamp_ms: int, epoch: int
) -> Iterator[tuple[bytearray, int]]:
    """Batches of at most 1000 records and 8 MiB, each with the offset of the record behind it."""
    offset = first_offset
    for part in parts([len(value) for value in values], _RECORDS_PER_BATCH):
        chunk = values[part]
        rows = [Record(offset + index, timestamp_ms, None, value) for index, value in enumerate(chunk)]
        offset += len(chunk)
        yield build_batch(rows, leader_epoch=epoch), offset


def footer_batch(*, offset: int, timestamp_ms: int, epoch: int) -> bytearray:
    """The last batch."""
    value = control.encode_record(SnapshotFooterRecord())
    return build_control_batch(
        ControlType.SNAPSHOT_FOOTER, value, offset=offset, timestamp_ms=timestamp_ms, leader_epoch=epoch
    )


def build_checkpoint(
    values: Sequence[bytes],
    quorum: QuorumRecords = STATIC_QUORUM,
    *,
    last_contained_timestamp_ms: int,
    timestamp_ms: int,
    epoch: int = 0,
) -> bytes:
    """A whole file of records that are encoded already."""
    first, offset = header_batch(
        quorum, last_contained_timestamp_ms=last_contained_timestamp_ms, timestamp_ms=timestamp_ms, epoch=epoch
    )
    batches = [first]
    for batch, end in record_batches(values, first_offset=offset, timestamp_ms=timestamp_ms, epoch=epoch):
        batches.append(batch)
        offset = end
    batches.append(footer_batch(offset=offset, timestamp_ms=timestamp_ms, epoch=epoch))
    return b"".join(batches)


def read_checkpoint(buffer: Buffer, where: str) -> Checkpoint:
    """The content of a file; ``where`` names it in messages. Raises `Corrupt` if it is cut off or damaged."""
    try:
        return _read(buffer, where)
    except Corrupt as error:
        if str(error).startswith(where):
            raise
        raise Corrupt(f"{where} is damaged: {error}") from error


def _read(buffer: Buffer, where: str) -> Checkpoint:
    header: SnapshotHeaderRecord | None = None
    finished = False
    quorum = STATIC_QUORUM
    values: list[Buffer] = []
    end = 0
    for position, _ in iter_headers(buffer):
        batch = check_batch(buffer, position)
        end = position + batch.size_bytes
        if finished:
            raise Corrupt(f"{where} goes on behind its footer, at byte {position}")
        for record in iter_records(buffer, position):
            content = _control_record(record, where, position) if batch.is_control else None
            if (header is None) != isinstance(content, SnapshotHeaderRecord):
                raise Corrupt(f"{where} has its snapshot header not as its first record and once, at byte {position}")
            if content is None:
                values.append(record.value or b"")
                continue
            if isinstance(content, SnapshotHeaderRecord):
                header = content
            quorum = quorum.after(content)
            finished = finished or isinstance(content, SnapshotFooterRecord)
    if header is None or not finished or end != len(buffer):
        raise Corrupt(f"{where} is cut off at byte {end} of {len(buffer)}")
    return Checkpoint(header.last_contained_log_timestamp, quorum, tuple(values))


def _control_record(record: Record, where: str, position: int) -> Message:
    try:
        return control.decode_record(control.decode_key(record.key or b""), record.value or b"")
    except DecodeError as error:
        raise Corrupt(f"{where} has a control record that cannot be read, at byte {position}: {error}") from error
