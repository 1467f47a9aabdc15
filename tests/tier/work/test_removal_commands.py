"""Removal against a store: the order of its steps, answers that get lost, and archives that go as a whole."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.trash import DELETED_RECORDS, RETENTION, TIERING_OFF, Retention
from stratalog.tier.manifests.jobs import MERGE_KIND, QUARANTINE_KIND, end_job, list_job
from stratalog.tier.manifests.leases import SKEW_MS, end_lease, write_lease
from stratalog.tier.manifests.manifest import Claimant, ManifestFenced, ManifestLost, claim, set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.manifests.parts import Job, Pin
from stratalog.tier.manifests.pins import pin, unpin
from stratalog.tier.messages.commands import BeginAgain, Claim, EmptyTrash, RemoveArchive, TrashArchive, TrashEmptied
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import StoreUnavailable
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.archive_commands import claim_archive
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.removal_commands import archive_again, empty_trash, remove_archive, trash_partition
from stratalog.wire.errors import Invalid

US = Claimant(0, 1, bytes([1] * 16), 1)
NEXT = Claimant(0, 2, bytes([2] * 16), 1)
GRACE = 10_000
HOUR = 3_600_000


class World:
    """One partition's archive in memory, and a clock."""

    def __init__(self, log_bytes):
        self.now_ms = HOUR
        self.inner = MemoryStore("memory:removal", clock_ms=lambda: self.now_ms)
        self.store = FaultyStore(self.inner)
        self.partition = log_bytes.partition
        segments = [log_bytes.segment(a, 10) for a in range(0, 600, 100)]
        archive_log(self.inner, self.partition, segments, now_ms=self.now_ms, claimant=US)

    @property
    def manifest(self):
        """As it stands."""
        return read_manifest(self.inner, self.partition).manifest

    def change(self, transition):
        """One change, as another writer would make it."""
        return change_manifest(self.inner, self.partition, transition).manifest

    def trash(self, offset, reason=DELETED_RECORDS):
        """Move the log start."""
        return self.change(lambda m: set_log_start(m, US, offset, now_ms=self.now_ms, reason=reason))

    def empty(self, claimant=US, retention=None, **options):
        """Send `EmptyTrash` now."""
        command = EmptyTrash(self.partition, claimant, self.now_ms, GRACE, retention, **options)
        emptied = empty_trash(self.store, command)
        assert emptied.left_bytes == (
            0 if emptied.claim_needed else sum(item.size_bytes for item in self.manifest.trash)
        )
        return replace(emptied, seq=-1, left_bytes=0)

    def remove(self, claimant=NEXT):
        """Send `RemoveArchive` now."""
        return remove_archive(self.store, RemoveArchive(self.partition, claimant, self.now_ms, GRACE)).left_count

    def keys(self):
        """Everything of the partition but its manifest."""
        prefix = self.partition.prefix
        return [one.key for one in self.inner.list(prefix) if not one.key.endswith("manifest.json")]

    def page(self, count):
        """Put the first entries in a page, as a spill would."""
        data = page_to_bytes(self.partition, self.manifest.entries[:count])
        ref = page_ref(self.partition, self.manifest.entries[:count], data, self.manifest.seq)
        self.inner.put(ref.key, data)
        self.change(lambda m: replace(m, pages=(ref,), entries=m.entries[count:], seq=m.seq + 1))
        return ref.key


@pytest.fixture
def world(log_bytes):
    """Six archived objects under US."""
    return World(log_bytes)


def test_an_object_goes_after_it_was_dated_and_the_grace_has_passed(world):
    """The first look dates, a later one deletes and forgets; nothing is left to remember."""
    entries = world.manifest.entries
    world.trash(200)
    assert world.empty() == TrashEmptied(0, 0, 2, world.now_ms + GRACE)
    assert [item.since_ms for item in world.manifest.trash] == [world.now_ms] * 2
    world.now_ms += GRACE
    assert world.empty().removed_count == 0
    world.now_ms += 1
    size_bytes = sum(entry.size_bytes for entry in entries[:2])
    assert world.empty() == TrashEmptied(2, size_bytes, 0, None)
    assert world.keys() == [entry.key for entry in entries[2:]]
    assert world.manifest.trash == ()
    assert world.empty() == TrashEmptied()


def test_leases_are_not_listed_before_an_object_is_ripe(world):
    """And they are listed after the manifest was read, before anything is deleted."""
    counting = CountingStore(world.inner)
    world.store = counting
    world.trash(200)
    world.empty()
    assert counting.count("list") == 0
    world.now_ms += GRACE + 1
    world.empty()
    order = [(one.operation, one.key.rpartition("/")[2]) for one in counting.requests]
    done = order[order.index(("list", "")) - 1 :]
    assert [name for name, _ in done][:3] == ["get", "list", "delete_many"]
    assert done[-1] == ("compare_and_swap", "manifest.json")


def test_a_lease_written_while_the_trash_is_old_protects_nothing_of_it(world):
    """One from before the date protects it, until it ends."""
    lease = write_lease(world.inner, os.urandom(16), HOUR, world.now_ms)
    world.trash(200)
    world.empty()
    world.now_ms += SKEW_MS + GRACE + 2
    write_lease(world.inner, os.urandom(16), HOUR, world.now_ms)
    held = world.empty()
    assert (held.removed_count, held.leased_count, held.left_count) == (0, 2, 2)
    end_lease(world.inner, lease.uuid)
    gone = world.empty()
    assert (gone.removed_count, gone.leased_count) == (2, 0)


def test_a_page_goes_with_the_objects_of_its_entries(world):
    """Objects first, the page last: after a failure in between the page still tells what has to go."""
    entries = world.manifest.entries
    page = world.page(3)
    world.trash(400)
    assert [item.key for item in world.manifest.trash] == [page, entries[3].key]
    world.empty()
    world.now_ms += GRACE + 1
    world.store.set_rules([FaultRule(Fault.DROP_AFTER_COMMIT, "delete_many", count=1)])
    with pytest.raises(StoreUnavailable):
        world.empty()
    assert world.keys() == [page, *(entry.key for entry in entries[4:])]
    assert world.empty().removed_count == 2
    assert world.keys() == [entry.key for entry in entries[4:]]


def test_a_page_in_the_trash_that_cannot_be_read_stays(world):
    """Its other names are unknown: it is reported; everything else in the trash goes its way."""
    entries = world.manifest.entries
    page = world.page(3)
    world.trash(400)
    world.empty()
    world.now_ms += GRACE + 1
    world.inner.put(page, b"damaged")
    done = world.empty()
    assert (done.removed_count, done.left_count) == (1, 1)
    assert page in done.problem
    assert world.keys() == [page, *(entry.key for entry in [*entries[:3], *entries[4:]])]


def test_a_page_in_the_trash_takes_no_live_object_along(world):
    """An earlier repair took objects out of such a page: one is live in a page again, one in the manifest itself."""
    entries = world.manifest.entries
    page = world.page(3)
    world.trash(300)
    (item,) = world.manifest.trash
    assert item.key == page
    data = page_to_bytes(world.partition, entries[1:2])
    live = page_ref(world.partition, entries[1:2], data, 99)
    world.inner.put(live.key, data)
    world.change(lambda m: replace(m, seq=m.seq + 1, pages=(live,), entries=(entries[2], *m.entries)))
    world.empty()
    world.now_ms += GRACE + 1
    world.empty()
    assert world.keys() == [live.key, *(entry.key for entry in entries[1:])]


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT])
@pytest.mark.parametrize("operation", ["get", "list", "delete_many", "compare_and_swap"])
def test_a_lost_answer_is_repeated_without_harm(world, fault, operation):
    """After two faults of one operation, later runs leave what a run without faults leaves."""
    entries = world.manifest.entries
    world.page(2)
    world.trash(300)
    world.empty()
    world.now_ms += GRACE + 1
    world.store.set_rules([FaultRule(fault, operation, count=2)])
    for _ in range(4):
        try:
            world.empty()
        except StoreUnavailable:
            continue
    assert world.store.injected
    assert world.manifest.trash == ()
    assert world.keys() == [entry.key for entry in entries[3:]]


def test_a_fenced_writer_deletes_nothing(world):
    """Neither does a writer without a claim: the error says that a claim is needed."""
    world.trash(200)
    world.empty()
    world.now_ms += GRACE + 1
    before = world.keys()
    assert world.empty(NEXT) == TrashEmptied(0, 0, 2, world.now_ms - 1, claim_needed=True)
    claim_archive(world.inner, Claim(world.partition, NEXT, world.now_ms, 0))
    with pytest.raises(ManifestFenced):
        world.empty()
    assert world.keys() == before
    assert world.empty(NEXT).removed_count == 2


def test_retention_is_asked_again(world):
    """Raised meanwhile it keeps the object where it is; it never comes back to life."""
    world.trash(200, RETENTION)
    world.empty()
    world.now_ms += GRACE + 1
    assert world.empty(retention=Retention(-1, -1, 0)).removed_count == 0
    assert world.manifest.remote_start == 200
    assert world.empty(retention=Retention(GRACE, -1, 0)).removed_count == 2


def test_a_run_takes_so_many_and_no_more(world):
    """The rest is left for the next one."""
    world.trash(500)
    world.empty()
    world.now_ms += GRACE + 1
    assert world.empty(items_max=2).left_count == 3
    assert world.empty(items_max=2).left_count == 1


def test_an_archive_is_trashed_under_a_higher_claim(world):
    """Which fences who wrote there last; it goes after the grace, with all orphans, the manifest last."""
    entries = world.manifest.entries
    orphan = world.partition.segment_key(600, 700, 1, bytes([9] * 16))
    world.inner.put(orphan, b"never committed")
    view = trash_partition(world.store, TrashArchive(world.partition, NEXT, world.now_ms, "topic deleted")).view
    assert len(view.entries) == 0
    assert len(world.manifest.trash) == 6
    assert world.remove() == 8
    world.now_ms += GRACE + 1
    assert world.remove() == 2, "the orphan is not old enough yet, by the skew of clocks"
    assert world.keys() == [orphan]
    world.now_ms += SKEW_MS
    world.store.set_rules([FaultRule(Fault.DROP_AFTER_COMMIT, "delete_many", "manifest.json")])
    with pytest.raises(StoreUnavailable):
        world.remove()
    assert list(world.inner.list("")) == []
    assert world.remove() == 0
    assert entries


def test_a_cut_keeps_the_archive_of_a_deleted_topic(world):
    """Until it is removed."""
    world.change(lambda m: pin(m, Pin("cut", 1, 300, 0), now_ms=1))
    trash_partition(world.store, TrashArchive(world.partition, NEXT, world.now_ms, "topic deleted"))
    world.remove()
    world.now_ms += HOUR
    report = remove_archive(world.store, RemoveArchive(world.partition, NEXT, world.now_ms, GRACE))
    assert report.left_count > 0
    assert "held by the cut cut (stratalog cut delete)" in report.problem
    assert len(world.keys()) == 3
    world.change(lambda m: unpin(m, "cut", now_ms=1))
    assert world.remove() == 0


def test_it_is_said_that_a_repairs_quarantine_holds_the_archive_of_a_deleted_topic(world):
    """It never runs out: without a word what it holds would stay for ever."""
    held = world.manifest.entries[1]
    quarantine = Job(bytes(16), QUARANTINE_KIND, 1, 1 << 62, (held.uuid,))
    world.change(lambda m: replace(m, jobs=(quarantine,), seq=m.seq + 1))
    trash_partition(world.store, TrashArchive(world.partition, NEXT, world.now_ms, "topic deleted"))
    command = RemoveArchive(world.partition, NEXT, world.now_ms, GRACE)
    assert remove_archive(world.store, command).problem == ""
    world.now_ms += HOUR
    command = replace(command, now_ms=world.now_ms)
    assert "stratalog tier repair --release" in remove_archive(world.store, command).problem
    assert world.keys() == [held.key]
    world.change(lambda m: end_job(m, bytes(16), now_ms=1))
    assert world.remove() == 0


def test_a_lost_manifest_keeps_what_is_there(world):
    """Never delete on absence of metadata: the archive is not taken for an empty one."""
    world.inner.delete_many([world.partition.manifest_key])
    with pytest.raises(ManifestLost, match="manifest was lost"):
        trash_partition(world.store, TrashArchive(world.partition, NEXT, world.now_ms, "topic deleted"))
    assert world.remove() == 0
    assert len(world.keys()) == 6


def test_another_bucket_says_nothing_about_an_archive(world):
    """One that was swapped for it has no manifest: that removes no archive, and none is marked as deleted there."""
    world.inner.delete_many([info.key for info in world.inner.list("")])
    trash = TrashArchive(world.partition, NEXT, world.now_ms, "topic deleted", bucket_id="ours")
    with pytest.raises(ManifestLost, match="not the bucket that it was"):
        trash_partition(world.store, trash)
    with pytest.raises(ManifestLost, match="not the bucket that it was"):
        remove_archive(world.store, RemoveArchive(world.partition, NEXT, world.now_ms, GRACE, bucket_id="ours"))
    assert list(world.inner.list("")) == []


def test_a_living_archive_is_not_removed(world):
    """Only one that is marked as deleted and has nothing live."""
    claim_archive(world.inner, Claim(world.partition, NEXT, world.now_ms, 0))
    world.now_ms += HOUR
    with pytest.raises(Invalid, match="not marked as deleted"):
        world.remove()
    assert len(world.keys()) == 6


def test_an_archive_that_was_marked_with_entries_below_its_log_start_is_removed(world):
    """Earlier versions marked it so, and then refused to remove it for ever."""
    world.change(lambda m: replace(claim(m, NEXT, now_ms=1), deleted_ms=1, log_start_offset=600))
    assert world.remove()
    for _ in range(3):
        world.now_ms += GRACE + 1
        world.remove()
    assert world.keys() == []
    assert not world.manifest.seq


def test_an_archive_that_never_was_leaves_a_mark_for_a_while(world, log_bytes):
    """So that a claim that is still under way cannot make a deleted topic's archive come to life."""
    other = log_bytes.partition._replace(partition=9)
    world.partition = other
    trash_partition(world.store, TrashArchive(other, NEXT, world.now_ms, "topic deleted"))
    with pytest.raises(ManifestFenced):
        claim_archive(world.inner, Claim(other, US, world.now_ms, 0))
    assert world.remove() > 0
    world.now_ms += GRACE + 1
    assert world.remove() == 0
    assert list(world.inner.list(other.prefix)) == []


@pytest.mark.parametrize("pages", [0, 4])
def test_a_merge_that_died_does_not_hold_what_is_switched_off(world, pages):
    """The trash is emptied after its grace, with pages and the objects they name; only then was the merge to run out."""
    if pages:
        world.page(pages)
    inputs = tuple(entry.uuid for entry in world.manifest.entries[:2])
    job = Job(bytes([9] * 16), MERGE_KIND, world.now_ms, world.now_ms + HOUR, inputs)
    world.change(lambda m: list_job(m, job, now_ms=world.now_ms, claimant=US))
    trash_partition(world.store, TrashArchive(world.partition, NEXT, world.now_ms, TIERING_OFF))
    world.empty(NEXT)
    world.now_ms += GRACE + 1
    assert world.empty(NEXT).left_count == 0
    assert world.keys() == []


def test_archiving_begins_again(world):
    """From what is local; the trash of before goes its own way."""
    trash_partition(world.store, TrashArchive(world.partition, US, world.now_ms, "tiering switched off"))
    view = archive_again(world.store, BeginAgain(world.partition, US, 450, world.now_ms)).view
    assert (view.remote_start, view.remote_end, view.log_start_offset) == (450, 450, 450)
    world.now_ms += GRACE + 1
    assert world.empty().removed_count == 6
    assert world.keys() == []
