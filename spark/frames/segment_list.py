"""Contents of an archive as lists: its objects as a table, and as folders and files the way fsspec lists them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from stratalog.tier.planning.slices import PartitionArchive
from stratalog.wire.errors import Unknown

__all__ = ["SEGMENT_SCHEMA", "list_folder", "segments_table"]

_TIME: Final = pa.timestamp("ms", tz="UTC")

SEGMENT_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("data_bytes", pa.int64()),
        pa.field("min_timestamp", _TIME),
        pa.field("max_timestamp", _TIME),
        pa.field("uploaded", _TIME),
        pa.field("codecs", pa.list_(pa.string())),
        pa.field("compacted", pa.bool_()),
        pa.field("key", pa.string()),
    ]
)
"""Columns of the list of objects; an object holds the offsets from ``start_offset`` to before ``end_offset``."""


def segments_table(archives: Iterable[PartitionArchive]) -> pa.Table:
    """One row for each live object, by topic, partition and offset."""
    rows = [
        (
            archive.partition.topic, archive.partition.partition, entry.base, entry.end, entry.record_count,
            entry.size_bytes, entry.data_bytes, _time(entry.min_timestamp_ms), _time(entry.max_timestamp_ms),
            _time(entry.uploaded_ms), list(entry.codecs), entry.compacted, entry.key,
        )
        for archive in archives
        for entry in archive.entries
    ]  # fmt: skip
    columns = zip(*rows, strict=True) if rows else [()] * len(SEGMENT_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SEGMENT_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SEGMENT_SCHEMA)


def _time(time_ms: int) -> int | None:
    return time_ms if time_ms >= 0 else None


def list_folder(archives: Sequence[PartitionArchive], path: str) -> list[dict[str, Any]]:
    """Entries of the folder ``path`` of ``topic/partition/start-end.seg``, as fsspec's ``ls(detail=True)`` tells it.

    ``name`` and ``type`` (``directory`` or ``file``) are fsspec's, and so is ``size`` in bytes, which directories have
    here too. Raises `Unknown` for a folder there is none of.
    """
    parts = tuple(part for part in path.strip("/").split("/") if part)
    found: dict[str, dict[str, Any]] = {}
    for row in _files(archives):
        names = (row["topic"], str(row["partition"]), row["file"])
        if names[: len(parts)] != parts:
            continue
        name = "/".join(names[: len(parts) + 1])
        if len(parts) >= len(names) - 1:
            found[name] = {"name": name, "type": "file", **{key: row[key] for key in row if key != "file"}}
        else:
            folder = found.setdefault(name, {"name": name, "type": "directory", "size": 0})
            folder["size"] += row["size"]
    if parts and not found:
        raise Unknown(f"{path!r} is not in the archive: folders are TOPIC and TOPIC/PARTITION")
    return list(found.values())


def _files(archives: Sequence[PartitionArchive]) -> Iterable[dict[str, Any]]:
    for archive in archives:
        for entry in archive.entries:
            yield {
                "topic": archive.partition.topic,
                "partition": archive.partition.partition,
                "file": f"{entry.base:020}-{entry.end:020}.seg",
                "size": entry.size_bytes,
                "records": entry.record_count,
                "key": entry.key,
            }
