"""Erasure: the records that were named are gone from every live object, and nothing else is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from stratalog.spark.rewrite import erase as module
from stratalog.spark.rewrite import group as rewrite_group
from stratalog.spark.rewrite.compact import CompactSettings, compact
from stratalog.spark.rewrite.erase import EraseSettings, erase
from stratalog.spark.rewrite.rewriter import HereRewriter
from stratalog.spark.rewrite.spark_job import SparkRewriter
from stratalog.spark.source.options import parse_options
from stratalog.tier.bucket.erasure_audit import hashed, read_audit
from stratalog.tier.bucket.trash import Retention
from stratalog.tier.bucket.walk import iter_partitions, iter_topics
from stratalog.tier.care.repair import apply_repair
from stratalog.tier.care.repair_plan import plan_repair
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.leases import end_lease, write_lease
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.manifests.pins import pin
from stratalog.tier.messages.commands import EmptyTrash
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.removal_commands import empty_trash
from stratalog.wire.errors import Invalid

pytestmark = pytest.mark.usefixtures("no_probe")
KEY = b"key-3"


def asked(store: Any, **changes: Any) -> EraseSettings:
    read = parse_options({"archive": store.url, "subscribe": "t"})
    return EraseSettings("t", read, **{"keys": (KEY,), "by": "me", **changes})


def run(rig: Any, store: Any, **changes: Any) -> Any:
    return erase(asked(store, **changes), HereRewriter(), rig.Told())


def audits(store: Any) -> list[dict[str, Any]]:
    return [read_audit(store, info.key) for info in store.list("audit/")]


@pytest.mark.story
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), names=st.sets(st.integers(0, 8), min_size=1, max_size=3))
def test_the_records_of_a_key_go_and_all_others_stay(rewrite_rig: Any, use: Any, seed: int, names: set[int]) -> None:
    """Also aborted ones; objects that hold none are not touched; markers and lists of aborted transactions stay."""
    store = use(MemoryStore("memory:erase"))
    history = rewrite_rig.make_history(seed, keys=8)
    before = rewrite_rig.archive(store, history)
    everything = rewrite_rig.rows_of(store, committed=False)
    keys = {b"key-%d" % name for name in names}
    touched = {row[0] for row in everything if row[1] in keys}
    summary = run(rewrite_rig, store, keys=tuple(keys))
    assert summary.run.is_whole
    assert summary.erased == len(touched)
    assert rewrite_rig.rows_of(store, committed=False) == [row for row in everything if row[1] not in keys]
    assert rewrite_rig.rows_of(store) == [row for row in history.rows if row[1] not in keys]
    for start in range(0, history.offset, 11):
        expected = [row for row in history.rows if row[1] not in keys and row[0] >= start]
        assert rewrite_rig.consumed(store, start) == expected
    manifest = rewrite_rig.manifest_of(store)
    assert manifest.jobs == ()
    for old, new in zip(before.entries, manifest.entries, strict=True):
        assert (old.base, old.end, old.aborted_count, old.control_batch_count) == (
            new.base, new.end, new.aborted_count, new.control_batch_count,
        )  # fmt: skip
        assert (old == new) is not any(old.base <= offset < old.end for offset in touched)
        assert verify_object_bytes(store, manifest.partition, new) == []
    assert run(rewrite_rig, store, keys=tuple(keys)).erased == 0


def test_it_is_recorded_without_the_key(rewrite_rig: Any, use: Any) -> None:
    """Author, time, ranges and objects, how many records, and what holds the old objects."""
    store = use(MemoryStore("memory:erase"))
    before = rewrite_rig.archive(store, rewrite_rig.make_history(4))
    border = before.entries[-1].end
    change_manifest(store, before.partition, lambda found: pin(found, Pin("monday", 1, border, 0), now_ms=5))
    lease = write_lease(store, b"l" * 16, 3_600_000, module._now_ms(), "a reader")
    summary = run(rewrite_rig, store, note="request 311")
    (fields,) = audits(store)
    assert (fields["state"], fields["by"], fields["note"]) == ("done", "me", "request 311")
    assert fields["keys_sha256"] == [hashed(bytes.fromhex(fields["salt"]), KEY)]
    assert fields["records"] == summary.erased > 0
    assert {key for one in fields["ranges"] for key in one["old"]} == {
        item.key for item in rewrite_rig.manifest_of(store).trash
    }
    assert (summary.cuts, fields["held_by"], summary.leases) == (("monday",), ["monday"], 1)
    assert KEY not in store.get(summary.audit_key)[0]
    end_lease(store, lease.uuid)


def test_the_old_objects_leave_the_bucket_after_the_grace(rewrite_rig: Any, use: Any) -> None:
    """As anything in the trash does; then no object of the bucket holds the key."""
    store = use(MemoryStore("memory:erase"))
    history = rewrite_rig.make_history(4, transactions=0.5)
    manifest = rewrite_rig.archive(store, history)
    run(rewrite_rig, store)
    trash = rewrite_rig.manifest_of(store).trash
    assert trash
    command = EmptyTrash(manifest.partition, manifest.claimant, 1 << 50, 1000, Retention(-1, -1, 0))
    for _ in range(2):
        empty_trash(store, command)
    left = {info.key for info in store.list("topics/")}
    assert not left & {item.key for item in trash}
    assert all(row[1] != KEY for row in rewrite_rig.rows_of(store, committed=False))


def count_calls(rig: Any, history: Any, use: Any) -> int:
    store = MemoryStore("memory:erase")
    rig.archive(store, history)
    counting = use(rig.DyingStore(store, 1 << 60))
    assert run(rig, counting).run.is_whole
    return int(counting.calls)


@pytest.mark.story
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_call_loses_nothing_else(rewrite_rig: Any, use: Any, *, after: bool, step: int) -> None:
    """The next erasure finishes; what was begun is on record; nothing is left over."""
    history = rewrite_rig.make_history(11, steps=20)
    kept = [row for row in history.rows if row[1] != KEY]
    assert len(kept) < len(history.rows)
    for number in range(1 + after, count_calls(rewrite_rig, history, use) + 1, step):
        store = MemoryStore("memory:erase")
        rewrite_rig.archive(store, history)
        dying = use(rewrite_rig.DyingStore(store, number, after=after))
        with pytest.raises(rewrite_rig.Killed):
            run(rewrite_rig, dying)
        found = rewrite_rig.rows_of(store)
        assert len({row[0] for row in found}) == len(found)
        assert set(kept) <= set(found) <= set(history.rows)
        assert len(found) == len(history.rows) or audits(store)
        use(store)
        assert run(rewrite_rig, store, take_over=True).run.is_whole
        assert rewrite_rig.rows_of(store) == kept
        assert rewrite_rig.manifest_of(store).jobs == ()
        assert rewrite_rig.unnamed(store) == set()


def test_a_failed_rewrite_is_reported(rewrite_rig: Any, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the record of it says that it is partial."""
    store = use(MemoryStore("memory:erase"))
    rewrite_rig.archive(store, rewrite_rig.make_history(4))
    live_range = rewrite_group.live_range
    turns = iter(range(100))

    def sometimes(held: Any, manifest: Any, base: int, end: int) -> Any:
        return live_range(held, manifest, base, end + (next(turns) == 0))

    monkeypatch.setattr(rewrite_group, "live_range", sometimes)
    summary = run(rewrite_rig, store)
    assert len(summary.run.refused) == 1
    assert audits(store)[0]["state"] == "partial"
    assert run(rewrite_rig, store).run.is_whole


def test_a_dry_run_counts_and_writes_nothing(rewrite_rig: Any, use: Any) -> None:
    """Exactly what would go."""
    store = use(MemoryStore("memory:erase"))
    rewrite_rig.archive(store, rewrite_rig.make_history(4))
    before = list(store.list(""))
    dry = run(rewrite_rig, store, dry_run=True)
    assert list(store.list("")) == before
    wet = run(rewrite_rig, store)
    assert (dry.erased, dry.run.rewritten_objects) == (wet.erased, wet.run.rewritten_objects)
    assert dry.audit_key == ""


def test_keys_or_a_predicate(rewrite_rig: Any, use: Any) -> None:
    """One of them; and a predicate needs Spark, which is said before anything is rewritten."""
    store = use(MemoryStore("memory:erase"))
    manifest = rewrite_rig.archive(store, rewrite_rig.make_history(4))
    for wrong in ({"keys": ()}, {"where": "offset = 3"}):
        with pytest.raises(Invalid, match="which records"):
            run(rewrite_rig, store, **wrong)
    with pytest.raises(Invalid, match="--without-spark"):
        run(rewrite_rig, store, keys=(), where="offset = 3")
    assert rewrite_rig.manifest_of(store) == manifest
    assert audits(store) == []


def test_a_repair_brings_nothing_back(rewrite_rig: Any, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the manifest from before names the old objects, and they are still in the bucket."""
    monkeypatch.setattr(manifest_pages, "INLINE_MAX", 3)
    monkeypatch.setattr(manifest_pages, "INLINE_KEPT", 2)
    store = use(MemoryStore("memory:erase"))
    history = rewrite_rig.make_history(4, steps=60)
    for number in range(2, len(history.segments), 2):
        rewrite_rig.archive(store, rewrite_rig.History(history.segments[:number], history.aborted), since=number - 2)
    manifest = rewrite_rig.manifest_of(store)
    assert manifest.history is not None
    expected = [row for row in rewrite_rig.rows_of(store) if row[1] != KEY]
    assert run(rewrite_rig, store).erased > 0
    store.delete_many([manifest.partition.manifest_key])
    folder = next(iter_partitions(store, next(iter_topics(store))))
    with ThreadPoolExecutor(2) as readers:
        plan = plan_repair(store, folder, "t", VerifyOptions(module._now_ms(), 0), readers=readers)
    assert plan is not None
    assert plan.source.startswith("the copy of manifest")
    apply_repair(store, plan, uuid=b"r" * 16, now_ms=module._now_ms())
    assert rewrite_rig.rows_of(store) == expected


@pytest.mark.story
@pytest.mark.spark
def test_erasures_by_tasks_of_spark(rewrite_rig: Any, growing_archive: Any, spark: SparkSession) -> None:
    """By a key, then by a predicate over key, value, headers and offset, in two partitions."""
    store = growing_archive.store
    histories = [rewrite_rig.make_history(seed) for seed in (1, 2)]
    for number, history in enumerate(histories):
        rewrite_rig.archive(store, history, number)
    rewriter = SparkRewriter(spark)
    assert erase(asked(store), rewriter, rewrite_rig.Told()).run.is_whole
    where = "cast(key as string) = 'key-1' and (offset % 2 = 0 or value is null) and partition = 1"
    summary = erase(asked(store, keys=(), where=where), rewriter, rewrite_rig.Told())
    assert summary.erased > 0

    def stays(partition: int, row: Any) -> bool:
        hit = partition == 1 and row[1] == b"key-1" and (row[0] % 2 == 0 or row[2] is None)
        return row[1] != KEY and not hit

    for number, history in enumerate(histories):
        assert rewrite_rig.rows_of(store, number) == [row for row in history.rows if stays(number, row)]
    before = rewrite_rig.manifest_of(store)
    for wrong in ("no_such_column = 1", "value =", "offset + 1"):
        with pytest.raises(Invalid, match=r"is no predicate over key, value.*: \[[A-Z_.]+\]"):
            erase(asked(store, keys=(), where=wrong), rewriter, rewrite_rig.Told())
    assert rewrite_rig.manifest_of(store) == before
    assert [one["state"] for one in audits(store)] == ["done", "done"]


def test_topics_are_looked_through_one_by_one(rewrite_rig: Any, use: Any) -> None:
    """Offsets of one topic say nothing about those of another."""
    store = use(MemoryStore("memory:erase"))
    history = rewrite_rig.make_history(1)
    rewrite_rig.archive(store, history)
    archive_log(store, PartitionId("u", b"u" * 16, 0), rewrite_rig.make_history(2).segments, now_ms=1, cluster_id="c")
    read = parse_options({"archive": store.url, "subscribe": "t,u"})
    with pytest.raises(Invalid, match="one topic at a time"):
        erase(EraseSettings("t,u", read, keys=(KEY,)), HereRewriter(), rewrite_rig.Told())
    assert rewrite_rig.rows_of(store) == history.rows
    assert audits(store) == []


def with_an_unreadable_batch(rig: Any, store: Any) -> Any:
    """Two partitions of the same keys; behind the first object of the second one lies a batch that cannot be read."""
    history = rig.make_history(5, steps=12, transactions=0.0)
    rig.archive(store, history)
    odd = rig.make_history(5, steps=12, transactions=0.0)
    odd.segments.append(rig.unreadable_batch(odd.offset))
    rig.archive(store, odd, 1)
    return history


def test_a_batch_that_cannot_be_read_stays_and_all_else_is_erased(rewrite_rig: Any, use: Any) -> None:
    """It is named, and the record of the erasure does not say that it is done."""
    store = use(MemoryStore("memory:unread"))
    history = with_an_unreadable_batch(rewrite_rig, store)
    for dry_run in (True, False):
        summary = run(rewrite_rig, store, dry_run=dry_run)
        assert summary.run.unread == [f"t-1, the batch at offset {history.offset}"]
        assert summary.run.is_whole
        assert not summary.is_whole
        assert summary.erased == 2 * sum(row[1] == KEY for row in history.rows)
    assert all(row[1] != KEY for row in rewrite_rig.rows_of(store))
    assert [each["state"] for each in audits(store)] == ["partial"]
    *_, last = iter_entries(store, rewrite_rig.manifest_of(store, 1))
    assert store.get(last.key)[0].startswith(rewrite_rig.unreadable_batch(history.offset))


@pytest.mark.story
@pytest.mark.spark
def test_a_batch_that_cannot_be_read_is_no_row_of_a_predicate(
    rewrite_rig: Any, archive_in: Any, spark: SparkSession, tmp_path: Path
) -> None:
    """By tasks of Spark: a predicate and a key."""
    store = archive_in(f"file://{tmp_path / 'archive'}").store
    history = with_an_unreadable_batch(rewrite_rig, store)
    expected = [f"t-1, the batch at offset {history.offset}"]
    for changes in ({"keys": (), "where": "key = cast('key-1' as binary)"}, {}):
        summary = erase(asked(store, **changes), SparkRewriter(spark), rewrite_rig.Told())
        assert summary.run.unread == expected
        assert summary.erased
    assert not {row[1] for row in rewrite_rig.rows_of(store)} & {KEY, b"key-1"}
    read = asked(store).read
    done = compact(CompactSettings("t", read, any_policy=True, min_lag_ms=0), SparkRewriter(spark), rewrite_rig.Told())
    assert done.unread == expected
    assert done.clean_offsets == {0: history.offset, 1: history.offset}
