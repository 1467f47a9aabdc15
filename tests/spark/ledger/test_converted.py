"""Converted rows, by the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.ledger.converted import converted_spans
from stratalog.spark.ledger.target import DirectoryTarget


def test_spans_and_their_files_are_reported(
    tmp_path: Path, archive_in: Any, batches: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while they are moved: each file where it lies at this moment; before the first backfill there are none."""
    orders = archive_in(f"file://{tmp_path / 'archive'}")
    orders.add("orders", 0, batches(0, 100))
    lake = tmp_path / "lake"
    assert converted_spans(str(lake), "orders") == []
    publish, moved = DirectoryTarget.publish, []

    def two_only(target: DirectoryTarget, key: str, final_key: str) -> None:
        moved.append(key)
        if len(moved) > 2:
            raise KeyboardInterrupt
        publish(target, key, final_key)

    wanted = rig.settings(orders, str(lake), file_bytes=600)
    with monkeypatch.context() as patched:
        patched.setattr(DirectoryTarget, "publish", two_only)
        with pytest.raises(KeyboardInterrupt):
            backfill(wanted, rig.HereRunner())
    for _ in range(2):
        spans = converted_spans(str(lake), "orders")
        assert [span.id.start for span in spans] == [0, *(span.id.end for span in spans[:-1])]
        urls = [url for span in spans for url in span.urls]
        rows = [
            at
            for url in urls
            for at in pq.read_table(unquote(url.removeprefix("file://"))).column("offset").to_pylist()
        ]
        assert rows == list(range(100))
        backfill(wanted, rig.HereRunner())
    assert not any("_stratalog" in url for url in urls)


def test_offsets_that_were_left_out_are_reported(
    tmp_path: Path, archive_in: Any, batches: Any, rig: Any, rewrite_rig: Any
) -> None:
    """The rows of a span are all that there are of its offsets, but for these."""
    orders = archive_in(f"file://{tmp_path / 'archive'}")
    orders.add("orders", 0, batches(0, 10) + rewrite_rig.unreadable_batch(10) + batches(11, 5))
    lake = str(tmp_path / "lake")
    backfill(rig.settings(orders, lake), rig.HereRunner())
    assert [(span.id, span.rows, span.left_out) for span in converted_spans(lake, "orders")] == [
        ((0, 0, 16), 15, ((10, 11),))
    ]
