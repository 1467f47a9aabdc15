"""Cuts made, read and deleted in a bucket, also where the maker is killed on its way."""

from __future__ import annotations

import pytest

from stratalog.tier.bucket.cuts import CutState
from stratalog.tier.bucket.trash import leaving
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.commands import ReadCut
from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_projection
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import (
    CutUnknown,
    create_cut,
    cut_manifest,
    dangling_pins,
    delete_cut,
    drop_pins,
    end_at,
    find_cuts,
    read_cut,
    read_cut_of,
)
from stratalog.tier.work.cut_groups import read_cut_groups
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt, Invalid

A, B = b"\1" * 16, b"\2" * 16
HOUR_MS = 3_600_000


def archive(store, topic, topic_id, number, values, base=0):
    """One object of records a second apart."""
    records = [Record(base + at, 1000 * (base + at), None, value) for at, value in enumerate(values)]
    archive_log(store, PartitionId(topic, topic_id, number), [bytes(build_batch(records))], now_ms=1)


@pytest.fixture
def store():
    """Two topics: ``a`` of two partitions, one of them never archived, and ``b``."""
    store = MemoryStore("memory:cuts")
    archive(store, "a", A, 0, [b"1", b"2", b"3"])
    archive(store, "b", B, 0, [b"x"])
    for name, topic_id, count in (("a", A, 2), ("b", B, 1)):
        write_projection(store, topic_projection(name, topic_id, partitions=count, configs={"k": "v"}, cluster_id="c"))
    return store


def manifest_of(store, topic="a", topic_id=A, number=0):
    """The live manifest."""
    return read_manifest(store, PartitionId(topic, topic_id, number)).manifest


class Killed(Exception):
    """The process ends here."""


class KilledStore(StoreWrapper):
    """Ends its user before the request numbered ``at`` that writes; or behind it, with its reply lost."""

    def __init__(self, inner, at, *, behind):
        super().__init__(inner)
        self.left, self.behind = at, behind

    def _around(self, call, run):
        if call.operation in {"get", "head", "list", "get_range", "get_suffix"}:
            return run()
        self.left -= 1
        if self.left < 0:
            if self.left == -1 and self.behind:
                run()
            raise Killed
        return run()


def test_a_cut_is_read_as_the_archive_was(store):
    """Ends and topics; what comes later does not belong to it."""
    made = create_cut(store, "one", now_ms=7)
    archive(store, "a", A, 0, [b"4"], base=3)
    archive(store, "a", A, 1, [b"new"])
    cut = read_cut(store, "one")
    assert cut == made == read_cut(store, cut.cut_id)
    assert cut.state is CutState.COMPLETE
    assert [(one.name, one.partition_count, one.configs) for one in cut.topics] == [
        ("a", 2, {"k": "v"}),
        ("b", 1, {"k": "v"}),
    ]
    assert [(one.log_start_offset, one.end_offset, one.seq > 0) for one in cut.partitions] == [
        (0, 3, True),
        (0, 0, False),
        (0, 1, True),
    ]
    assert cut_manifest(store, cut, cut.partitions[0]).remote_end == 3
    assert cut_manifest(store, cut, cut.partitions[1]).entries == ()
    assert manifest_of(store).remote_end == 4


def test_a_reader_of_one_topic_gets_its_part_of_a_cut(store):
    """The whole of a large one would take its loop a second to take in, every minute."""
    cut = create_cut(store, "nightly", now_ms=7)
    read = read_cut_of(store, ReadCut("nightly", "b")).cut
    assert (read.cut_id, read.topics) == (cut.cut_id, (cut.topic("b"),))
    assert [one.partition for one in read.partitions] == [PartitionId("b", B, 0)]
    assert [one for one in cut.partitions if one.partition.topic == "b"] == list(read.partitions)
    with pytest.raises(CutUnknown, match="no complete cut 'nightly' has a topic c"):
        read_cut_of(store, ReadCut("nightly", "c"))


def test_a_cut_may_be_of_some_topics_and_end_at_a_time(store):
    """Before the first record of that time or later, inside a batch, too."""
    cut = create_cut(store, "early", now_ms=7, topics=["a"], end_of=end_at(1500))
    assert [one.end_offset for one in cut.partitions] == [2, 0]
    assert [pin.remote_end for pin in manifest_of(store).pins] == [2]
    assert create_cut(store, "late", now_ms=8, topics=["a"], end_of=end_at(10**9)).partitions[0].end_offset == 3
    assert manifest_of(store, "b", B).pins[0:] == ()


@pytest.mark.parametrize(
    ("name", "topics", "words"),
    [("one", (), "already"), ("2x", (), "cannot be the name"), ("two", ("zzz",), "not in the bucket")],
)
def test_a_cut_that_cannot_be_is_refused_and_leaves_nothing(store, name, topics, words):
    """A name that is taken or no name, a topic that is not there."""
    create_cut(store, "one", now_ms=7)
    before = [(each.key, each.version) for each in store.list("")]
    with pytest.raises(Invalid, match=words):
        create_cut(store, name, now_ms=8, topics=topics)
    assert [(each.key, each.version) for each in store.list("")] == before


def test_topics_of_two_clusters_make_no_cut(store):
    """Each gets its own."""
    write_projection(store, topic_projection("b", B, partitions=1, configs={}, cluster_id="other"))
    with pytest.raises(Invalid, match="of the clusters c, other"):
        create_cut(store, "one", now_ms=7)
    create_cut(store, "one", now_ms=7, topics=["a"])
    create_cut(store, "two", now_ms=8, topics=["b"])
    assert [found.cut.name for found in find_cuts(store)] == ["one", "two"]
    with pytest.raises(Invalid, match="no topics"):
        create_cut(MemoryStore("memory:none"), "one", now_ms=7)


def test_objects_of_a_cut_stay_whatever_retention_says(store):
    """The object waits in the trash, and the copy still names it; when the cut is gone it may leave."""
    cut = create_cut(store, "one", now_ms=7)
    archive(store, "a", A, 0, [b"4"], base=3)
    partition = cut.partitions[0].partition
    claimant = manifest_of(store).claimant
    change_manifest(store, partition, lambda m: set_log_start(m, claimant, 3, now_ms=8, reason="retention"))
    archive(store, "a", A, 0, [b"5"], base=4)  # dates the trash
    later_ms = 100 * HOUR_MS
    assert [item.key for item in manifest_of(store).trash]
    assert leaving(manifest_of(store), now_ms=later_ms, grace_ms=HOUR_MS, retention=None) == ()
    copy = cut_manifest(store, cut, cut.partitions[0])
    assert store.head(copy.entries[0].key)
    assert delete_cut(store, cut, now_ms=9) == 2
    assert [item.key for item in leaving(manifest_of(store), now_ms=later_ms, grace_ms=HOUR_MS, retention=None)] == [
        copy.entries[0].key
    ]
    assert list(store.list("clusters/c/cuts/")) == []
    with pytest.raises(CutUnknown, match="no cut 'one'"):
        read_cut(store, "one")


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("at", range(6))
def test_a_maker_that_is_killed_leaves_what_delete_recognises(store, at, behind):
    """Before and behind each of its writes: unfinished, not readable, and deleted without a trace."""
    with pytest.raises(Killed):
        create_cut(KilledStore(store, at, behind=behind), "one", now_ms=7)
    found = [each.cut for each in find_cuts(store)]
    if not found:
        assert (at, behind) == (0, False)
    for cut in found:
        if cut.state is CutState.COMPLETE:
            assert (at, behind) == (5, True)
            continue
        assert cut.state is CutState.CREATING
        with pytest.raises(Invalid, match="cannot be read"):
            cut_manifest(store, cut, cut.partitions[0])
        with pytest.raises(Invalid, match="already, creating"):
            create_cut(store, "one", now_ms=8)
    for cut in found:
        delete_cut(store, cut, now_ms=9)
    assert manifest_of(store).pins == manifest_of(store, "b", B).pins == ()
    assert list(store.list("clusters/")) == []
    assert dangling_pins(store) == {}
    assert create_cut(store, "one", now_ms=10).state is CutState.COMPLETE


def test_committed_offsets_are_made_and_deleted_with_the_cut(store):
    """Killed before or behind any write, too: nothing is left when it has been deleted."""
    write_projection(store, group_copy_projection("c", "g", [OffsetCopy("a", A, 0, 2)]))
    made = create_cut(store, "one", now_ms=7)
    assert made == read_cut(store, "one")
    assert [one.group for one in read_cut_groups(store, made)] == ["g"]
    delete_cut(store, made, now_ms=8)
    for at in range(7):
        for behind in (False, True):
            with pytest.raises(Killed):
                create_cut(KilledStore(store, at, behind=behind), "two", now_ms=9)
            for found in find_cuts(store):
                delete_cut(store, found.cut, now_ms=10)
            assert list(store.list("clusters/c/cuts/")) == []


@pytest.mark.parametrize("at", range(5))
def test_a_deletion_that_is_killed_goes_on_when_it_is_called_again(store, at):
    """The rest is no cut any more, and goes with the next call."""
    create_cut(store, "one", now_ms=7)
    with pytest.raises(Killed):
        delete_cut(KilledStore(store, at, behind=False), read_cut(store, "one"), now_ms=8)
    cut = read_cut(store, "one")
    assert cut.state is (CutState.DELETING if at else CutState.COMPLETE)
    delete_cut(store, cut, now_ms=9)
    assert manifest_of(store).pins == ()
    assert list(store.list("clusters/")) == []


def test_pins_without_a_document_are_found_and_dropped(store):
    """An operator removed it by hand."""
    cut = create_cut(store, "one", now_ms=7)
    store.delete_many([cut.key])
    held = dangling_pins(store)
    assert {name: [str(one) for one in held[name]] for name in held} == {cut.cut_id: ["a-0", "b-0"]}
    assert drop_pins(store, cut.cut_id, held[cut.cut_id], now_ms=8) == 2
    assert dangling_pins(store) == {}


class Between(StoreWrapper):
    """Has something done when the first manifest is about to be read."""

    act = None

    def get(self, key):
        if self.act is not None and key.endswith("/manifest.json"):
            act, self.act = self.act, None
            act()
        return self.inner.get(key)


def test_a_cut_that_is_made_meanwhile_has_its_document(store):
    """Its pins would be taken for those of a cut without one, and could be taken away."""
    looking = Between(store)
    looking.act = lambda: create_cut(store, "one", now_ms=7)
    assert dangling_pins(looking) == {}
    assert manifest_of(store).pins


def test_a_partition_that_has_lost_its_manifest_makes_no_cut(store):
    """It looks like one that was never archived. The cut was complete, and held none of its objects."""
    store.delete_many([PartitionId("a", A, 0).manifest_key])
    with pytest.raises(Corrupt, match=r"manifest\.json is missing, and objects of the partition are there"):
        create_cut(store, "one", now_ms=7)
    assert create_cut(store, "two", now_ms=8, topics=["b"]).partitions[0].end_offset == 1


class ArchivedBehind(StoreWrapper):
    """Has a partition archived for the first time when its manifest has just not been found."""

    name = PartitionId("a", A, 1)
    is_there = False

    def get(self, key):
        try:
            return self.inner.get(key)
        finally:
            if key == self.name.manifest_key and not self.is_there:
                self.is_there = True
                archive(self.inner, "a", A, 1, [b"9"])


def test_a_partition_that_is_archived_for_the_first_time_meanwhile_is_in_the_cut(store):
    """Its objects are seen, and then its manifest."""
    assert create_cut(ArchivedBehind(store), "one", now_ms=7).partitions[1].end_offset == 1


def test_damage_is_said(store):
    """A document and a copy that are not what they were; other cuts are found all the same."""
    one = create_cut(store, "one", now_ms=7)
    create_cut(store, "two", now_ms=8)
    copy = one.manifest_key(one.partitions[0].partition)
    store.put(copy, store.get(one.manifest_key(one.partitions[2].partition))[0])
    with pytest.raises(Corrupt, match="SHA-256"):
        cut_manifest(store, one, one.partitions[0])
    store.put(one.key, b"{")
    assert [(found.cut and found.cut.name, one.key in found.problem) for found in find_cuts(store)] == [
        (None, True),
        ("two", False),
    ]
    with pytest.raises(Corrupt, match="cannot be read"):
        read_cut(store, "one")
