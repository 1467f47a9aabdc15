"""Rows that a backfill has converted, by its ledger: spans of offsets and the files that hold their rows.

For readers that want to know what a listing cannot tell: that all rows up to an offset are there, or which file holds
an offset. Files of a run that is just being moved to their places are given where they lie at this moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from stratalog.spark.ledger.layout import staging_prefix
from stratalog.spark.ledger.ledger import Interval, SpanId
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.ledger.target import Target, open_target
from stratalog.tier.stores.store import NotFound

__all__ = ["ConvertedSpan", "converted_spans"]


class ConvertedSpan(NamedTuple):
    """The offsets ``[start, end)`` of one partition; ``urls`` are of the files with their rows, perhaps none.

    ``left_out`` are the offsets ``[start, end)`` of batches that are as their producer sent them and cannot be read.
    """

    id: SpanId
    rows: int
    urls: tuple[str, ...]
    left_out: tuple[Interval, ...] = ()


def converted_spans(url: str, topic: str, options: Mapping[str, str] | None = None) -> list[ConvertedSpan]:
    """The spans of ``topic`` that the target at ``url`` holds, in order; none where nothing was converted.

    ``options`` are those named ``s3.…``. Raises `Corrupt` for a damaged ledger.
    """
    target = open_target(url, options or {})
    store = LedgerStore(target, topic, "")
    staging = staging_prefix(topic, store.head.runs[-1]) if store.head.publishing else None
    return [
        ConvertedSpan(
            identity, span.rows, tuple(_url(target, file.path, staging) for file in span.files), span.left_out
        )
        for identity, span in store.ledger.spans.items()
    ]


def _url(target: Target, path: str, staging: str | None) -> str:
    if staging is not None and not _is_there(target, path):
        path = staging + path
    # A file's URL is quoted as the directory's is; keys in a bucket are written as they are.
    return f"{target.url.rstrip('/')}/{quote(path) if target.url.startswith('file:') else path}"


def _is_there(target: Target, key: str) -> bool:
    try:
        target.store.get_suffix(key, 1)
    except NotFound:
        return False
    return True
