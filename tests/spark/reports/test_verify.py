"""Deep verification by Spark's tasks: the same findings as by `stratalog tier verify --deep`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from stratalog.spark.archive_store import open_archive
from stratalog.spark.reports import verify
from stratalog.spark.reports.verify import (
    KnownFindings,
    ObjectToRead,
    divide,
    objects_to_read,
    read_objects,
    verify_on_spark,
)
from stratalog.spark.sessions.spark_tasks import SparkTasks
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.stores.store import ObjectStore

OPTIONS = VerifyOptions(now_ms=1 << 42, grace_ms=0)


@pytest.fixture
def bucket(tmp_path: Path, archive_in: Callable[[str], Any], batches: Callable[..., bytes]) -> Any:
    """Topics ``orders`` and ``payments``: two partitions of three objects, and one of one."""
    builder = archive_in(f"file://{tmp_path}/archive")
    for partition in range(2):
        builder.add("orders", partition, *(batches(at, 50) for at in (0, 50, 100)))
    builder.add("payments", 0, batches(0, 10), topic_id=b"p" * 16)
    return builder


def damage(store: ObjectStore, key: str) -> None:
    data = bytearray(store.get(key)[0])
    data[100] ^= 1
    store.put(key, bytes(data))


def anomalies(reports: Any) -> set[Anomaly]:
    return {each for report in reports for each in report.anomalies}


@pytest.mark.story
@pytest.mark.spark
def test_the_findings_are_those_of_a_verification_here(spark: SparkSession, bucket: Any) -> None:
    """Clean first; then damage, a missing object, an orphan and a strange key: reports are equal, field by field."""
    store, url, tasks = bucket.store, bucket.store.url, SparkTasks(spark)
    assert anomalies(verify_on_spark(tasks, url, {}, OPTIONS)) == set()
    entries = bucket.manifests["orders", 0].entries
    damage(store, entries[1].key)
    store.delete_many([bucket.manifests["orders", 1].entries[2].key])
    store.put(entries[0].key.replace("00000050-", "00000051-"), b"x")
    store.put("topics/readme.txt", b"x")
    progress: list[tuple[int, int]] = []
    found = list(verify_on_spark(tasks, url, {}, OPTIONS, on_progress=lambda *told: progress.append(told)))
    here = list(verify_bucket(store, OPTIONS._replace(deep=True)))
    assert found == here
    assert {each.kind for each in anomalies(found)} == {
        AnomalyKind.WRONG_CRC, AnomalyKind.MISSING_OBJECT, AnomalyKind.ORPHAN_OBJECT, AnomalyKind.FOREIGN_KEY
    }  # fmt: skip
    assert all(0 <= done <= whole for done, whole in progress)
    assert anomalies(verify_on_spark(tasks, url, {}, OPTIONS, topics=["payments"])) == set()


def test_objects_named_by_manifests_are_read(bucket: Any) -> None:
    """Objects of all topics or of some; the verification reports a manifest that cannot be read."""
    store = bucket.store
    named = [each.key for manifest in bucket.manifests.values() for each in manifest.entries]
    assert [each.entry.key for each in objects_to_read(store)] == sorted(named)
    assert len(objects_to_read(store, ["payments"])) == 1
    store.put(bucket.manifests["orders", 1].partition.manifest_key, b"{}")
    assert len(objects_to_read(store)) == 4


def test_tasks_are_about_equal_and_hold_every_object_once(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order; an object that is larger than a task is one of its own."""
    objects = objects_to_read(bucket.store)
    assert divide(objects, 4) == [objects]
    assert divide([], 4) == []
    sizes = [each.entry.size_bytes for each in objects]
    monkeypatch.setattr(verify, "_TASK_BYTES_MIN", max(sizes))
    tasks = divide(objects, 1)
    assert [each for task in tasks for each in task] == objects
    assert 1 < len(tasks) <= len(objects)
    large = ObjectToRead(objects[0].partition, replace(objects[0].entry, size_bytes=1 << 40))
    assert divide([objects[0], large, objects[1]], 1) == [[objects[0]], [large], [objects[1]]]


def test_a_task_finds_what_is_wrong_with_each_object(bucket: Any) -> None:
    """One list an object, empty where it is sound."""
    objects = objects_to_read(bucket.store, ["orders"])
    damage(bucket.store, objects[2].entry.key)
    found = read_objects(open_archive(bucket.store.url, {}), objects)
    assert [len(each) for each in found] == [0, 0, 1, 0, 0, 0]
    assert found[2][0].kind is AnomalyKind.WRONG_CRC


def test_unknown_objects_are_read(bucket: Any) -> None:
    """An object that came later or was replaced, and one that was not there before; the others are not looked at."""
    (partition, first), (_, second), (_, third), *_ = objects_to_read(bucket.store, ["orders"])
    told = Anomaly(AnomalyKind.WRONG_CRC, "orders", 0, first.key, 0, "as a task said")
    gone = Anomaly(AnomalyKind.MISSING_OBJECT, "orders", 0, second.key, 50, "was on its way")
    known = {
        first.key: (first, [told]),
        second.key: (second, [gone]),
        third.key: (replace(third, crc32c=third.crc32c ^ 1), [told]),
    }
    with KnownFindings(known) as readers:

        def found(entry: Any) -> list[Anomaly]:
            future: Future[list[Anomaly]] = readers.submit(verify_object_bytes, bucket.store, partition, entry)
            return future.result()

        assert found(first) == [told]
        assert readers.read_count == 0
        assert found(second) == found(third) == []
        assert readers.read_count == 2


def test_objects_that_left_the_archive_meanwhile_are_not_missed(bucket: Any) -> None:
    """A task does not find them; the manifest does not name them any more."""
    entry = bucket.manifests["orders", 0].entries[0]
    gone = Anomaly(AnomalyKind.MISSING_OBJECT, "orders", 0, entry.key, 0, "not there")
    bucket.store.delete_many([entry.key])
    bucket.set_log_start("orders", 0, 50)
    with KnownFindings({entry.key: (entry, [gone])}) as readers:
        reports = verify_bucket(bucket.store, OPTIONS._replace(deep=True), readers=readers)
        assert AnomalyKind.MISSING_OBJECT not in {each.kind for each in anomalies(reports)}
