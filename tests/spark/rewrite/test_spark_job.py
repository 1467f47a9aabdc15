"""Runs on Spark: the same result as in one process."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from stratalog.spark.rewrite.compact import compact
from stratalog.spark.rewrite.spark_job import SparkRewriter
from stratalog.spark.sessions.spark_tasks import TaskFailed

pytestmark = pytest.mark.spark


@pytest.mark.story
def test_a_compaction_by_tasks_of_spark(rewrite_rig: Any, growing_archive: Any, spark: SparkSession) -> None:
    """Two partitions, transactions, a key in many objects: of each key the newest record stays; then nothing is to do."""
    store = growing_archive.store
    histories = [rewrite_rig.make_history(seed, steps=60) for seed in (1, 2)]
    for number, history in enumerate(histories):
        rewrite_rig.archive(store, history, number)
    told = rewrite_rig.Told()
    rewriter = SparkRewriter(spark)
    planned = compact(rewrite_rig.settings(store, dry_run=True, core_count=2), rewriter, told)
    assert planned.rewritten_objects
    assert rewrite_rig.rows_of(store) == histories[0].rows
    summary = compact(rewrite_rig.settings(store, task_bytes=1, core_count=2), rewriter, told)
    assert summary.is_whole, summary
    for number, history in enumerate(histories):
        assert rewrite_rig.rows_of(store, number) == history.newest()
        assert rewrite_rig.manifest_of(store, number).archive_clean_offset == history.offset
    assert compact(rewrite_rig.settings(store), rewriter, told).objects == 0


def test_a_task_that_fails_says_why(rewrite_rig: Any, growing_archive: Any, spark: SparkSession) -> None:
    """And leaves nothing listed."""
    store = growing_archive.store
    manifest = rewrite_rig.archive(store, rewrite_rig.make_history(1))
    entry = manifest.entries[1]
    data = store.get(entry.key)[0]
    store.put(entry.key, data[:70] + bytes([data[70] ^ 1]) + data[71:])
    with pytest.raises(TaskFailed, match=entry.key):
        compact(rewrite_rig.settings(store), SparkRewriter(spark), rewrite_rig.Told())
    assert rewrite_rig.manifest_of(store).jobs == ()
    assert rewrite_rig.manifest_of(store).entries == manifest.entries
