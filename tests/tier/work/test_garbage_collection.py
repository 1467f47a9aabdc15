"""Garbage of whole buckets: found, removed only when asked, never by guess."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from stratalog.tier.documents.keys import cut_key, cut_manifest_key, topic_key
from stratalog.tier.manifests.garbage import Verdict
from stratalog.tier.manifests.leases import SKEW_MS, list_leases, write_lease
from stratalog.tier.manifests.manifest import Claimant, set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.messages.commands import Claim
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import UploadInfo
from stratalog.tier.stores.wrappers import CountingStore, StoreWrapper
from stratalog.tier.work.archive_commands import claim_archive
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.garbage_collection import GarbageOptions, collect, collect_leases, collect_probes
from stratalog.wire.errors import Unknown

US = Claimant(0, 3, bytes([1] * 16))
GRACE = 1000
HOUR = 3_600_000


class Uploads(StoreWrapper):
    """A store with unfinished multipart uploads."""

    def __init__(self, inner):
        super().__init__(inner)
        self.open = {}

    def list_uploads(self, prefix):
        """Those of the test."""
        return iter([one for one in self.open.values() if one.key.startswith(prefix)])

    def abort_upload(self, key, upload_id):
        """Gone."""
        del self.open[upload_id]


class World:
    """A bucket with one archive, its orphans, and a clock."""

    def __init__(self, log_bytes):
        self.now_ms = HOUR
        self.inner = MemoryStore("memory:gc", clock_ms=lambda: self.now_ms)
        self.store = Uploads(self.inner)
        self.partition = log_bytes.partition
        segments = [log_bytes.segment(a, 10) for a in range(0, 400, 100)]
        self.manifest = archive_log(self.inner, self.partition, segments, now_ms=1, claimant=US)
        self.describe("live")

    def describe(self, state):
        """``topic.json``."""
        self.inner.put(topic_key(self.partition.topic, self.partition.topic_id), json.dumps({"state": state}).encode())

    def orphan(self, epoch, base=400):
        """An object that was never committed."""
        key = self.partition.segment_key(base, base + 100, epoch, bytes([epoch] * 16))
        self.inner.put(key, b"never committed")
        return key

    def gc(self, *, apply=False, topics=None, store=None, after_ms=GRACE + SKEW_MS + 1):
        """One run, some time later; the partition's report."""
        self.now_ms += after_ms
        return list(collect(store or self.store, GarbageOptions(self.now_ms, GRACE, apply), topics))

    def listed(self):
        """Everything below the partition."""
        return {info.key for info in self.inner.list(self.partition.prefix)}


@pytest.fixture
def world(log_bytes):
    """Four archived objects under epoch 3."""
    return World(log_bytes)


def test_a_clean_bucket_has_no_garbage(world):
    """And nothing is changed by looking, nor by removing nothing."""
    before = world.listed()
    for apply in (False, True):
        (found,) = world.gc(apply=apply)
        assert (found.garbage, found.uploads, found.problem, found.remark) == ([], [], "", "")
        assert found.kept == {Verdict.NAMED: 5}
    assert world.listed() == before


def test_only_leftovers_of_earlier_leaders_go(world):
    """By default nothing does; those of the claimed epoch may still be committed, until another writer claims."""
    old, current = world.orphan(2), world.orphan(3)
    (found,) = world.gc()
    assert [info.key for info in found.garbage] == [old]
    assert found.kept[Verdict.CURRENT] == 1
    assert {old, current} <= world.listed()
    world.gc(apply=True, after_ms=0)
    assert old not in world.listed()
    claim_archive(world.inner, Claim(world.partition, replace_epoch(4), world.now_ms, 0))
    world.gc(apply=True, after_ms=0)
    assert current not in world.listed()
    assert {entry.key for entry in world.manifest.entries} <= world.listed()


def replace_epoch(epoch):
    """The leader after us."""
    return Claimant(0, epoch, bytes([9] * 16))


def test_a_young_object_waits(world):
    """The grace, and the skew of clocks on top of it."""
    world.orphan(2)
    (found,) = world.gc(after_ms=GRACE + SKEW_MS)
    assert found.kept[Verdict.YOUNG] == 1
    assert found.garbage == []


def test_the_manifest_is_read_after_the_listing(world):
    """Objects that are committed in between are named by what is read then."""
    counting = CountingStore(world.store)
    world.gc(store=counting)
    order = [one.operation for one in counting.requests if one.key.startswith(world.partition.prefix)]
    assert order.index("list") < order.index("get")


def test_pages_trash_and_pages_in_the_trash_are_named(world):
    """No object that a manifest leads to is garbage, however far; a page that no manifest names is."""
    entries = world.manifest.entries
    ref = page_ref(world.partition, entries[:2], page_to_bytes(world.partition, entries[:2]), 2)
    world.inner.put(ref.key, page_to_bytes(world.partition, entries[:2]))
    stray = world.partition.page_key(0, 100, 1)
    world.inner.put(stray, b"a spill that was not committed")
    change_manifest(
        world.inner, world.partition, lambda m: replace(m, pages=(ref,), entries=entries[2:], seq=m.seq + 1)
    )
    change_manifest(
        world.inner, world.partition, lambda m: set_log_start(m, US, 300, now_ms=2, reason="deleted records")
    )
    claim_archive(world.inner, Claim(world.partition, replace_epoch(4), world.now_ms, 0))
    (found,) = world.gc(apply=True)
    assert [info.key for info in found.garbage] == [stray]
    assert {ref.key, *(entry.key for entry in entries)} <= world.listed()
    assert found.trash_count == 2


def test_a_page_that_cannot_be_read_stops_the_partition(world):
    """Its other names are unknown: no object is judged, and the reason is reported."""
    entries = world.manifest.entries
    ref = page_ref(world.partition, entries[:2], page_to_bytes(world.partition, entries[:2]), 2)
    claim_archive(world.inner, Claim(world.partition, replace_epoch(4), world.now_ms, 0))
    change_manifest(
        world.inner, world.partition, lambda m: replace(m, pages=(ref,), entries=entries[2:], seq=m.seq + 1)
    )
    before = world.listed()
    (found,) = world.gc(apply=True)
    assert ref.key in found.problem
    assert world.listed() == before


def test_an_object_that_a_cut_has_copied_stays(world):
    """Also where the manifest was made anew and has forgotten it."""
    copied = world.manifest.entries[0]
    raw, _ = world.inner.get(world.partition.manifest_key)
    world.inner.put(cut_manifest_key("c", 5, "5-cut", world.partition), raw)
    world.inner.put(cut_key("c", 5, "5-cut"), b"{}")
    other = world.partition._replace(partition=7)
    world.inner.put(cut_manifest_key("c", 5, "5-cut", other), b"of another partition")
    change_manifest(
        world.inner, world.partition, lambda m: replace(m, entries=m.entries[1:], log_start_offset=100, seq=m.seq + 1)
    )
    claim_archive(world.inner, Claim(world.partition, replace_epoch(4), world.now_ms, 0))
    (found,) = world.gc(apply=True)
    assert found.garbage == []
    assert copied.key in world.listed()
    world.inner.delete_many([cut_manifest_key("c", 5, "5-cut", world.partition)])
    assert [info.key for info in world.gc(apply=True)[0].garbage] == [copied.key]


def test_old_unfinished_uploads_are_aborted(world):
    """Young ones may be under way."""
    key = world.partition.segment_key(400, 500, 3, bytes(16))
    world.store.open = {"old": UploadInfo(key, "old", world.now_ms)}
    world.now_ms += GRACE + SKEW_MS + 1
    world.store.open["new"] = UploadInfo(key, "new", world.now_ms)
    (found,) = world.gc(after_ms=0)
    assert [one.upload_id for one in found.uploads] == ["old"]
    assert set(world.store.open) == {"old", "new"}
    world.gc(apply=True, after_ms=0)
    assert set(world.store.open) == {"new"}


def test_an_unknown_folder_is_only_reported(world):
    """A folder without a manifest, a topic without a description, and one whose broker is at it."""
    (found,) = world.gc()
    assert found.remark == ""
    world.inner.delete_many([topic_key(world.partition.topic, world.partition.topic_id)])
    assert "no broker has described" in world.gc()[0].remark
    world.describe("deleted")
    change_manifest(world.inner, world.partition, lambda m: replace(m, deleted_ms=5, seq=m.seq + 1))
    assert "its broker removes" in world.gc()[0].remark
    world.inner.delete_many([world.partition.manifest_key])
    before = world.listed()
    (found,) = world.gc(apply=True)
    assert "is missing" in found.problem
    assert world.listed() == before


def test_topics_are_chosen_by_name(world):
    """The others are not even listed; a name that nothing has is an error."""
    with pytest.raises(Unknown, match="topic another is not in the bucket"):
        world.gc(topics=["another", world.partition.topic], apply=True)
    assert len(world.gc(topics=[world.partition.topic])) == 1


def test_leases_that_ran_out_long_ago_go(world):
    """The others protect something, or may by another clock."""
    write_lease(world.inner, bytes(16), 1000, world.now_ms)
    options = GarbageOptions(world.now_ms + 1000 + SKEW_MS + GRACE, GRACE, apply=True)
    assert collect_leases(world.inner, options) == 0
    options = replace(options, now_ms=options.now_ms + 1, apply=False)
    assert collect_leases(world.inner, options) == 1
    assert len(list_leases(world.inner)) == 1
    assert collect_leases(world.inner, replace(options, apply=True)) == 1
    assert list_leases(world.inner) == []


def test_objects_of_broken_probes_go(world):
    """A broker was killed at its start. A probe that is under way is young."""
    store = world.inner
    store.put("stratalog-probe/0123/race-0", b"left")
    (left,) = store.list("stratalog-probe/")
    options = GarbageOptions(left.modified_ms + SKEW_MS + GRACE, GRACE, apply=True)
    assert collect_probes(store, options) == 0
    options = replace(options, now_ms=options.now_ms + 1, apply=False)
    assert collect_probes(store, options) == 1
    assert collect_probes(store, replace(options, apply=True)) == 1
    assert list(store.list("stratalog-probe/")) == []
