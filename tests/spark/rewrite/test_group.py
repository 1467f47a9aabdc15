"""One task of a run: what it reads, writes and says."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stratalog.hot.cleaner.horizons import HorizonRules, needless_marker
from stratalog.spark.rewrite.filter import code_of
from stratalog.spark.rewrite.group import (
    FAILED,
    PLANNED,
    REFUSED,
    SWAPPED,
    UNCHANGED,
    GroupResult,
    RewriteRequest,
    rewrite_group,
)
from stratalog.spark.rewrite.plan import plan_groups
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest import Uploaded, claim, commit
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import COMPACT_KIND, ERASE_KIND, begin_run, end_run
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_reader import read_blob, read_object_footer
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers, read_header

RUN = b"r" * 16


@pytest.fixture
def store() -> Any:
    return MemoryStore("memory:group")


def begun(rig: Any, store: Any, kind: str = COMPACT_KIND) -> RewriteRequest:
    change_manifest(store, rig.topic(), lambda found: begin_run(found, Job(RUN, kind, 1, 1 << 50), now_ms=1))
    return RewriteRequest(store.url, RUN, kind, 10_000, delete_retention_ms=500)


def one_group(rig: Any, store: Any, **changes: Any) -> Any:
    manifest = rig.manifest_of(store)
    (group,) = plan_groups(manifest.partition, manifest.entries, bytes_max=1 << 30)
    return group._replace(**changes)


def codes(history: Any) -> Any:
    return np.array([code_of(row[0], flagged=row[2] is None) for row in history.newest()], np.int64)


def test_a_group_becomes_one_object(rewrite_rig: Any, store: Any) -> None:
    """Marked as compacted, with what the last one knew; what was there is in the trash, the run is still listed."""
    history = rewrite_rig.make_history(1)
    before = rewrite_rig.archive(store, history)
    request = begun(rewrite_rig, store)
    result = rewrite_group(store, one_group(rewrite_rig, store), codes(history), request)
    manifest = rewrite_rig.manifest_of(store)
    (entry,) = manifest.entries
    assert (result.outcome, result.uuids, result.key) == (SWAPPED, (entry.uuid,), entry.key)
    assert set(result.old_keys) == {old.key for old in before.entries} == {item.key for item in manifest.trash}
    assert (result.old_bytes, result.written_bytes) == (sum(old.size_bytes for old in before.entries), entry.size_bytes)
    assert (entry.compacted, entry.epoch, entry.broker_id, entry.uploaded_ms) == (True, 0, -1, 10_000)
    assert (result.records, result.records_kept) == (
        sum(old.record_count for old in before.entries),
        entry.record_count,
    )
    assert [job.uuid for job in manifest.jobs] == [RUN]


def test_producers_and_leaders_are_those_of_the_last_input(rewrite_rig: Any, store: Any) -> None:
    """A log may restart behind it."""
    whose = rewrite_rig.topic()
    data = [bytes(build_batch([Record(n, n, b"k", b"v")], leader_epoch=n)) for n in range(2)]
    manifest = archive_log(store, whose, data[:1], now_ms=1, cluster_id="c")
    us = manifest.claimant._replace(leader_epoch=1, uuid=b"x" * 16)
    build = SegmentRequest(
        whose, b"l" * 16, 1, 2, 1, [data[1]], leader_epochs=(LeaderEpoch(0, 0), LeaderEpoch(1, 1)),
        producer_snapshot=b"snapshot", cluster_id="c", sealed_ms=77,
    )  # fmt: skip
    last = put_segment(store, build_segment(build))
    change_manifest(store, whose, lambda found: commit(claim(found, us, now_ms=2), us, [Uploaded(last, us)], now_ms=2))
    result = rewrite_group(
        store, one_group(rewrite_rig, store), np.array([code_of(1, flagged=False)]), begun(rewrite_rig, store)
    )
    (entry,) = rewrite_rig.manifest_of(store).entries
    footer = read_object_footer(store, result.key)
    assert epochs_from_bytes(read_blob(store, entry.key, footer, "leader_epochs")) == ((0, 0), (1, 1))
    assert read_blob(store, entry.key, footer, "producer_snapshot") == b"snapshot"
    assert (footer.cluster_id, entry.epoch, entry.sealed_ms) == ("c", 1, 77)


def test_the_object_has_the_epochs_of_its_inputs(rewrite_rig: Any, store: Any) -> None:
    """Each was uploaded with its own: the leader that uploaded the last one may know worse where an epoch began."""
    whose = rewrite_rig.topic()
    data = [bytes(build_batch([Record(n, n, b"%d" % n, b"v")], leader_epoch=min(n, 1))) for n in range(4)]
    manifest = archive_log(store, whose, data[:3], now_ms=1, cluster_id="c")
    us = manifest.claimant._replace(leader_epoch=2, uuid=b"x" * 16)
    worse = (LeaderEpoch(0, 0), LeaderEpoch(1, 3))
    build = SegmentRequest(whose, b"l" * 16, 3, 4, 2, [data[3]], leader_epochs=worse, cluster_id="c")
    last = put_segment(store, build_segment(build))
    change_manifest(store, whose, lambda found: commit(claim(found, us, now_ms=2), us, [Uploaded(last, us)], now_ms=2))
    codes = np.array([code_of(n, flagged=False) for n in (1, 2, 3)])
    rewrite_group(store, one_group(rewrite_rig, store), codes, begun(rewrite_rig, store))
    (entry,) = rewrite_rig.manifest_of(store).entries
    assert entry.epochs == (LeaderEpoch(0, 0), LeaderEpoch(1, 1))


def test_an_emptied_range_keeps_its_end(rewrite_rig: Any, store: Any) -> None:
    """As the header of its last batch: a reader that reads on knows where the range ends."""
    archive_log(
        store,
        rewrite_rig.topic(),
        [bytes(build_batch([Record(n, n, b"k", b"v"), Record(n + 1, n, b"k", b"v")], leader_epoch=0)) for n in (0, 2)],
        now_ms=1,
    )
    request = begun(rewrite_rig, store)
    assert rewrite_group(store, one_group(rewrite_rig, store), np.empty(0, np.int64), request).outcome == SWAPPED
    (entry,) = rewrite_rig.manifest_of(store).entries
    ((_, header),) = iter_headers(store.get(entry.key)[0][: entry.data_bytes])
    assert (header.base_offset, header.next_offset, header.record_count) == (2, 4, 0)
    assert rewrite_rig.rows_of(store) == []
    again = rewrite_group(
        store,
        one_group(rewrite_rig, store)._replace(plain=False),
        np.empty(0, np.int64),
        replace(request, run_uuid=RUN),
    )
    assert again.outcome in (SWAPPED, UNCHANGED)


def test_a_marker_at_the_end_of_a_range_stays_as_it_is(rewrite_rig: Any, store: Any) -> None:
    """Kept for its end, its record with it: kafka-python and aiokafka cannot read a control batch without one."""
    end = build_control_batch(
        1,
        b"\0\0\0\0\0\1",
        offset=2,
        timestamp_ms=100,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        transactional=True,
    )
    rules = HorizonRules(1, 1, 1 << 62)
    stale, _ = needless_marker(read_header(end), memoryview(end), rules)
    data = [bytes(build_batch([Record(n, n, b"k", b"v") for n in range(2)], leader_epoch=0)), bytes(stale)]
    archive_log(store, rewrite_rig.topic(), data, now_ms=1)
    group = one_group(rewrite_rig, store, forgettable_below=1 << 62)
    result = rewrite_group(store, group, np.empty(0, np.int64), begun(rewrite_rig, store))
    (entry,) = rewrite_rig.manifest_of(store).entries
    ((position, header),) = iter_headers(store.get(entry.key)[0][: entry.data_bytes])
    assert (position, entry.data_bytes, header.base_offset, header.record_count) == (0, len(stale), 2, 1)
    assert (result.outcome, result.records, result.records_kept) == (SWAPPED, 3, 1)


def test_transactions_are_named_as_long_as_their_markers_stay(rewrite_rig: Any, store: Any) -> None:
    """A list without the marker would hide what the producer wrote later."""
    history = rewrite_rig.make_history(9, transactions=0.9)
    assert history.aborted
    rewrite_rig.archive(store, history)
    request = begun(rewrite_rig, store)
    middle = sorted(one.last_offset for one in history.aborted)[len(history.aborted) // 2]
    group = one_group(rewrite_rig, store, forgettable_below=middle)
    result = rewrite_group(store, group, codes(history), request)
    found = aborted_from_bytes(read_blob(store, result.key, read_object_footer(store, result.key), "aborted"))
    assert set(found) == {one for one in history.aborted if one.last_offset >= middle}


def test_the_last_object_of_an_archive_names_transactions_that_end_behind_it(rewrite_rig: Any, store: Any) -> None:
    """A log that restarts there would take what was aborted for committed. Once it is not the last any more, it names them no longer."""
    whose = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True, "leader_epoch": 0}
    open_ = bytes(build_batch([Record(0, 1, b"a", b"v")], **whose))
    plain = bytes(build_batch([Record(1, 1, b"b", b"v")], leader_epoch=0))
    ends_later = AbortedTransaction(1, 0, 2, 3)
    archive_log(store, rewrite_rig.topic(), [open_ + plain], now_ms=1, aborted=[ends_later])

    def compacted(run: bytes) -> Any:
        change_manifest(
            store, rewrite_rig.topic(), lambda found: begin_run(found, Job(run, COMPACT_KIND, 1, 1 << 50), now_ms=1)
        )
        manifest = rewrite_rig.manifest_of(store)
        group = plan_groups(manifest.partition, manifest.entries, bytes_max=1)[0]
        request = RewriteRequest(store.url, run, COMPACT_KIND, 10_000)
        outcome = rewrite_group(store, group, np.array([code_of(1, flagged=False)]), request).outcome
        change_manifest(store, rewrite_rig.topic(), lambda found: end_run(found, run, now_ms=1))
        key = rewrite_rig.manifest_of(store).entries[0].key
        return outcome, aborted_from_bytes(read_blob(store, key, read_object_footer(store, key), "aborted"))

    assert compacted(b"1" * 16) == (SWAPPED, (ends_later,))
    assert compacted(b"2" * 16) == (UNCHANGED, (ends_later,))
    marker = bytes(
        build_control_batch(
            0, bytes(6), offset=2, timestamp_ms=1, leader_epoch=0, producer_id=1, producer_epoch=0, transactional=True
        )
    )
    archive_log(store, rewrite_rig.topic(), [marker], now_ms=1, aborted=[ends_later])
    assert compacted(b"3" * 16) == (SWAPPED, ())


def test_an_unchanged_object_is_not_written(rewrite_rig: Any, store: Any) -> None:
    """Told by the counts alone where the group holds nothing but records, else after a look."""
    batches = [bytes(build_batch([Record(n, n, b"%d" % n, b"v")], leader_epoch=0)) for n in range(3)]
    archive_log(store, rewrite_rig.topic(), [b"".join(batches)], now_ms=1)
    request = begun(rewrite_rig, store)
    before = rewrite_rig.manifest_of(store)
    all_codes = np.array([code_of(n, flagged=False) for n in range(3)])
    for plain in (True, False):
        result = rewrite_group(store, one_group(rewrite_rig, store, plain=plain), all_codes, request)
        assert (result.outcome, result.uuids) == (UNCHANGED, (before.entries[0].uuid,))
        assert (result.read_bytes > 0) is not plain
    assert rewrite_rig.manifest_of(store) == before
    erase = replace(request, kind=ERASE_KIND)
    assert rewrite_group(store, one_group(rewrite_rig, store), np.empty(0, np.int64), erase).outcome == UNCHANGED


def test_a_task_that_is_carried_out_twice_is_done_once(rewrite_rig: Any, store: Any) -> None:
    """Spark may do that; the second one finds the object of the first."""
    history = rewrite_rig.make_history(2)
    rewrite_rig.archive(store, history)
    request, group = begun(rewrite_rig, store), one_group(rewrite_rig, store)
    first = rewrite_group(store, group, codes(history), request)
    after = rewrite_rig.manifest_of(store)
    second = rewrite_group(store, group, codes(history), request)
    assert (second.outcome, second.uuids) == (SWAPPED, first.uuids)
    assert second.old_keys == first.old_keys != ()
    assert rewrite_rig.manifest_of(store) == after


def test_neither_of_two_attempts_at_once_is_taken_for_refused(rewrite_rig: Any, store: Any) -> None:
    """A worker that was given up may still get to the end, while the next attempt begins."""
    history = rewrite_rig.make_history(2)
    rewrite_rig.archive(store, history)
    request, group = begun(rewrite_rig, store), one_group(rewrite_rig, store)
    others: list[Any] = []

    class Overtaken(StoreWrapper):
        def compare_and_swap(self, *args: Any, **kwargs: Any) -> Any:
            if not others:
                others.append(rewrite_group(store, group, codes(history), request))
            return super().compare_and_swap(*args, **kwargs)

    result = rewrite_group(Overtaken(store), group, codes(history), request)
    assert (result.outcome, result.key, result.old_keys) == (SWAPPED, others[0].key, others[0].old_keys)
    assert rewrite_rig.rows_of(store) == history.newest()
    assert [job.uuid for job in rewrite_rig.manifest_of(store).jobs] == [RUN]


def test_two_attempts_write_the_same_bytes(rewrite_rig: Any, store: Any) -> None:
    """So that an object found under the own key is the own one, whatever has become of the first attempt."""
    history = rewrite_rig.make_history(2)
    rewrite_rig.archive(store, history)
    other = MemoryStore("memory:other")
    for info in store.list(""):
        other.put(info.key, store.get(info.key)[0])
    group = one_group(rewrite_rig, store)
    keys = [rewrite_group(each, group, codes(history), begun(rewrite_rig, each)).key for each in (store, other)]
    assert keys[0] == keys[1] != ""
    assert store.get(keys[0])[0] == other.get(keys[0])[0]


def test_an_object_changed_meanwhile_is_left_alone(rewrite_rig: Any, store: Any) -> None:
    """Other borders, or a run that is not listed any more."""
    history = rewrite_rig.make_history(2)
    rewrite_rig.archive(store, history)
    group = one_group(rewrite_rig, store)
    request = RewriteRequest(store.url, RUN, COMPACT_KIND, 10_000)
    result = rewrite_group(store, group, codes(history), request)
    assert (result.outcome, "not listed any more" in result.reason) == (REFUSED, True)
    request = begun(rewrite_rig, store)
    result = rewrite_group(store, group._replace(end=group.end - 1), codes(history), request)
    assert (result.outcome, "no longer those of some objects" in result.reason) == (REFUSED, True)
    assert rewrite_rig.rows_of(store) == history.rows


def test_damage_and_loss_are_reported_and_leave_no_job(rewrite_rig: Any, store: Any) -> None:
    """The reason names the object."""
    history = rewrite_rig.make_history(2)
    manifest = rewrite_rig.archive(store, history)
    request, group = begun(rewrite_rig, store), one_group(rewrite_rig, store)
    wrong = codes(history)[1:]
    assert rewrite_group(store, group, np.append(wrong, [1 << 40]), request).outcome == FAILED
    rolls = random.Random(1)
    entry = rolls.choice(manifest.entries)
    data = store.get(entry.key)[0]
    store.put(entry.key, data[:70] + bytes([data[70] ^ 1]) + data[71:])
    result = rewrite_group(store, group, codes(history), request)
    assert (result.outcome, entry.key in result.reason) == (FAILED, True)
    store.delete_many([entry.key])
    result = rewrite_group(store, group, codes(history), request)
    assert (result.outcome, entry.key in result.reason) == (FAILED, True)
    after = rewrite_rig.manifest_of(store)
    assert (after.entries, [job.uuid for job in after.jobs]) == (manifest.entries, [RUN])


def test_a_dry_run_reads_and_writes_nothing(rewrite_rig: Any, store: Any) -> None:
    """It counts."""
    history = rewrite_rig.make_history(2, transactions=0.0)
    rewrite_rig.archive(store, history)
    request = replace(begun(rewrite_rig, store), dry_run=True)
    group = one_group(rewrite_rig, store)
    result = rewrite_group(rewrite_rig.DyingStore(store, 1), group, codes(history), request)
    assert result == GroupResult(group, PLANNED, records=history.offset, records_kept=len(history.newest()))
    erased = rewrite_group(
        rewrite_rig.DyingStore(store, 1), group, codes(history)[:3], replace(request, kind=ERASE_KIND)
    )
    assert erased.records_kept == history.offset - 3
