"""The bytes of a ledger: heads and records of runs as JSON, each with a CRC-32C of its own. Pure."""

from __future__ import annotations

from typing import Any, Final

from crc32c import crc32c

from stratalog.spark.ledger.ledger import Head, OutputFile, Run, SourceObject, Span, SpanId
from stratalog.tier.documents.json import LISTING_BYTES_MAX, parse_json
from stratalog.tier.documents.unknown_fields import canonical_json, integer, text
from stratalog.wire.errors import Corrupt

__all__ = ["head_from_bytes", "head_to_bytes", "run_from_bytes", "run_to_bytes"]

VERSION: Final = 1


def head_to_bytes(head: Head) -> bytes:
    """The inverse of `head_from_bytes`."""
    return _sealed(
        "stratalog-backfill",
        {
            "topic": head.topic,
            "topic_id": head.topic_id,
            "seq": head.seq,
            "layout": dict(head.layout),
            "coverage": {str(partition): [list(one) for one in spans] for partition, spans in head.coverage.items()},
            "checkpoint": head.checkpoint,
            "runs": list(head.runs),
            "publishing": head.publishing,
            "rows": head.rows,
            "source_bytes": head.source_bytes,
            "file_bytes": head.file_bytes,
            "shortened": {str(partition): seq for partition, seq in head.shortened.items()},
        },
    )


def head_from_bytes(data: bytes, where: str) -> Head:
    """The head in ``data``. Raises `Corrupt`, naming ``where``."""
    fields = _opened("stratalog-backfill", data, where)
    try:
        checkpoint = fields["checkpoint"]
        return Head(
            topic=text(fields, "topic"),
            topic_id=text(fields, "topic_id"),
            seq=integer(fields, "seq"),
            layout=tuple((str(name), str(value)) for name, value in fields["layout"].items()),
            coverage={
                int(partition): tuple((int(start), int(end)) for start, end in spans)
                for partition, spans in fields["coverage"].items()
            },
            checkpoint=None if checkpoint is None else str(checkpoint),
            runs=tuple(str(name) for name in fields["runs"]),
            publishing=bool(fields["publishing"]),
            rows=integer(fields, "rows"),
            source_bytes=integer(fields, "source_bytes"),
            file_bytes=integer(fields, "file_bytes"),
            shortened={int(partition): int(seq) for partition, seq in fields.get("shortened", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(f"{where}: a field of the ledger is missing or of another type: {error!r}") from error


def run_to_bytes(run: Run) -> bytes:
    """The inverse of `run_from_bytes`."""
    return _sealed(
        "stratalog-backfill-run",
        {
            "name": run.name,
            "seq": run.seq,
            "created_ts": run.created_ms,
            "spans": [
                {
                    "offsets": list(span.id),
                    "source_bytes": span.source_bytes,
                    "sources": [list(source) for source in span.sources],
                    "files": [list(file) for file in span.files],
                    **({"left_out": [list(one) for one in span.left_out]} if span.left_out else {}),
                }
                for span in run.spans
            ],
            "rewritten": [list(span) for span in run.rewritten],
            "removed": list(run.removed),
            "abandoned": [list(span) for span in run.abandoned],
        },
    )


def run_from_bytes(data: bytes, where: str) -> Run:
    """The record in ``data``. Raises `Corrupt`, naming ``where``."""
    fields = _opened("stratalog-backfill-run", data, where)
    try:
        return Run(
            name=text(fields, "name"),
            seq=integer(fields, "seq"),
            created_ms=integer(fields, "created_ts"),
            spans=tuple(_span(each) for each in fields["spans"]),
            rewritten=tuple(SpanId(*map(int, each)) for each in fields["rewritten"]),
            removed=tuple(str(path) for path in fields["removed"]),
            abandoned=tuple(SpanId(*map(int, each)) for each in fields.get("abandoned", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(f"{where}: a field of the record is missing or of another type: {error!r}") from error


def _span(fields: dict[str, Any]) -> Span:
    return Span(
        id=SpanId(*map(int, fields["offsets"])),
        sources=tuple(SourceObject(str(key), int(crc)) for key, crc in fields["sources"]),
        files=tuple(OutputFile(str(path), *map(int, numbers)) for path, *numbers in fields["files"]),
        source_bytes=integer(fields, "source_bytes"),
        left_out=tuple((int(start), int(end)) for start, end in fields.get("left_out", ())),
    )


def _sealed(kind: str, fields: dict[str, Any]) -> bytes:
    body = canonical_json({"format": kind, "version": VERSION, **fields}).encode()
    return body[:-1] + b',"crc32c":%d}' % crc32c(body)


def _opened(kind: str, data: bytes, where: str) -> dict[str, Any]:
    body, mark, crc = data.rpartition(b',"crc32c":')
    if not mark or crc != b"%d}" % crc32c(body + b"}"):
        raise Corrupt(
            f"{where}: this is no whole {kind}, or its CRC-32C is wrong; restore it from a copy of the target"
        )
    fields = parse_json(body + b"}", where, limit_bytes=LISTING_BYTES_MAX)
    if fields.get("format") != kind or fields.get("version") != VERSION:
        raise Corrupt(
            f"{where}: format {fields.get('format')!r}, version {fields.get('version')!r}; this release reads "
            f"{kind!r}, version {VERSION}"
        )
    return dict(fields)
