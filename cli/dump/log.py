"""Log segments and metadata snapshots as rows: every batch with its place, checked; on demand its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from stratalog.cli.dump.row import Row, message_fields, problem, row
from stratalog.cli.values import headers_json
from stratalog.hot.segments.scan import Damage, scan_checked
from stratalog.hot.storage.filesystem import File
from stratalog.wire.batch import BatchHeader, Record, iter_records
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records import control, metadata

__all__ = ["METADATA_TOPIC", "RecordReader", "batch_rows", "dump_batches", "metadata_record", "plain_record"]

METADATA_TOPIC: Final = "__cluster_metadata"
_CODECS: Final = {int(codec): codec.name.lower() for codec in Codec}
RecordReader = Callable[[Record], Row]
"""How the value of a record is shown."""


class Totals(Struct):
    """Counts of what a walk has seen."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    end_offset: int | None = None
    size_bytes: int = 0

    def add(self, header: BatchHeader) -> None:
        """Count one batch."""
        self.batches += 1
        self.records += header.record_count
        self.size_bytes += header.size_bytes
        self.end_offset = header.next_offset
        if self.first_offset is None:
            self.first_offset = header.base_offset

    def row(self) -> Row:
        """The last row of a dump."""
        return row(
            "summary",
            batches=self.batches,
            records=self.records,
            first_offset=self.first_offset,
            end_offset=self.end_offset,
            valid_bytes=self.size_bytes,
        )


def dump_batches(
    file: File, size_bytes: int, base_offset: int, *, records: RecordReader | None, quiet: bool = False
) -> Iterator[Row]:
    """Every batch of a ``.log`` or ``.checkpoint`` file, its CRC and place checked, and at the end the totals.

    ``quiet`` leaves the batches out and keeps what is wrong. A batch that is not right ends the walk: what follows
    cannot be found.
    """
    totals = Totals()
    for found in scan_checked(file, 0, size_bytes, base_offset):
        if isinstance(found, Damage):
            end = base_offset if totals.end_offset is None else totals.end_offset
            yield problem(
                f"{found.reason}; {size_bytes - found.position} bytes from here on were not read",
                position=found.position,
                offset=end,
            )
            break
        totals.add(found.header)
        if not quiet:
            yield batch_row(found.position, found.header)
        yield from batch_rows(found.data, 0, found.header, found.position, records)
    yield totals.row()


def batch_row(position: int, header: BatchHeader) -> Row:
    """One batch as it stands in the file."""
    flags = {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "log_append_time": header.is_log_append_time,
        "delete_horizon": header.has_delete_horizon,
    }
    return row(
        "batch",
        position=position,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        records=header.record_count,
        size_bytes=header.size_bytes,
        codec=_CODECS.get(header.attributes & 7, "unknown"),
        leader_epoch=header.partition_leader_epoch,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        flags=[name for name, is_set in flags.items() if is_set],
        crc=f"{header.crc:#010x}",
    )


def batch_rows(
    data: memoryview, at: int, header: BatchHeader, position: int, records: RecordReader | None
) -> Iterator[Row]:
    """The records of one batch, or what is wrong with them; they are read also when they are not shown.

    ``position`` is the batch's place in the file, for messages.
    """
    try:
        found = list(iter_records(data, at))
    except Corrupt as error:
        yield problem(str(error), position=position, offset=header.base_offset)
        return
    if not header.is_control and found and found[-1].offset > header.last_offset:
        yield problem(
            f"the last record has offset {found[-1].offset}, the header ends at {header.last_offset}",
            position=position,
            offset=header.base_offset,
        )
    if records is None:
        return
    for record in found:
        try:
            yield control_record(record) if header.is_control else records(record)
        except Invalid as error:
            yield problem(str(error), position=position, offset=record.offset)


def plain_record(record: Record) -> Row:
    """A record of any topic."""
    return row(
        "record",
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=headers_json(record.headers),
    )


def metadata_record(record: Record) -> Row:
    """A record of the cluster's own log. Raises `Invalid` for one that is not known."""
    message = metadata.decode_record(record.value or b"")
    return row(
        "record",
        offset=record.offset,
        timestamp=record.timestamp_ms,
        type=type(message).__name__,
        fields=message_fields(message),
    )


def control_record(record: Record) -> Row:
    """A marker: the end of a transaction, a new leader, the ends of a snapshot. Raises `Invalid`."""
    kind = control.decode_key(record.key or b"")
    message = control.decode_record(kind, record.value or b"")
    return row(
        "record",
        offset=record.offset,
        timestamp=record.timestamp_ms,
        type=control.ControlType(kind).name.lower(),
        fields=message_fields(message),
    )
