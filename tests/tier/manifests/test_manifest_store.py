from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.documents.json import DOCUMENT_BYTES_MAX
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests import manifest_store
from stratalog.tier.manifests.json import predecessor_hash, to_bytes
from stratalog.tier.manifests.manifest import (
    COPY,
    LOG_START,
    REPAIR,
    REWIND,
    Claimant,
    Manifest,
    ManifestFenced,
    ManifestFull,
    TrashEntry,
    Uploaded,
    claim,
    commit,
    successor,
)
from stratalog.tier.manifests.manifest_store import ManifestContended, change_manifest, check_size, read_manifest
from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.remembering_store import RememberingStore
from stratalog.tier.stores.store import StoreUnavailable
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.wire.errors import Corrupt

ONE = Claimant(0, 1, bytes([1] * 16))
TWO = Claimant(0, 2, bytes([2] * 16))


class Meddling:
    """A store that runs ``before`` ahead of the next writes, and can lose the replies of writes that were made."""

    def __init__(self, store, before=(), lose_replies=0):
        self._store = store
        self._before = list(before)
        self._lose_replies = lose_replies
        self.writes = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def _write(self, operation, *args, **kwargs):
        self.writes += 1
        if self._before:
            self._before.pop(0)()
        version = getattr(self._store, operation)(*args, **kwargs)
        if self._lose_replies:
            self._lose_replies -= 1
            raise StoreUnavailable(operation, args[0], "memory:", "the reply was lost")
        return version

    def put_if_absent(self, *args, **kwargs):
        return self._write("put_if_absent", *args, **kwargs)

    def compare_and_swap(self, *args, **kwargs):
        return self._write("compare_and_swap", *args, **kwargs)


def claiming(claimant):
    """The transition of a claim."""
    return lambda manifest: claim(manifest, claimant, now_ms=5)


def test_a_partition_without_a_manifest_is_empty(memory_store, log_bytes):
    """Reading creates nothing."""
    assert read_manifest(memory_store, log_bytes.partition).manifest == Manifest(log_bytes.partition)
    assert list(memory_store.list("")) == []


def test_each_manifest_names_the_hash_of_its_predecessor(memory_store, log_bytes):
    """The chain begins empty and can be followed."""
    first = change_manifest(memory_store, log_bytes.partition, claiming(ONE))
    second = change_manifest(memory_store, log_bytes.partition, claiming(TWO))
    assert first.manifest.prev_sha256 == ""
    assert second.manifest.prev_sha256 == predecessor_hash(first.raw)
    assert read_manifest(memory_store, log_bytes.partition) == second


def test_a_transition_with_nothing_to_do_writes_nothing(memory_store, log_bytes):
    """A repeated claim costs one read."""
    change_manifest(memory_store, log_bytes.partition, claiming(ONE))
    meddling = Meddling(memory_store)
    change_manifest(meddling, log_bytes.partition, claiming(ONE))
    assert meddling.writes == 0


@pytest.mark.parametrize("exists", [False, True])
def test_a_lost_race_applies_the_transition_to_what_is_there_now(memory_store, log_bytes, exists):
    """At birth and later: the change is computed again from the winner's manifest, never written over it."""
    if exists:
        change_manifest(memory_store, log_bytes.partition, claiming(ONE._replace(leader_epoch=0)))
    meddling = Meddling(memory_store, [lambda: change_manifest(memory_store, log_bytes.partition, claiming(ONE))])
    found = change_manifest(meddling, log_bytes.partition, claiming(TWO)).manifest
    assert (found.claimant, meddling.writes) == (TWO, 2)
    assert [note.leader_epoch for note in found.commits][-2:] == [1, 2]


def test_a_race_lost_to_a_higher_claim_fences(memory_store, log_bytes):
    """The loser learns it from the manifest it reads back."""
    meddling = Meddling(memory_store, [lambda: change_manifest(memory_store, log_bytes.partition, claiming(TWO))])
    with pytest.raises(ManifestFenced):
        change_manifest(meddling, log_bytes.partition, claiming(ONE))


def test_a_commit_whose_reply_was_lost_is_recognised(memory_store, log_bytes, make_entry):
    """Repeated, it finds its own uuids and adds nothing twice."""
    change_manifest(memory_store, log_bytes.partition, claiming(ONE))
    uploads = [Uploaded(make_entry(0, 10), ONE)]

    def committing(manifest):
        return commit(manifest, ONE, uploads, now_ms=9)

    meddling = Meddling(memory_store, lose_replies=1)
    with pytest.raises(StoreUnavailable):
        change_manifest(meddling, log_bytes.partition, committing)
    found = change_manifest(meddling, log_bytes.partition, committing).manifest
    assert (len(found.entries), meddling.writes) == (1, 1)


def test_races_without_end_are_given_up(memory_store, log_bytes):
    """After sixteen rounds the caller gets an error that says to come back later."""
    epochs = iter(range(1, 100))

    def meddle():
        change_manifest(memory_store, log_bytes.partition, claiming(Claimant(0, next(epochs), bytes(16))))

    meddling = Meddling(memory_store, [meddle] * 20)
    with pytest.raises(ManifestContended):
        change_manifest(meddling, log_bytes.partition, claiming(Claimant(1, 0, bytes(16))))
    assert meddling.writes == 16


def test_a_manifest_in_the_wrong_place_is_corrupt(memory_store, log_bytes):
    """One that belongs to another partition is not taken for ours."""
    stored = change_manifest(memory_store, log_bytes.partition, claiming(ONE))
    elsewhere = PartitionId("other", bytes(16), 0)
    memory_store.put(elsewhere.manifest_key, stored.raw)
    with pytest.raises(Corrupt, match="belongs to orders-3"):
        read_manifest(memory_store, elsewhere)


def test_a_change_begins_with_the_manifest_that_is_remembered(memory_store, log_bytes):
    """No read before it; the swap checks that no other writer was faster."""
    counting = CountingStore(memory_store)
    store = RememberingStore(counting)
    change_manifest(store, log_bytes.partition, claiming(ONE))
    before = counting.count("get")
    changed = change_manifest(store, log_bytes.partition, claiming(TWO))
    assert counting.count("get") == before
    assert read_manifest(memory_store, log_bytes.partition) == changed


def test_a_remembered_manifest_that_is_old_changes_nothing(memory_store, log_bytes):
    """Another writer was there meanwhile: the swap fails, and the change is applied to what is stored."""
    store = RememberingStore(memory_store)
    change_manifest(store, log_bytes.partition, claiming(ONE))
    change_manifest(memory_store, log_bytes.partition, claiming(TWO))
    with pytest.raises(ManifestFenced):
        change_manifest(store, log_bytes.partition, claiming(ONE))
    three = Claimant(0, 3, bytes([3] * 16))
    changed = change_manifest(store, log_bytes.partition, claiming(three))
    assert changed.manifest.claimant == three
    assert changed.manifest.prev_sha256 != ""
    assert read_manifest(memory_store, log_bytes.partition) == changed


def test_a_refusal_of_a_remembered_manifest_is_asked_again(memory_store, log_bytes):
    """A change that an old manifest refuses or does not need may be right by the one that is stored."""
    store = RememberingStore(memory_store)
    change_manifest(store, log_bytes.partition, claiming(ONE))
    found = change_manifest(memory_store, log_bytes.partition, claiming(TWO)).manifest

    def only_after_two(manifest):
        if manifest != found:
            raise ManifestFenced("not yet")
        return claim(manifest, Claimant(0, 3, bytes([3] * 16)), now_ms=6)

    assert change_manifest(store, log_bytes.partition, only_after_two).manifest.claimant.leader_epoch == 3
    change_manifest(memory_store, log_bytes.partition, claiming(Claimant(0, 4, bytes([4] * 16))))
    unchanged = change_manifest(store, log_bytes.partition, lambda manifest: manifest)
    assert unchanged.manifest.claimant.leader_epoch == 4


def test_a_remembered_manifest_that_came_damaged_is_read_again(memory_store, log_bytes):
    """A bit that flipped on the way stays in memory until the next look, and does no harm."""
    faulty = FaultyStore(memory_store)
    store = RememberingStore(faulty)
    change_manifest(store, log_bytes.partition, claiming(ONE))
    faulty.set_rules([FaultRule(Fault.CORRUPT, "get", count=READS_MAX)])
    with pytest.raises(Corrupt):
        read_manifest(store, log_bytes.partition)
    assert change_manifest(store, log_bytes.partition, claiming(TWO)).manifest.claimant == TWO


def test_no_manifest_is_stored_that_no_reader_would_take(memory_store, log_bytes, monkeypatch):
    """Its archive would be lost at once. Room is left for retention, and more for what empties the trash."""
    assert manifest_store._BYTES_MAX <= DOCUMENT_BYTES_MAX
    for limit in ("_BYTES_MAX", "_BYTES_MAX_OF_NEED", "_BYTES_MAX_OF_GROWTH"):  # a tenth of the limits, of the work too
        monkeypatch.setattr(manifest_store, limit, getattr(manifest_store, limit) // 10)
    partition = log_bytes.partition
    change_manifest(memory_store, partition, claiming(ONE))

    def trash(count, kind="compact"):
        key = partition.segment_key(0, 1, 1, bytes(16))
        items = tuple(TrashEntry(key, 10**8, 1, number, "compact", 10**12) for number in range(count))
        return lambda manifest: successor(replace(manifest, trash=items), kind, 5)

    with pytest.raises(ManifestFull, match=r"10000 objects wait in its trash.*stratalog cut list"):
        change_manifest(memory_store, partition, trash(10_000))
    assert read_manifest(memory_store, partition).manifest.trash == ()
    change_manifest(memory_store, partition, trash(7_000))
    for count, kind in ((8_500, LOG_START), (9_300, "empty trash")):
        with pytest.raises(ManifestFull):
            change_manifest(memory_store, partition, trash(count))
        change_manifest(memory_store, partition, trash(count, kind))
        assert len(read_manifest(memory_store, partition).manifest.trash) == count
    assert change_manifest(memory_store, partition, claiming(TWO)).manifest.claimant == TWO


@pytest.mark.parametrize("kind", [COPY, REPAIR, REWIND])
def test_a_manifest_that_is_nearly_full_may_be_repaired_and_taken_back(memory_store, log_bytes, kind):
    """It would stay damaged: no broker empties the trash of an archive that cannot be read, or has no cluster."""
    key = log_bytes.partition.segment_key(0, 1, 1, bytes(16))
    items = tuple(TrashEntry(key, 10**8, 1, number, "compact", 10**12) for number in range(85_000))
    full = replace(Manifest(log_bytes.partition), trash=items)
    changed = successor(full, kind, 5)
    check_size(changed, to_bytes(changed))
