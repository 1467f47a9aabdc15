from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.tier.bucket.walk import iter_partitions, iter_topics
from stratalog.tier.care.repair import RepairRefused, apply_repair
from stratalog.tier.care.repair_plan import entry_of_object, plan_repair
from stratalog.tier.care.rewind import read_cut_target, rewind_partition
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.parts import Claimant, Job
from stratalog.tier.manifests.runs import COMPACT_KIND, begin_run, list_part, swap_part
from stratalog.tier.messages.commands import SetLogStart
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.work.archive_commands import move_log_start
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut
from stratalog.wire.errors import Corrupt

UUID = bytes(15) + b"r"


def test_the_entry_of_an_object_is_that_of_the_manifest(archive):
    """All of it: the CRC of the whole comes from the store."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    for entry in archive.manifest.entries:
        assert entry_of_object(archive.store, folder, entry.key, entry.size_bytes) == entry


def test_a_store_without_checksums_has_the_object_read(archive, monkeypatch):
    """To the last byte."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    head = archive.store.head
    monkeypatch.setattr(archive.store, "head", lambda key: _without_crc(head(key)))
    entry = archive.manifest.entries[0]
    assert entry_of_object(archive.store, folder, entry.key, entry.size_bytes) == entry


@pytest.mark.parametrize("skip", range(3))
def test_a_reading_that_was_damaged_on_its_way_enters_no_manifest(archive, monkeypatch, skip):
    """Two readings must agree: what is written down is what every later check goes by."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    entry = archive.manifest.entries[0]
    faulty = FaultyStore(archive.store, [FaultRule(Fault.CORRUPT, "get_range", skip=skip)])
    monkeypatch.setattr(faulty, "head", lambda key: _without_crc(archive.store.head(key)))
    assert entry_of_object(faulty, folder, entry.key, entry.size_bytes) == entry
    monkeypatch.undo()
    faulty.set_rules([FaultRule(Fault.CORRUPT, "get_range", count=None)])
    monkeypatch.setattr(faulty, "head", lambda key: _without_crc(archive.store.head(key)))
    with pytest.raises(Corrupt, match="with other bytes each time"):
        entry_of_object(faulty, folder, entry.key, entry.size_bytes)


def _without_crc(info):
    from msgspec.structs import replace

    return replace(info, crc32c=None)


def test_an_object_under_another_key_is_refused(archive):
    """Moved by hand, it would be taken for other offsets, or for another partition's."""
    folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
    entry = archive.manifest.entries[0]
    for key in (
        archive.partition.segment_key(0, 50, entry.epoch, entry.uuid),
        archive.other.segment_key(entry.base, entry.end, entry.epoch, entry.uuid),
    ):
        archive.store.put(key, archive.raw_entry(0))
        with pytest.raises(Corrupt):
            entry_of_object(archive.store, folder if "orders" in key else other_folder(archive), key, entry.size_bytes)


def other_folder(archive):
    """The folder of the other topic."""
    return next(iter_partitions(archive.store, list(iter_topics(archive.store))[1]))


def plan_of(store):
    """How to mend the one partition."""
    folder = next(iter_partitions(store, next(iter_topics(store))))
    with ThreadPoolExecutor(2) as readers:
        return plan_repair(store, folder, "orders", VerifyOptions(2**62, 0), readers=readers)


def test_a_compaction_of_a_history_that_was_left_takes_nothing_out_of_the_cut(memory_store, log_bytes):
    """It went by later records, which are gone since the archive went back; its object has the offsets of one of the cut."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(at, 10) for at in (0, 100)], now_ms=5)
    cut = create_cut(memory_store, "monday", now_ms=50)
    before = list(iter_entries(memory_store, read_manifest(memory_store, partition).manifest))
    uuid = b"c" * 16
    request = SegmentRequest(
        partition, uuid, 100, 200, 9, [log_bytes.batch(110)], compacted=True, leader_epochs=(LeaderEpoch(1, 0),)
    )
    output = put_segment(memory_store, build_segment(request))
    run, part = Job(b"r" * 16, COMPACT_KIND, 60, 2**62), Job(uuid, COMPACT_KIND, 60, 2**62, (before[1].uuid,))
    change_manifest(memory_store, partition, lambda manifest: begin_run(manifest, run, now_ms=61))
    change_manifest(memory_store, partition, lambda manifest: list_part(manifest, run.uuid, part, now_ms=62))
    change_manifest(
        memory_store,
        partition,
        lambda manifest: swap_part(manifest, uuid, before[1:], output, run_uuid=run.uuid, now_ms=63),
    )
    target = read_cut_target(memory_store, cut, cut.partitions[-1])
    rewind_partition(memory_store, target, Claimant(1, -1, b"m" * 16), cluster_id="c", now_ms=90)
    memory_store.delete_many([partition.manifest_key])
    plan = plan_of(memory_store)
    repaired = apply_repair(memory_store, plan, uuid=UUID, now_ms=99).manifest
    assert list(iter_entries(memory_store, repaired)) == before


@pytest.mark.parametrize("has_copy", [True, False])
def test_objects_behind_a_hole_are_given_up_only_with_leave(memory_store, log_bytes, monkeypatch, has_copy):
    """DeleteRecords has moved the log start beyond the archive's end; what was archived since, no copy names."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4 if has_copy else 100)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    partition = log_bytes.partition
    for at in range(0, 600, 100):
        archive_log(memory_store, partition, [log_bytes.segment(at, 10)], now_ms=5)
    held = read_manifest(memory_store, partition).manifest.claimant
    command = SetLogStart(partition, held, 700, 6, "deleted records", resume_at=700)
    assert move_log_start(memory_store, command).view.remote_end == 700
    archive_log(memory_store, partition, [log_bytes.segment(700, 10), log_bytes.segment(800, 10)], now_ms=7)
    memory_store.delete_many([partition.manifest_key])
    plan = plan_of(memory_store)
    assert (plan.source == "the objects alone", plan.lost) == (not has_copy, ((700, 900),))
    with pytest.raises(RepairRefused, match=r"\[700, 900\)"):
        apply_repair(memory_store, plan, uuid=UUID, now_ms=99)
    (job,) = apply_repair(memory_store, plan, uuid=UUID, now_ms=99, accept_loss=True).manifest.jobs
    assert len(job.inputs) == 2
