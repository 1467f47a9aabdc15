"""Compaction of an archive: the newest record of each key stays, whatever happens in the middle."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.spark.rewrite import compact as module
from stratalog.spark.rewrite.compact import compact
from stratalog.spark.rewrite.rewriter import HereRewriter
from stratalog.spark.source.options import parse_options
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.parts import Job, Pin
from stratalog.tier.manifests.pins import pin
from stratalog.tier.manifests.runs import COMPACT_KIND, RunUnderWay, begin_run
from stratalog.tier.messages.commands import SetLogStart
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_commands import move_log_start
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers, iter_records
from stratalog.wire.errors import Invalid

pytestmark = pytest.mark.usefixtures("no_probe")
DAY_MS = 86_400_000


def run(rig: Any, store: Any, **changes: Any) -> Any:
    return compact(rig.settings(store, **changes), HereRewriter(), rig.Told())


def at(monkeypatch: pytest.MonkeyPatch, now_ms: int) -> None:
    """The wall clock of the driver."""
    monkeypatch.setattr(module.time, "time_ns", lambda: now_ms * 1_000_000)


@pytest.mark.story
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), keys=st.integers(1, 30), tombstones=st.sampled_from([0.0, 0.3]),
       transactions=st.sampled_from([0.0, 0.5]))  # fmt: skip
def test_the_newest_record_of_each_key_stays_as_it_was(
    rewrite_rig: Any, use: Any, seed: int, keys: int, tombstones: float, transactions: float
) -> None:
    """Offsets, times, values and headers; aborted records go; every object is whole; a second look changes nothing."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(seed, keys=keys, tombstones=tombstones, transactions=transactions)
    rewrite_rig.archive(store, history)
    told = rewrite_rig.Told()
    summary = compact(rewrite_rig.settings(store), HereRewriter(), told)
    assert summary.is_whole, summary
    assert told.planned_bytes == told.moved_bytes
    assert rewrite_rig.rows_of(store) == history.newest()
    assert rewrite_rig.rows_of(store, committed=False) == history.newest()
    for start in range(0, history.offset, 7):
        assert rewrite_rig.consumed(store, start) == [row for row in history.newest() if row[0] >= start]
    manifest = rewrite_rig.manifest_of(store)
    assert (manifest.jobs, manifest.archive_clean_offset) == ((), history.offset)
    assert (manifest.remote_start, manifest.remote_end) == (0, history.offset)
    for entry in manifest.entries:
        assert verify_object_bytes(store, manifest.partition, entry) == []
    assert run(rewrite_rig, store).objects == 0


@pytest.mark.story
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30))
def test_an_archive_that_grows_is_compacted_again_and_again(rewrite_rig: Any, use: Any, seed: int) -> None:
    """Each time with what came since; in the end also tombstones and markers that are due have gone, and no key is back."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(seed, steps=60)
    with pytest.MonkeyPatch.context() as patch:
        done = 0
        for turn, count in enumerate((len(history.segments) // 3, 2 * len(history.segments) // 3, None)):
            part = rewrite_rig.History(history.segments[:count], history.aborted)
            if len(part.segments) > done:
                rewrite_rig.archive(store, part, since=done)
            done = len(part.segments)
            at(patch, 10**12 + turn * 10 * DAY_MS)
            assert run(rewrite_rig, store, delete_retention_ms=DAY_MS).is_whole
            end = rewrite_rig.manifest_of(store).remote_end
            before = rewrite_rig.History(rows=[row for row in history.rows if row[0] < end])
            alive = [row for row in before.newest() if row[2] is not None]
            found = rewrite_rig.rows_of(store)
            assert [row for row in found if row[2] is not None] == alive
            assert {row[1] for row in found if row[2] is None} <= {row[1] for row in before.newest() if row[2] is None}
            assert rewrite_rig.consumed(store) == found
        for turn in (4, 5, 6):
            at(patch, 10**12 + turn * 10 * DAY_MS)
            assert run(rewrite_rig, store, delete_retention_ms=DAY_MS, again=True).is_whole
        assert rewrite_rig.rows_of(store) == [row for row in history.newest() if row[2] is not None]
        assert rewrite_rig.consumed(store) == rewrite_rig.rows_of(store)


def test_tombstones_stay_for_their_retention_after_the_first_compaction(
    rewrite_rig: Any, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from when they were first met, whatever their own time; then they go."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(5, tombstones=0.5, transactions=0.0)
    rewrite_rig.archive(store, history)
    gone = [row for row in history.newest() if row[2] is None]
    assert gone
    for days, expected in ((0, gone), (2, gone), (4, [])):
        at(monkeypatch, 10**12 + days * DAY_MS)
        summary = run(rewrite_rig, store, delete_retention_ms=3 * DAY_MS, again=True)
        assert [row for row in rewrite_rig.rows_of(store) if row[2] is None] == expected
    assert summary.tombstones_dropped == len(gone)


def test_no_object_that_stays_as_it_is_names_a_transaction_whose_marker_goes(
    rewrite_rig: Any, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in the middle of an aborted transaction, and holds the newest of each of its keys.

    A consumer would pass over all that the producer committed later, as no marker ends what the list has begun.
    """
    store = use(MemoryStore("memory:compact"))
    whose = {"producer_id": 1, "producer_epoch": 0, "transactional": True, "leader_epoch": 0}

    def data(offset: int, **fields: Any) -> bytes:
        return bytes(build_batch([Record(offset, 1_000, b"key-%d" % offset, b"v")], **fields))

    def marker(offset: int, *, commit: bool) -> bytes:
        return bytes(build_control_batch(int(commit), bytes(6), offset=offset, timestamp_ms=1_000, **whose))

    segments = [data(0, base_sequence=0, **whose), data(1, leader_epoch=0), marker(2, commit=False)]
    segments += [data(3, base_sequence=1, **whose) + marker(4, commit=True)]
    rewrite_rig.archive(store, rewrite_rig.History(segments, [AbortedTransaction(1, 0, 2, 3)]))
    for days in range(0, 50, 10):
        at(monkeypatch, 10**12 + days * DAY_MS)
        assert run(rewrite_rig, store, object_bytes=1, delete_retention_ms=DAY_MS, again=True).is_whole
        assert [row[0] for row in rewrite_rig.consumed(store, 1)] == [1, 3]


def count_calls(rig: Any, history: Any, use: Any) -> int:
    store = MemoryStore("memory:compact")
    rig.archive(store, history)
    counting = rig.DyingStore(store, 1 << 60)
    use(counting)
    assert run(rig, counting).is_whole
    return int(counting.calls)


@pytest.mark.story
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_call_loses_nothing_and_leaves_nothing_behind(
    rewrite_rig: Any, use: Any, *, after: bool, step: int
) -> None:
    """Before and after each call of the store; the next run finishes, and what the dead one wrote in vain is garbage."""
    history = rewrite_rig.make_history(11, steps=24, keys=4)
    assert len(history.segments) > 3
    newest = history.newest()
    for number in range(1 + after, count_calls(rewrite_rig, history, use) + 1, step):
        store = MemoryStore("memory:compact")
        rewrite_rig.archive(store, history)
        dying = use(rewrite_rig.DyingStore(store, number, after=after))
        with pytest.raises(rewrite_rig.Killed):
            run(rewrite_rig, dying)
        found = rewrite_rig.rows_of(store)
        assert len({row[0] for row in found}) == len(found)
        assert set(newest) <= set(found) <= set(history.rows)
        use(store)
        assert run(rewrite_rig, store, take_over=True, again=True).is_whole
        assert rewrite_rig.rows_of(store) == newest
        assert rewrite_rig.manifest_of(store).jobs == ()
        assert rewrite_rig.unnamed(store) == set()


def test_a_second_run_is_refused_until_the_first_is_dead(
    rewrite_rig: Any, use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or with `take_over`; the first run's later attempts to swap are refused."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(3)
    rewrite_rig.archive(store, history)
    first = Job(b"f" * 16, COMPACT_KIND, 10**12, 10**12 + 60_000)
    change_manifest(store, rewrite_rig.topic(), lambda manifest: begin_run(manifest, first, now_ms=10**12))
    at(monkeypatch, 10**12 + 30_000)
    monkeypatch.setattr("stratalog.spark.rewrite.run.time.time_ns", lambda: (10**12 + 30_000) * 1_000_000)
    with pytest.raises(RunUnderWay, match="compact is under way here, listed 30 s ago"):
        run(rewrite_rig, store)
    assert rewrite_rig.rows_of(store) == history.rows
    assert run(rewrite_rig, store, take_over=True).is_whole


def test_a_run_that_is_taken_over_swaps_nothing_in_any_more(rewrite_rig: Any, use: Any) -> None:
    """Work that both were about to do is done once."""
    inner = MemoryStore("memory:compact")
    history = rewrite_rig.make_history(3)
    rewrite_rig.archive(inner, history)

    class Meddling(StoreWrapper):
        other = 0

        def put_if_absent(self, key: str, *args: Any, **kwargs: Any) -> Any:
            if key.endswith(".seg") and not self.other:
                self.other = 1
                use(inner)
                assert run(rewrite_rig, inner, take_over=True).is_whole
                use(self)
            return super().put_if_absent(key, *args, **kwargs)

    summary = run(rewrite_rig, use(Meddling(inner)))
    assert summary.refused
    assert all("not listed any more" in reason for reason in summary.refused)
    assert rewrite_rig.rows_of(inner) == history.newest()
    assert rewrite_rig.manifest_of(inner).jobs == ()


def test_entries_that_retention_removes_meanwhile_do_not_come_back(rewrite_rig: Any, use: Any) -> None:
    """The swap that would need it is refused, the others go on; nothing counts as clean that is not."""
    inner = MemoryStore("memory:compact")
    history = rewrite_rig.make_history(4, steps=60)
    manifest = rewrite_rig.archive(inner, history)
    start = manifest.entries[0].end

    class Retaining(StoreWrapper):
        moved = 0

        def put_if_absent(self, key: str, *args: Any, **kwargs: Any) -> Any:
            if key.endswith(".seg") and not self.moved:
                self.moved = 1
                move_log_start(inner, SetLogStart(manifest.partition, manifest.claimant, start, 11, "retention"))
            return super().put_if_absent(key, *args, **kwargs)

    summary = run(rewrite_rig, use(Retaining(inner)))
    assert len(summary.refused) == 1
    assert "no longer a live entry" in summary.refused[0]
    found = rewrite_rig.manifest_of(inner)
    assert (found.remote_start, found.archive_clean_offset, found.jobs) == (start, 0, ())
    assert run(rewrite_rig, use(inner)).is_whole
    assert rewrite_rig.rows_of(inner) == [row for row in history.newest() if row[0] >= start]


def test_a_damaged_object_is_left_and_told(rewrite_rig: Any, use: Any) -> None:
    """No object is made of it while its keys cannot be read."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(4)
    manifest = rewrite_rig.archive(store, history)
    entry = manifest.entries[1]
    data = store.get(entry.key)[0]
    store.put(entry.key, data[:70] + bytes([data[70] ^ 1]) + data[71:])
    with pytest.raises(Exception, match=entry.key):
        run(rewrite_rig, store)
    found = rewrite_rig.manifest_of(store)
    assert (found.entries, found.jobs) == (manifest.entries, ())


def test_cuts_keep_what_they_name(rewrite_rig: Any, use: Any) -> None:
    """No new object reaches across the border of a cut."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(4)
    manifest = rewrite_rig.archive(store, history)
    border = manifest.entries[len(manifest.entries) // 2].end
    change_manifest(store, manifest.partition, lambda found: pin(found, Pin("c", 1, border, 0), now_ms=5))
    assert run(rewrite_rig, store, object_bytes=1 << 20).is_whole
    assert [(entry.base, entry.end) for entry in rewrite_rig.manifest_of(store).entries] == [
        (0, border), (border, history.offset),
    ]  # fmt: skip


def test_only_a_compacted_topic_is_compacted(rewrite_rig: Any, use: Any) -> None:
    """Its description in the bucket says whether it is one, for how long its records stay alone, and its tombstones."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(4)
    manifest = rewrite_rig.archive(store, history)
    with pytest.raises(Invalid, match="is not described by"):
        run(rewrite_rig, store, any_policy=False)

    def describe(**configs: str) -> None:
        store.delete_many([topic_key("t", b"t" * 16)])
        named = {name.replace("_", "."): value for name, value in configs.items()}
        write_projection(store, topic_projection("t", b"t" * 16, partitions=1, configs=named, cluster_id="c"))

    describe(cleanup_policy="delete")
    with pytest.raises(Invalid, match=r"cleanup\.policy=delete"):
        run(rewrite_rig, store, any_policy=False)
    describe(cleanup_policy="compact,delete", min_compaction_lag_ms="x")
    with pytest.raises(Invalid, match=r"min\.compaction\.lag\.ms=x"):
        run(rewrite_rig, store, any_policy=False, min_lag_ms=None)
    describe(cleanup_policy="compact,delete", min_compaction_lag_ms=str(1 << 60))
    assert run(rewrite_rig, store, any_policy=False, min_lag_ms=None).objects == 0
    describe(cleanup_policy="compact,delete")
    assert run(rewrite_rig, store, any_policy=False, min_lag_ms=None).objects == len(manifest.entries)


def test_a_dry_run_tells_what_would_go_and_writes_nothing(rewrite_rig: Any, use: Any) -> None:
    """By the keys that it has read."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(4, transactions=0.0)
    rewrite_rig.archive(store, history)
    before = list(store.list(""))
    summary = run(rewrite_rig, store, dry_run=True)
    assert list(store.list("")) == before
    assert (summary.records, summary.records_kept) == (history.offset, len(history.newest()))
    assert summary.rewritten_objects == summary.objects == len(history.segments)
    assert summary.gets == len(history.segments)


def test_partitions_are_compacted_each_by_its_own_keys(rewrite_rig: Any, use: Any) -> None:
    """The same keys may stand in several."""
    store = use(MemoryStore("memory:compact"))
    histories = [rewrite_rig.make_history(seed) for seed in (1, 2, 3)]
    for number, history in enumerate(histories):
        rewrite_rig.archive(store, history, number)
    summary = run(rewrite_rig, store)
    assert summary.clean_offsets == {number: history.offset for number, history in enumerate(histories)}
    for number, history in enumerate(histories):
        assert rewrite_rig.rows_of(store, number) == history.newest()


@pytest.mark.parametrize("wanted", [{"subscribe": "t,u"}, {"subscribePattern": "."}, {"assign": '{"t":[0],"u":[0]}'}])
def test_topics_are_compacted_one_by_one(rewrite_rig: Any, use: Any, wanted: dict[str, str]) -> None:
    """Keys of one topic say nothing about those of another."""
    store = use(MemoryStore("memory:compact"))
    history = rewrite_rig.make_history(1, transactions=0.0)
    rewrite_rig.archive(store, history)
    archive_log(store, PartitionId("u", b"u" * 16, 0), rewrite_rig.make_history(2).segments, now_ms=1, cluster_id="c")
    read = parse_options({"archive": store.url, **wanted})
    with pytest.raises(Invalid, match="one topic at a time"):
        run(rewrite_rig, store, read=read)
    assert rewrite_rig.rows_of(store) == history.rows


def test_partitions_that_are_not_asked_for_stay_as_they_are(rewrite_rig: Any, use: Any) -> None:
    """An assignment names some."""
    store = use(MemoryStore("memory:compact"))
    histories = [rewrite_rig.make_history(seed) for seed in (1, 2)]
    for number, history in enumerate(histories):
        rewrite_rig.archive(store, history, number)
    before = rewrite_rig.manifest_of(store, 0)
    summary = run(rewrite_rig, store, read=parse_options({"archive": store.url, "assign": '{"t":[1]}'}))
    assert list(summary.clean_offsets) == [1]
    assert rewrite_rig.manifest_of(store, 0) == before
    assert rewrite_rig.rows_of(store, 1) == histories[1].newest()


def test_a_refusal_to_end_is_reported(rewrite_rig: Any, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the archive counts as clean up to where it did before."""
    store = use(MemoryStore("memory:compact"))
    rewrite_rig.archive(store, rewrite_rig.make_history(4))
    finish = module.RewriteRun.finish

    def refused(self: Any, partition: Any, clean_offset: int = 0, clean: Any = ()) -> None:
        finish(self, partition, clean_offset, set(list(clean)[1:]))

    monkeypatch.setattr(module.RewriteRun, "finish", refused)
    summary = run(rewrite_rig, store)
    assert "is not one that this run has looked at" in summary.refused[0]
    assert rewrite_rig.manifest_of(store).archive_clean_offset == 0


def test_a_batch_that_cannot_be_read_stays_and_the_archive_is_clean_up_to_it(rewrite_rig: Any, use: Any) -> None:
    """Older records of a key and newer ones lie around it; tombstones behind it are not forgotten."""
    store = use(MemoryStore("memory:unread"))
    history = rewrite_rig.make_history(5, steps=12, transactions=0.0)
    at = history.offset
    history.segments.append(rewrite_rig.unreadable_batch(at))
    history.offset += 1
    history.plain(random.Random(1), 6, 1.0)
    history.roll()
    rewrite_rig.archive(store, history)
    for _ in range(3):
        summary = run(rewrite_rig, store, delete_retention_ms=0)
        assert (summary.unread, summary.failed) == ([f"t-0, the batch at offset {at}"], [])
        assert rewrite_rig.manifest_of(store).archive_clean_offset == at == summary.clean_offsets[0]
    (entry,) = iter_entries(store, rewrite_rig.manifest_of(store))
    data = store.get(entry.key)[0][: entry.data_bytes]
    assert rewrite_rig.unreadable_batch(at) in data
    readable = [position for position, header in iter_headers(data) if header.base_offset != at]
    left = {one.offset for position in readable for one in iter_records(data, position)}
    newest = {row[0]: row[2] for row in history.newest()}
    assert left <= newest.keys()
    assert {offset for offset, value in newest.items() if offset > at or value is not None} <= left
    assert any(newest[offset] is None for offset in left if offset > at)


def test_a_partition_of_one_batch_that_cannot_be_read_is_compacted(rewrite_rig: Any, use: Any) -> None:
    """No record is left to compare, and the batch is there afterwards."""
    store = use(MemoryStore("memory:only-unread"))
    odd = rewrite_rig.unreadable_batch(0)
    archive_log(store, PartitionId("t", b"t" * 16, 0), [odd], now_ms=1)
    summary = run(rewrite_rig, store)
    assert (summary.unread, summary.failed, summary.rewritten_objects) == (["t-0, the batch at offset 0"], [], 0)
