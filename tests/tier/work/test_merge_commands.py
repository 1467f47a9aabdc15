"""Small objects become one: the same records under the same offsets, whatever fails in between."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.jobs import JobRefused, list_job
from stratalog.tier.manifests.manifest import Claimant, ManifestFenced, Uploaded, claim
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.parts import Job, Pin
from stratalog.tier.manifests.pins import pin
from stratalog.tier.manifests.runs import begin_run, end_run
from stratalog.tier.messages.commands import Commit, MergeObjects, SetLogStart
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes, epochs_from_bytes
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_reader import CorruptObject, read_blob, read_object_footer
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.store import NotFound, StoreUnavailable
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_commands import commit_uploads, move_log_start
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.merge_commands import merge_objects

US = Claimant(0, 5, bytes([5] * 16), 4)
JOB = bytes([9] * 16)


@pytest.fixture
def archive(memory_store, log_bytes):
    """Twelve objects of ten records each, claimed by US."""
    segments = [log_bytes.segment(10 * n, 1) for n in range(12)]
    aborted = [AbortedTransaction(1, 5, 25, 25), AbortedTransaction(2, 95, 97, 97)]
    archive_log(memory_store, log_bytes.partition, segments, now_ms=1, claimant=US, aborted=aborted, cluster_id="c")
    return memory_store


def merge(log_bytes, **changes):
    """The command."""
    command = MergeObjects(log_bytes.partition, US, JOB, 4, 1 << 20, 10, 20, "c")
    return replace(command, **changes)


def data_of(store, partition):
    """All log bytes of the archive, and where its objects begin."""
    manifest = read_manifest(store, partition).manifest
    entries = list(iter_entries(store, manifest))
    return b"".join(store.get(e.key)[0][: e.data_bytes] for e in entries), [e.base for e in entries]


def test_small_objects_become_one_with_the_same_bytes(archive, log_bytes):
    """One live entry; the old objects are in the trash; nothing is listed any more."""
    before, _ = data_of(archive, log_bytes.partition)
    inputs = read_manifest(archive, log_bytes.partition).manifest.entries
    report = merge_objects(archive, merge(log_bytes))
    assert (report.object_count, report.data_bytes) == (12, len(before))
    assert data_of(archive, log_bytes.partition) == (before, [0])
    manifest = read_manifest(archive, log_bytes.partition).manifest
    (entry,) = manifest.entries
    assert (entry.uuid, entry.base, entry.end, entry.record_count) == (JOB, 0, 120, 120)
    assert (entry.min_timestamp_ms, entry.max_timestamp_ms) == (
        min(e.min_timestamp_ms for e in inputs), max(e.max_timestamp_ms for e in inputs),
    )  # fmt: skip
    assert {t.key for t in manifest.trash} == {e.key for e in inputs}
    assert (manifest.jobs, manifest.rewritten_seq, report.view.seq) == ((), manifest.seq, manifest.seq)
    assert merge_objects(archive, merge(log_bytes, uuid=bytes(16))).object_count == 0


def test_the_object_knows_what_its_inputs_knew(archive, log_bytes):
    """Aborted transactions once each; epochs and producers as of its end: a log may restart behind it."""
    uuid, base = bytes([7] * 16), 120
    request = SegmentRequest(
        log_bytes.partition, uuid, base, base + 10, US.leader_epoch, [log_bytes.segment(base, 1)],
        leader_epochs=(LeaderEpoch(1, 0), LeaderEpoch(5, 125)), producer_snapshot=b"snapshot", compacted=True,
    )  # fmt: skip
    last = put_segment(archive, build_segment(request))
    commit_uploads(archive, Commit(log_bytes.partition, US, (Uploaded(last, US),), 3))
    merge_objects(archive, merge(log_bytes))
    (entry,) = read_manifest(archive, log_bytes.partition).manifest.entries
    footer = read_object_footer(archive, entry.key)
    parts = {name: read_blob(archive, entry.key, footer, name) for name in ("aborted", "leader_epochs")}
    assert [one.producer_id for one in aborted_from_bytes(parts["aborted"])] == [1, 2]
    assert epochs_from_bytes(parts["leader_epochs"]) == (LeaderEpoch(1, 0), LeaderEpoch(5, 125))
    assert read_blob(archive, entry.key, footer, "producer_snapshot") == b"snapshot"
    assert (entry.compacted, entry.epoch, entry.broker_id, entry.aborted_count) == (True, 5, 4, 2)


def test_the_object_has_the_epochs_of_its_inputs(memory_store, log_bytes):
    """Each input was uploaded with its own: a later leader may know worse where an epoch began."""
    partition = log_bytes.partition
    data = [log_bytes.segment(10 * n, 1, leader_epoch=epoch) for n, epoch in enumerate((0, 0, 1, 1))]
    archive_log(memory_store, partition, data, now_ms=1, claimant=US, cluster_id="c")
    worse = (LeaderEpoch(0, 0), LeaderEpoch(1, 33))
    request = SegmentRequest(
        partition, bytes([7] * 16), 40, 50, US.leader_epoch, [log_bytes.segment(40, 1, leader_epoch=1)], leader_epochs=worse,
    )  # fmt: skip
    last = put_segment(memory_store, build_segment(request))
    commit_uploads(memory_store, Commit(partition, US, (Uploaded(last, US),), 3))
    merge_objects(memory_store, merge(log_bytes))
    (entry,) = read_manifest(memory_store, partition).manifest.entries
    assert entry.epochs == (LeaderEpoch(0, 0), LeaderEpoch(1, 20))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(3))
def test_a_merge_that_fails_in_the_middle_loses_nothing(archive, log_bytes, number, when):
    """The listing, the object, the swap: what was there is there; the next merge strikes the first one off."""
    before, _ = data_of(archive, log_bytes.partition)
    where = ("put_if_absent", r"\.seg$") if number == 1 else ("compare_and_swap", "manifest.json")
    fault = Fault.FAIL_BEFORE if when == "before" else Fault.DROP_AFTER_COMMIT
    failing = FaultyStore(archive, [FaultRule(fault, *where, skip=int(number == 2))])
    with pytest.raises(StoreUnavailable):
        merge_objects(failing, merge(log_bytes))
    assert data_of(archive, log_bytes.partition)[0] == before
    report = merge_objects(archive, merge(log_bytes, uuid=bytes([8] * 16)))
    assert data_of(archive, log_bytes.partition) == (before, [0])
    swapped_already = number == 2 and when == "after"
    assert report.object_count == (0 if swapped_already else 12)
    assert read_manifest(archive, log_bytes.partition).manifest.jobs == ()


def test_a_damaged_or_missing_object_ends_the_merge(archive, log_bytes):
    """No object is made of it, and no job stays listed."""
    entries = read_manifest(archive, log_bytes.partition).manifest.entries
    data = archive.get(entries[3].key)[0]
    archive.put(entries[3].key, data[:50] + b"?" + data[51:])
    with pytest.raises(CorruptObject):
        merge_objects(archive, merge(log_bytes))
    archive.delete_many([entries[3].key])
    with pytest.raises(NotFound):
        merge_objects(archive, merge(log_bytes))
    manifest = read_manifest(archive, log_bytes.partition).manifest
    assert (manifest.jobs, manifest.entries) == ((), entries)


def test_damage_is_reported_though_the_job_cannot_be_ended(archive, log_bytes):
    """The first failure is the one that an operator has to act upon."""
    entries = read_manifest(archive, log_bytes.partition).manifest.entries
    data = archive.get(entries[3].key)[0]
    archive.put(entries[3].key, data[:50] + b"?" + data[51:])
    failing = FaultyStore(archive, [FaultRule(Fault.FAIL_BEFORE, "compare_and_swap", skip=1, count=None)])
    with pytest.raises(CorruptObject) as refused:
        merge_objects(failing, merge(log_bytes))
    assert "could not be ended either" in refused.value.__notes__[0]


def test_retention_in_between_stops_the_swap(archive, log_bytes):
    """Entries that it dropped do not come back."""

    class Retaining(StoreWrapper):
        def put_if_absent(self, key, *args, **kwargs):
            move_log_start(archive, SetLogStart(log_bytes.partition, US, 25, 11, "retention"))
            return super().put_if_absent(key, *args, **kwargs)

    with pytest.raises(JobRefused, match="no longer a live entry"):
        merge_objects(Retaining(archive), merge(log_bytes))
    manifest = read_manifest(archive, log_bytes.partition).manifest
    assert (manifest.remote_start, manifest.jobs, len(manifest.trash)) == (20, (), 2)
    assert merge_objects(archive, merge(log_bytes, uuid=bytes([8] * 16))).object_count == 10
    assert data_of(archive, log_bytes.partition)[1] == [20]


def test_a_fenced_leader_merges_nothing(archive, log_bytes):
    """Neither before it begins nor when a new leader claims in between: the job stays listed until it runs out."""

    class Overtaken(StoreWrapper):
        def put_if_absent(self, key, *args, **kwargs):
            change_manifest(archive, log_bytes.partition, lambda m: claim(m, US._replace(leader_epoch=6), now_ms=12))
            return super().put_if_absent(key, *args, **kwargs)

    before = data_of(archive, log_bytes.partition)
    with pytest.raises(ManifestFenced):
        merge_objects(Overtaken(archive), merge(log_bytes))
    assert [job.uuid for job in read_manifest(archive, log_bytes.partition).manifest.jobs] == [JOB]
    with pytest.raises(ManifestFenced):
        merge_objects(archive, merge(log_bytes, uuid=bytes(16)))
    assert data_of(archive, log_bytes.partition) == before


def test_cuts_and_other_jobs_are_left_alone(archive, log_bytes):
    """No object reaches across the end of a cut; an input of another job is not touched."""
    change_manifest(archive, log_bytes.partition, lambda m: pin(m, Pin("c", 1, 60, 0), now_ms=2))
    merge_objects(archive, merge(log_bytes))
    assert data_of(archive, log_bytes.partition)[1] == [0, 60, 70, 80, 90, 100, 110]
    inputs = read_manifest(archive, log_bytes.partition).manifest.entries[1:2]
    other = Job(bytes([3] * 16), "erase", 1, 99, tuple(e.uuid for e in inputs))
    change_manifest(archive, log_bytes.partition, lambda m: list_job(m, other, now_ms=3))
    with pytest.raises(JobRefused, match="one of its inputs"):
        merge_objects(archive, merge(log_bytes, uuid=bytes([8] * 16)))


def test_objects_in_pages_are_merged_like_the_others(memory_store, log_bytes, monkeypatch):
    """Over pages and inline entries; merges go on until nothing small is left."""
    for name, value in (("INLINE_MAX", 6), ("INLINE_KEPT", 3), ("FANOUT", 3), ("MERGED_ENTRIES_MAX", 27)):
        monkeypatch.setattr(manifest_pages, name, value)
    for number in range(40):
        archive_log(memory_store, log_bytes.partition, [log_bytes.segment(10 * number, 1)], now_ms=1, claimant=US)
    before, _ = data_of(memory_store, log_bytes.partition)
    size = read_manifest(memory_store, log_bytes.partition).manifest.entries[0].data_bytes
    for number in range(20):
        command = merge(log_bytes, uuid=bytes([100 + number] * 16), bytes_max=8 * size)
        if not merge_objects(memory_store, command).object_count:
            break
    after, starts = data_of(memory_store, log_bytes.partition)
    assert (after, starts) == (before, [0, 80, 160, 240, 320])
    manifest = read_manifest(memory_store, log_bytes.partition).manifest
    assert manifest.totals.segments == 5
    pages = {each.key for each in memory_store.list(log_bytes.partition.prefix + "pages/")}
    trashed = {item.key for item in manifest.trash}
    assert pages == {page.key for page in manifest.pages} | {key for key in trashed if "/pages/" in key}


def test_no_object_is_merged_while_a_run_rewrites_the_archive(archive, log_bytes):
    """The run says afterwards which objects it has looked at: there must be no others."""
    run = Job(b"r" * 16, "compact", 5, 1 << 50)
    change_manifest(archive, log_bytes.partition, lambda manifest: begin_run(manifest, run, now_ms=5))
    assert merge_objects(archive, merge(log_bytes)).object_count == 0
    change_manifest(archive, log_bytes.partition, lambda manifest: end_run(manifest, run.uuid, now_ms=6))
    assert merge_objects(archive, merge(log_bytes)).object_count == 12
