from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from stratalog.spark.source.views import archives_at_cut
from stratalog.tier.bucket.swap_in import swapped_in
from stratalog.tier.bucket.trash import begin_again, leaving
from stratalog.tier.care.restore_plan import PartitionState
from stratalog.tier.care.rewind import check_rewind, empty_added, read_cut_target, rewind_partition
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.jobs import MERGE_KIND, QUARANTINE_KIND, JobRefused
from stratalog.tier.manifests.manifest import ManifestFenced, claim, set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.parts import Claimant, Job
from stratalog.tier.manifests.runs import COMPACT_KIND, begin_run, list_part, swap_part
from stratalog.tier.manifests.spill import spilling
from stratalog.tier.messages.commands import EmptyTrash, ReadBoundedView
from stratalog.tier.reading.bounded_view import read_bounded_view
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut, cut_manifest, delete_cut
from stratalog.tier.work.cut_data import held_bytes
from stratalog.tier.work.garbage_collection import GarbageOptions, collect
from stratalog.tier.work.removal_commands import empty_trash
from stratalog.wire.errors import Invalid

MINE = Claimant(1, -1, b"m" * 16, 4)


@pytest.fixture
def cut(memory_store, log_bytes):
    """An archive of four objects of two epochs, a cut of it, and then three more objects and a log start inside it."""
    write(memory_store, log_bytes, range(4))
    made = create_cut(memory_store, "monday", now_ms=50)
    write(memory_store, log_bytes, range(4, 7))
    move_log_start(memory_store, log_bytes.partition, 250)
    return made


def write(store, log_bytes, numbers, **options):
    segments = [log_bytes.segment(at * 100, 10, leader_epoch=1 + at // 2) for at in numbers]
    archive_log(store, log_bytes.partition, segments, now_ms=60, **options)


def move_log_start(store, partition, offset):
    def transition(manifest):
        return set_log_start(manifest, manifest.claimant, offset, now_ms=70, reason="retention")

    change_manifest(store, partition, transition, spilling(store, 0))


def back(store, cut, **changes):
    """Rewind the one partition."""
    target = replace(read_cut_target(store, cut, cut.partitions[-1]), **changes)
    return rewind_partition(store, target, MINE, cluster_id="c", now_ms=90)


def clean(store):
    """The bucket is sound to the last byte."""
    reports = verify_bucket(store, VerifyOptions(2**62, 0, deep=True))
    return [one for report in reports for one in report.anomalies] == []


def test_an_archive_goes_back_to_what_the_cut_held(memory_store, cut, log_bytes):
    """Offsets, epochs, sums; what came later is in the trash, what was there and is wanted is live; every byte verifies."""
    manifest = back(memory_store, cut)
    assert (manifest.log_start_offset, manifest.remote_end) == (0, 400)
    assert [entry.base for entry in iter_entries(memory_store, manifest)] == [0, 100, 200, 300]
    assert [epoch for epoch, _ in manifest.leader_epochs] == [1, 2]
    assert manifest.claimant == Claimant(1, 4, b"m" * 16, 4)
    assert manifest.rewritten_seq == manifest.shortened_seq == manifest.history.seq == manifest.seq - 1
    assert (
        sorted(item.key for item in manifest.trash)
        == [info.key for info in memory_store.list(log_bytes.partition.segments_prefix) if "/seg/" in info.key][4:]
    )
    assert clean(memory_store)


def test_the_state_of_a_compaction_is_forgotten(memory_store, cut, log_bytes):
    """Objects from before it are live again: a tombstone that went because they were gone would be missed."""
    change_manifest(memory_store, log_bytes.partition, lambda manifest: replace(manifest, archive_clean_offset=400))
    assert back(memory_store, cut).archive_clean_offset == 0


def test_a_run_ends_where_its_archive_goes_back(memory_store, cut, log_bytes):
    """It has taken records out of old objects for the sake of later ones, which are gone now."""
    partition = log_bytes.partition
    run = Job(b"r" * 16, COMPACT_KIND, 60, 2**62)
    stored = change_manifest(memory_store, partition, lambda manifest: begin_run(manifest, run, now_ms=61))
    kept = next(iter_entries(memory_store, stored.manifest, 300))
    part = Job(b"p" * 16, COMPACT_KIND, 62, 2**62, (kept.uuid,))
    change_manifest(memory_store, partition, lambda manifest: list_part(manifest, run.uuid, part, now_ms=62))
    manifest = back(memory_store, cut)
    assert (kept in manifest.entries, manifest.jobs) == (True, ())
    output = replace(kept, uuid=part.uuid, key=partition.segment_key(kept.base, kept.end, kept.epoch, part.uuid))
    swap = partial(swap_part, run_uuid=run.uuid, now_ms=95)
    with pytest.raises(JobRefused):
        change_manifest(memory_store, partition, lambda m: swapped_in(memory_store, m, [kept], output, swap))


def test_objects_that_a_repair_left_out_are_under_quarantine_no_more_where_they_are_live_again(
    memory_store, cut, log_bytes
):
    """Otherwise no job could ever rewrite it: nothing could be erased from it. The rest stays protected."""
    partition = log_bytes.partition
    live = [entry.uuid for entry in iter_entries(memory_store, read_manifest(memory_store, partition).manifest)]
    some = Job(b"q" * 16, QUARANTINE_KIND, 60, 2**62, (live[0], b"x" * 16))
    all_ = Job(b"p" * 16, QUARANTINE_KIND, 60, 2**62, (live[1],))
    merge = Job(b"m" * 16, MERGE_KIND, 60, 2**62, (live[2],))
    change_manifest(
        memory_store, partition, lambda manifest: replace(manifest, seq=manifest.seq + 1, jobs=(some, all_, merge))
    )
    assert back(memory_store, cut).jobs == (replace(some, inputs=(b"x" * 16,)), merge)


def test_it_is_repeated_without_effect(memory_store, cut):
    """After a lost reply, say."""
    assert back(memory_store, cut) == back(memory_store, cut)


def test_the_old_leader_can_neither_commit_nor_empty_the_trash_into_the_cut(memory_store, cut, log_bytes):
    """It is fenced by the same change; and the pin goes on holding the cut."""
    manifest = back(memory_store, cut)
    with pytest.raises(ManifestFenced):
        archive_log(
            memory_store,
            log_bytes.partition,
            [log_bytes.segment(400, 5, leader_epoch=9)],
            now_ms=95,
            claimant=Claimant(0, 9, bytes(16)),
        )
    live = {entry.key for entry in iter_entries(memory_store, manifest)}
    gone = {item.key for item in leaving(manifest, now_ms=2**60, grace_ms=0, retention=None)}
    assert not gone & live
    assert manifest.pins


def test_without_its_pin_a_cut_is_not_gone_back_to(memory_store, cut, log_bytes):
    """The objects may have been deleted since."""
    target = read_cut_target(memory_store, cut, cut.partitions[-1])
    delete_cut(memory_store, cut, now_ms=80)
    before = read_manifest(memory_store, log_bytes.partition).raw
    with pytest.raises(Invalid, match="no pin"):
        check_rewind(memory_store, read_manifest(memory_store, log_bytes.partition).manifest, target, now_ms=90)
    with pytest.raises(Invalid, match="no pin"):
        rewind_partition(memory_store, target, MINE, cluster_id="c", now_ms=90)
    assert read_manifest(memory_store, log_bytes.partition).raw == before


def test_another_restore_that_was_first_is_not_overwritten(memory_store, cut):
    """Each has its own mark."""
    back(memory_store, cut)
    target = read_cut_target(memory_store, cut, cut.partitions[-1])
    with pytest.raises(ManifestFenced):
        rewind_partition(memory_store, target, MINE._replace(uuid=b"o" * 16), cluster_id="c", now_ms=91)


def test_pages_with_their_objects_in_the_trash_come_back_one_by_one(memory_store, log_bytes, monkeypatch):
    """A page that died as a whole stands for its objects: those of the cut must not go with it."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    partition = log_bytes.partition
    write(memory_store, log_bytes, range(6))
    change_manifest(
        memory_store,
        partition,
        lambda m: replace(m, seq=m.seq + 1, high_watermark=600),
        spilling(memory_store, 0),
    )
    assert read_manifest(memory_store, partition).manifest.pages
    made = create_cut(memory_store, "monday", now_ms=50)
    write(memory_store, log_bytes, range(6, 8))
    move_log_start(memory_store, partition, 550)
    assert any(item.kind for item in read_manifest(memory_store, partition).manifest.trash)
    manifest = back(memory_store, made)
    live = [entry.key for entry in iter_entries(memory_store, manifest)]
    assert len(live) == 6
    assert not set(live) & {item.key for item in manifest.trash}
    assert not any(item.kind for item in manifest.trash)
    assert clean(memory_store)


@pytest.fixture
def cut_before_gone_pages(memory_store, log_bytes, monkeypatch):
    """A cut that ends at 150 and whose copy of the manifest names pages behind that; they were merged since and have gone."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 3)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 1)
    monkeypatch.setattr("stratalog.tier.manifests.pages.FANOUT", 2)
    for number in range(10):
        write(memory_store, log_bytes, [number])
    made = create_cut(memory_store, "noon", now_ms=50, end_of=lambda _store, _manifest: 150)
    for number in range(10, 20):
        write(memory_store, log_bytes, [number])
    (member,) = [one for one in made.partitions if one.seq]
    pages = cut_manifest(memory_store, made, member).pages
    for now_ms in (100, 200, 300):
        held = read_manifest(memory_store, log_bytes.partition).manifest.claimant
        empty_trash(memory_store, EmptyTrash(log_bytes.partition, held, now_ms, 0, None))
    there = {info.key for info in memory_store.list(log_bytes.partition.prefix)}
    assert [page.key in there for page in pages] == [page.first < 150 for page in pages]
    assert pages[-1].first >= 150
    return made


def test_a_cut_is_gone_back_to_although_pages_behind_its_end_have_gone(memory_store, cut_before_gone_pages):
    """Its copy of the manifest names them; nothing below its end is in them."""
    manifest = back(memory_store, cut_before_gone_pages)
    assert [entry.base for entry in iter_entries(memory_store, manifest)] == [0, 100]
    assert (manifest.log_start_offset, manifest.remote_end) == (0, 200)
    assert clean(memory_store)


def test_a_view_of_a_cut_is_read_although_pages_behind_its_end_have_gone(memory_store, cut_before_gone_pages):
    """By a broker, by Spark and Python, and by a restore of the cut."""
    cut = cut_before_gone_pages
    (member,) = [one for one in cut.partitions if one.seq]
    key = cut.manifest_key(member.partition)
    view = read_bounded_view(
        memory_store, ReadBoundedView(member.partition, member.end_offset, None, key, member.sha256)
    )
    assert view.end_offset == 150
    archive = next(one for one in archives_at_cut(memory_store, "orders@noon", "orders", "noon") if one.entries)
    assert [entry.base for entry in archive.entries] == [0, 100]
    manifest = cut_manifest(memory_store, cut, member)
    assert held_bytes(memory_store, manifest, 150) == sum(entry.data_bytes for entry in archive.entries)


def test_garbage_is_collected_although_pages_behind_the_end_of_a_cut_have_gone(memory_store, cut_before_gone_pages):
    """The partition is judged as any other."""
    (found,) = collect(memory_store, GarbageOptions(now_ms=2**62, grace_ms=0))
    assert (found.problem, found.garbage) == ("", [])


def test_a_partition_that_the_cut_knew_empty_is_empty_again(memory_store, cut, log_bytes):
    """All that came goes to the trash."""
    manifest = back(memory_store, cut, entries=(), end=0, cut_end=0, leader_epochs=())
    assert (manifest.remote_end, manifest.log_start_offset, manifest.entries, manifest.totals.segments) == (0, 0, (), 0)


def test_a_cut_that_ends_inside_an_object_goes_on_at_its_end(memory_store, log_bytes):
    """Objects are not cut in two."""
    write(memory_store, log_bytes, range(2))
    made = create_cut(memory_store, "noon", now_ms=50, end_of=lambda _store, _manifest: 150)
    target = read_cut_target(memory_store, made, made.partitions[-1])
    assert (target.cut_end, target.end) == (150, 200)


def test_a_partition_that_was_added_after_the_cut_leaves_nothing_to_the_next_of_its_number(
    memory_store, cut, log_bytes
):
    """Its first leader has epoch 0 and a log from offset 0, whatever was there; the old leader can write no more."""
    partition = log_bytes.partition
    there = read_manifest(memory_store, partition).manifest
    for _ in range(2):
        empty_added(memory_store, PartitionState(partition, there), MINE, cluster_id="c", now_ms=90)
    with pytest.raises(ManifestFenced):
        write(memory_store, log_bytes, [7], claimant=there.claimant)
    first = Claimant(1, 0, b"f" * 16, 4)
    change_manifest(memory_store, partition, lambda manifest: claim(manifest, first, now_ms=91))
    change_manifest(memory_store, partition, lambda manifest: begin_again(manifest, first, 0, now_ms=92))
    archive_log(memory_store, partition, [log_bytes.segment(0, 10, leader_epoch=0)], now_ms=93, claimant=first)
    manifest = read_manifest(memory_store, partition).manifest
    assert (manifest.log_start_offset, manifest.remote_end, manifest.totals.segments) == (0, 100, 1)
    assert [epoch for epoch, _ in manifest.leader_epochs] == [0]
    assert {item.reason for item in manifest.trash} == {"retention", "rewound to a cut"}
    assert clean(memory_store)
