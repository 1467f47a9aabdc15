"""Runs the compaction of an archive in memory, at the time of a random history."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

from stratalog.spark.rewrite import compact as compact_module
from stratalog.spark.rewrite import group as group_module
from stratalog.spark.rewrite import newest_keys
from stratalog.spark.rewrite import part as part_module
from stratalog.spark.rewrite import run as run_module
from stratalog.spark.rewrite.compact import CompactSettings, compact
from stratalog.spark.rewrite.rewriter import HereRewriter
from stratalog.spark.source.options import parse_options
from tests.histories.oracle import Wrong


def compact_now(world) -> dict:
    """Compact the archive of the world's topic; the clean offsets."""
    read = parse_options({"archive": world.store.url, "subscribe": "t"})
    settings = CompactSettings(
        "t", read=read, any_policy=True, object_bytes=world.dice.choice([400, 1500]), min_lag_ms=0,
        delete_retention_ms=world.delete_retention_ms, again=world.dice.random() < 0.3,
    )  # fmt: skip
    told = SimpleNamespace(planned=lambda *_: None, moved=lambda _: None)
    clock = SimpleNamespace(time_ns=lambda: world.now_ms * 1_000_000, sleep=lambda _: None)
    sound = SimpleNamespace(require=lambda **_: None)
    with (
        patch.object(compact_module, "time", clock),
        patch.object(part_module, "time", clock),
        patch.object(run_module, "time", clock),
        patch.object(compact_module, "probe", lambda _store: sound),
        patch.object(compact_module, "open_archive", lambda *_: world.store),
        patch.object(newest_keys, "open_archive", lambda *_: world.store),
        patch.object(group_module, "open_archive", lambda *_: world.store),
    ):
        summary = compact(settings, HereRewriter(), told)
    if not summary.is_whole:
        raise Wrong(f"compaction of the archive: {summary}")
    return dict(summary.clean_offsets)
