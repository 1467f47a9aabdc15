from __future__ import annotations

import json

import pytest

from stratalog.tier.documents.keys import FORMAT_KEY
from stratalog.tier.manifests.manifest import Claimant, ManifestFenced, ManifestLost, NotClaimed
from stratalog.tier.messages.commands import Claim, ManifestRead, ManifestUnchanged, ReadBack, ReadManifest, SetLogStart
from stratalog.tier.objects.segment_upload import ObjectDiffers
from stratalog.tier.stores.store import NotFound
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.tier.work.archive_commands import claim_archive, move_log_start, read_back, read_view
from stratalog.tier.work.archive_writer import archive_log

US = Claimant(3, 1, bytes([1] * 16))


@pytest.fixture
def archive(memory_store, log_bytes):
    """Three archived segments under US."""
    segments = [log_bytes.segment(a, 10) for a in (0, 100, 200)]
    return archive_log(memory_store, log_bytes.partition, segments, now_ms=5, claimant=US)


def back(log_bytes, start=0, end=300, claimant=US, **options):
    """A read-back command."""
    return ReadBack(log_bytes.partition, start, end, options.pop("incarnation", 3), claimant, **options)


def test_a_first_claim_begins_the_archive_where_the_local_log_does(memory_store, log_bytes):
    """And names the cluster."""
    view = claim_archive(memory_store, Claim(log_bytes.partition, US, 10, 500, "cluster")).view
    assert (view.remote_start, view.remote_end, view.log_start_offset) == (500, 500, 500)


@pytest.mark.parametrize("left", ["objects", "copies"])
def test_a_lost_manifest_is_not_replaced_by_an_empty_one(memory_store, log_bytes, archive, left):
    """Objects without a manifest, or copies of it, mean that it was lost: the claim is refused, nothing is written."""
    memory_store.delete_many([log_bytes.partition.manifest_key])
    memory_store.put(log_bytes.partition.prefix + "note.txt", b"")
    if left == "copies":
        memory_store.put(log_bytes.partition.history_key(3, "writer"), b"")
        memory_store.delete_many([info.key for info in memory_store.list(log_bytes.partition.segments_prefix)])
    with pytest.raises(ManifestLost, match="manifest was lost"):
        claim_archive(memory_store, Claim(log_bytes.partition, US, 10, 300))
    with pytest.raises(NotFound):
        memory_store.get(log_bytes.partition.manifest_key)


def test_a_read_back_verifies_every_object_of_the_range(memory_store, log_bytes, archive):
    """Up to the end asked for, which may lie inside an entry; beyond the archive nothing is verified."""
    assert read_back(memory_store, back(log_bytes)).offset == 300
    assert read_back(memory_store, back(log_bytes, 0, 150)).offset == 150
    assert read_back(memory_store, back(log_bytes, 120, 400)).offset == 300
    assert read_back(memory_store, back(log_bytes, 0, 300, heads_max=2)).offset == 200


def test_a_missing_or_changed_object_is_not_verified(memory_store, log_bytes, archive):
    """Length and CRC-32C by HEAD (rule 4): the local copy then stays."""
    key = archive.entries[1].key
    data = bytearray(memory_store.get(key)[0])
    data[5] ^= 1
    memory_store.put(key, bytes(data))
    assert read_back(memory_store, back(log_bytes, 0, 100)).offset == 100
    with pytest.raises(ObjectDiffers):
        read_back(memory_store, back(log_bytes))
    memory_store.delete_many([key])
    with pytest.raises(NotFound):
        read_back(memory_store, back(log_bytes, 100, 200))


def test_a_read_back_needs_my_claim(memory_store, log_bytes, archive):
    """Neither a higher claim nor one of my own that did not land will do."""
    with pytest.raises(ManifestFenced):
        read_back(memory_store, back(log_bytes, claimant=US._replace(leader_epoch=0)))
    with pytest.raises(ManifestFenced):
        read_back(memory_store, back(log_bytes, claimant=US._replace(uuid=bytes(16))))
    with pytest.raises(NotClaimed):
        read_back(memory_store, back(log_bytes, claimant=US._replace(leader_epoch=2)))


def test_a_follower_evicts_by_its_own_clusters_archive_only(memory_store, log_bytes, archive):
    """It has no claim; the incarnation tells whether the archive is its cluster's (rule 4)."""
    assert read_back(memory_store, back(log_bytes, claimant=None)).offset == 300
    for incarnation in (2, 4):
        with pytest.raises(ManifestFenced, match="incarnation"):
            read_back(memory_store, back(log_bytes, claimant=None, incarnation=incarnation))


def test_a_read_back_of_nothing_verifies_nothing(memory_store, log_bytes):
    """Without a manifest a follower evicts nothing."""
    with pytest.raises(ManifestFenced):
        read_back(memory_store, back(log_bytes, claimant=None))
    assert read_back(memory_store, back(log_bytes, claimant=None, incarnation=-1)).offset == 0


def test_below_the_log_start_nothing_is_owed(memory_store, log_bytes, archive):
    """Entries removed by retention do not hold back the rest."""
    move_log_start(memory_store, SetLogStart(log_bytes.partition, US, 150, 9, "retention.ms"))
    assert read_back(memory_store, back(log_bytes)).offset == 300
    move_log_start(memory_store, SetLogStart(log_bytes.partition, US, 300, 9, "retention.ms"))
    assert read_back(memory_store, back(log_bytes)).offset == 300


def test_an_unchanged_manifest_is_not_read_again(memory_store, log_bytes, archive):
    """A HEAD is enough; after a change it is read."""
    first = read_view(memory_store, ReadManifest(log_bytes.partition))
    assert isinstance(first, ManifestRead)
    again = read_view(memory_store, ReadManifest(log_bytes.partition, first.view.version))
    assert again == ManifestUnchanged(first.view.version)
    move_log_start(memory_store, SetLogStart(log_bytes.partition, US, 150, 9, "retention.ms"))
    changed = read_view(memory_store, ReadManifest(log_bytes.partition, first.view.version, 300))
    assert (changed.view.log_start_offset, len(changed.view.entries)) == (150, 0)
    memory_store.delete_many([log_bytes.partition.manifest_key])
    assert read_view(memory_store, ReadManifest(log_bytes.partition, first.view.version)).view.seq == 0


@pytest.mark.parametrize("found", [{}, {"bucket_id": "another"}], ids=["no identity", "another"])
def test_no_archive_begins_in_another_bucket(memory_store, log_bytes, found):
    """A bucket that was swapped under a running broker: what began there would be evicted, and be gone with it."""
    memory_store.put(FORMAT_KEY, json.dumps(found).encode())
    with pytest.raises(ManifestLost, match="not the bucket that it was"):
        claim_archive(memory_store, Claim(log_bytes.partition, US, 10, 0, bucket_id="ours"))
    assert [info.key for info in memory_store.list("")] == [FORMAT_KEY]


def test_a_new_archive_costs_one_look_at_the_identity(memory_store, log_bytes):
    """A claim of one that is there costs none."""
    memory_store.put(FORMAT_KEY, b'{"bucket_id": "ours"}')
    store = CountingStore(memory_store)
    for epoch in (1, 2):
        claim_archive(store, Claim(log_bytes.partition, US._replace(leader_epoch=epoch), 10, 0, bucket_id="ours"))
    assert [one.key for one in store.requests].count(FORMAT_KEY) == 1
