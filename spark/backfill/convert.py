"""One span of offsets into staged Parquet files: what a worker of a backfill does.

Objects are fetched and decoded as for a query, and pyarrow writes the files right here, so that no row passes through
the JVM. Names and bytes follow from the span alone: an attempt that is repeated, or that runs twice, stages the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stratalog.spark.archive_store import open_archive
from stratalog.spark.backfill.plan import SpanTask
from stratalog.spark.ledger.folders import folders_of
from stratalog.spark.ledger.layout import LAYOUT_VERSION, file_name, topic_folder
from stratalog.spark.ledger.ledger import OutputFile, Span, SpanId
from stratalog.spark.ledger.parquet_files import FileLimits, WrittenFile, write_files
from stratalog.spark.ledger.target import Target, open_target
from stratalog.spark.rows.schema import COLUMNS
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.parquet_plan import ParquetSlice
from stratalog.spark.source.parquet_read import read_parquet_slices
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.read_lease import LeaseTicket, keep_lease
from stratalog.tier.stores.store import ObjectStore

__all__ = ["ConvertRequest", "convert_span", "convert_task"]

_logger = logging.getLogger("stratalog.spark")


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """Settings shared by all spans of one run, number ``seq``; it travels to every worker."""

    topic: str
    archive: str
    target: str
    staging: str
    seq: int
    partitioning: str = "date"
    limits: FileLimits = field(default_factory=FileLimits)
    batch_bytes: int = 2 << 20
    read_committed: bool = True
    fail_on_data_loss: bool = True
    lease: LeaseTicket | None = None
    archive_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def convert_task(spans: tuple[SpanTask, ...], request: ConvertRequest) -> list[Span]:
    """Convert ``spans`` one after the other, in a worker. Raises what reading and writing raise."""
    store = open_archive(request.archive, request.archive_options)
    target = open_target(request.target, request.target_options)
    converted: list[Span] = []
    for span in spans:
        keep_lease(store, request.lease)
        try:
            converted.append(convert_span(store, target, span, request))
        except DataLoss as loss:
            if request.fail_on_data_loss:
                raise
            _logger.warning("not converted, because failOnDataLoss is false: %s", loss)
            converted += _what_there_is(store, target, span, request)
    return converted


def _what_there_is(store: ObjectStore, target: Target, span: SpanTask, request: ConvertRequest) -> Iterator[Span]:
    """A span for each part of an object that is there; what is not there stays to be converted, should it come back."""
    if span.replaces is not None or len(span.slices) < 2:
        return
    sources = {source.key: source for source in span.sources}
    for piece in span.slices:
        identity = SpanId(span.id.partition, piece.start_offset, piece.end_offset)
        part = SpanTask(identity, (piece,), (sources[piece.key],), named_by_run=span.named_by_run)
        try:
            yield convert_span(store, target, part, request)
        except DataLoss as loss:
            _logger.warning("not converted, because failOnDataLoss is false: %s", loss)


def convert_span(store: ObjectStore, target: Target, span: SpanTask, request: ConvertRequest) -> Span:
    """Read the span from ``store`` and stage its files in ``target``; local files are removed if that fails.

    Batches that are as their producer sent them and cannot be read are left out, and noted in the span.
    """
    read = ReadRequest(
        columns=COLUMNS,
        batch_bytes=request.batch_bytes,
        read_committed=request.read_committed,
    )

    def new_path() -> Path:
        return target.new_path(request.staging)

    def metadata(file: WrittenFile) -> dict[str, str]:
        return _lineage(span, request.topic, file)

    left_out: list[tuple[int, int]] = []

    def leave_out(start_offset: int, end_offset: int, reason: str) -> None:
        if left_out and left_out[-1][1] == start_offset:  # a producer may send millions of them, one behind the other
            left_out[-1] = (left_out[-1][0], end_offset)
            return
        _logger.warning("offsets from %d on are left out: %s", start_offset, reason)
        left_out.append((start_offset, end_offset))

    written = write_files(
        read_slices(store, span.slices, read, on_unreadable=leave_out)
        if span.slices
        else _kept_rows(span, request, read),
        folders_of(request.partitioning),
        new_path,
        metadata,
        request.limits,
    )
    try:
        files = tuple(_staged(target, span, request, file) for file in written)
    except BaseException:
        for file in written:
            file.path.unlink(missing_ok=True)
        raise
    return Span(span.id, span.sources, files, span.source_bytes, tuple(left_out))


def _kept_rows(span: SpanTask, request: ConvertRequest, read: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The rows of ``span`` in files that were published before; those of one folder in the order of their offsets."""
    kept = [
        ParquetSlice(
            request.topic, span.id.partition, file.path, file.size_bytes, span.id.start, span.id.end, whole=False
        )
        for file in sorted(span.kept, key=lambda file: file.first)
    ]
    return read_parquet_slices(request.target, request.target_options, kept, read)


def _staged(target: Target, span: SpanTask, request: ConvertRequest, file: WrittenFile) -> OutputFile:
    rewritten_by = request.seq if span.named_by_run else 0
    name = file_name(request.topic, span.id.partition, file.first, file.last, rewritten_by)
    path = "/".join(filter(None, (topic_folder(request.topic), file.folder, name)))
    size_bytes, crc = target.stage(file.path, request.staging + path)
    return OutputFile(path, file.rows, size_bytes, crc, file.first, file.last)


def _lineage(span: SpanTask, topic: str, file: WrittenFile) -> dict[str, str]:
    """The key-values of the footer: where the rows come from, for readers of the file without its ledger."""
    return {
        "stratalog.layout": str(LAYOUT_VERSION),
        "stratalog.topic": topic,
        "stratalog.partition": str(span.id.partition),
        "stratalog.base": str(file.first),
        "stratalog.last": str(file.last),
        "stratalog.span": f"{span.id.start}-{span.id.end}",
        "stratalog.sources": "\n".join(f"{source.key} {source.crc32c:08x}" for source in span.sources),
    }
