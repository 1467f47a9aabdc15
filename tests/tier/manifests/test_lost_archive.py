"""An archive that is known to exist is not begun anew where a bucket does not show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.bucket.trash import TIERING_OFF, begin_again, trash_archive
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.lost_archive import NO_BEGIN, check_not_lost, may_end_earlier
from stratalog.tier.manifests.manifest import REPAIR, Claimant, Manifest, ManifestFenced, ManifestLost, claim, successor
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.commands import Claim, Commit, LostReport, ReadBack, SetLogStart
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import NotFound
from stratalog.tier.work.archive_commands import claim_archive, commit_uploads, read_back
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker

PARTITION = PartitionId("t", bytes(16), 0)
US = Claimant(0, 2, bytes([2] * 16))


def claim_of(archived_end, claimant=US):
    """A claim that knows of an archive up to there."""
    return Claim(PARTITION, claimant, 10, 944, archived_end=archived_end)


def test_an_empty_bucket_gets_no_manifest_for_an_archive_that_exists_elsewhere(memory_store):
    """No object is written; without such knowledge the archive begins."""
    with pytest.raises(ManifestLost, match=r"is missing, but 1000 offsets.*tier adopt .*--give-up t$"):
        claim_archive(memory_store, claim_of(1000))
    assert list(memory_store.list("")) == []
    assert claim_archive(memory_store, claim_of(0)).view.remote_end == 944


def test_no_manifest_is_made_for_a_log_that_begins_before_its_disk(memory_store, log_bytes):
    """Its leader may not know of the archive; one that is there is claimed."""
    lost = Claim(PARTITION, US, 10, NO_BEGIN)
    with pytest.raises(ManifestLost, match=r"is missing, but the log begins before.*tier adopt .*--give-up t$"):
        claim_archive(memory_store, lost)
    assert list(memory_store.list("")) == []
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=US)
    newer = Claimant(0, 3, bytes([3] * 16))
    claimed = claim_archive(memory_store, replace(lost, partition=partition, claimant=newer)).view
    assert (claimed.claimant, claimed.log_start_offset, claimed.remote_end) == (newer, 0, 100)


def test_a_manifest_that_ends_too_early_is_not_claimed(memory_store, log_bytes):
    """It is of an older copy of the bucket: its claim stays as it is."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=US)
    newer = Claimant(0, 3, bytes([3] * 16))
    with pytest.raises(ManifestLost, match="ends at offset 100, but 101"):
        claim_archive(memory_store, Claim(partition, newer, 10, 0, archived_end=101))
    assert read_manifest(memory_store, partition).manifest.claimant == US
    assert claim_archive(memory_store, Claim(partition, newer, 10, 0, archived_end=100)).view.claimant == newer


@pytest.mark.parametrize("later", [0, 1, -1])
def test_a_checkpoint_that_its_own_manifest_contradicts_gives_no_archive_up(memory_store, log_bytes, later):
    """One digit had changed, and the advice was to give up an archive that was whole."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=US)
    manifest = read_manifest(memory_store, partition).manifest
    known = Claim(partition, US, 10, 0, archived_end=900, archived_seq=manifest.seq - later)
    with pytest.raises(ManifestLost, match=r"ends at offset 100.* but .*900 offsets") as lost:
        claim_archive(memory_store, known)
    advice = "--give-up" if later < 0 else "move remote-log-checkpoint out of the log directory"
    assert advice in str(lost.value)
    assert ("--give-up" in str(lost.value)) == (later < 0)


@pytest.mark.parametrize("reason", ["repair", "deleted"])
def test_an_archive_may_end_earlier_for_a_reason(memory_store, log_bytes, reason):
    """A repair took ranges out while the broker was stopped, or the archive is on its way out."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=US)

    def transition(manifest):
        changed = replace(manifest, deleted_ms=7) if reason == "deleted" else manifest
        return successor(changed, REPAIR if reason == "repair" else "delete", 7)

    change_manifest(memory_store, partition, transition)
    newer = Claimant(0, 3, bytes([3] * 16))
    assert claim_archive(memory_store, Claim(partition, newer, 10, 0, archived_end=900)).view.may_end_earlier(10**6)


def begun_again(manifest):
    """Switched off, gone, and begun again at offset 40."""
    return begin_again(trash_archive(manifest, US, now_ms=7, reason=TIERING_OFF), US, 40, now_ms=8)


def test_an_archive_that_was_begun_again_ends_earlier_only_for_what_was_known_before(memory_store, log_bytes):
    """A broker that was away then may not call it lost; a bucket that went back in time since is found out."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=US)
    known_seq = read_manifest(memory_store, partition).manifest.seq
    change_manifest(memory_store, partition, begun_again)
    for epoch in range(3, 40):  # of the latest changes the manifest forgets the oldest
        change_manifest(memory_store, partition, lambda one, at=epoch: claim(one, Claimant(0, at, US.uuid), now_ms=9))
    manifest = read_manifest(memory_store, partition).manifest
    newer = Claimant(0, 40, bytes([3] * 16))
    with pytest.raises(ManifestLost, match=r"ends at offset 40 after .* 100 offsets"):
        claim_archive(memory_store, Claim(partition, newer, 10, 0, archived_end=100, archived_seq=manifest.seq))
    view = claim_archive(memory_store, Claim(partition, newer, 10, 0, archived_end=100, archived_seq=known_seq)).view
    assert view.may_end_earlier(known_seq)
    assert not view.may_end_earlier(manifest.seq)


def test_a_newer_owner_is_reported_before_a_loss(memory_store, log_bytes):
    """A takeover that went back to a cut ends the old leader, whatever it knows."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=Claimant(1, 0, bytes([9] * 16)))
    with pytest.raises(ManifestFenced):
        claim_archive(memory_store, Claim(partition, US, 10, 0, archived_end=900))


def test_every_change_under_a_claim_reports_a_manifest_that_vanished():
    """Commit, log start and read-back: none makes a manifest, each says what happened."""
    store = MemoryStore()
    worker = Worker(store)
    for command in (
        Commit(PARTITION, US, (), 10),
        SetLogStart(PARTITION, US, 5, 10, "retention"),
        ReadBack(PARTITION, 0, 10, 0, US),
    ):
        assert isinstance(worker.execute(command), LostReport)
    with pytest.raises(ManifestLost):
        commit_uploads(store, Commit(PARTITION, US, (), 10))
    with pytest.raises(ManifestLost):
        read_back(store, ReadBack(PARTITION, 0, 10, 0, US))
    with pytest.raises(NotFound):
        store.get(PARTITION.manifest_key)


def test_a_manifest_that_went_back_behind_a_claim_is_reported_as_lost(memory_store, log_bytes):
    """The bucket was put back to an older state under a running leader."""
    partition = log_bytes.partition
    archive_log(memory_store, partition, [log_bytes.segment(0, 10)], now_ms=5, claimant=US)
    newer = Claimant(0, 3, bytes([3] * 16))
    assert isinstance(Worker(memory_store).execute(Commit(partition, newer, (), 10)), LostReport)


@given(
    seen=st.integers(0, 50),
    known=st.integers(0, 50),
    deleted=st.booleans(),
    kinds=st.lists(st.sampled_from(["claim", "commit", REPAIR, "log start"]), max_size=4),
)
def test_a_claim_never_lowers_what_is_known(seen, known, deleted, kinds):
    """A claim passes only if the manifest reaches the known offset, or says why it may end earlier."""
    manifest = claim(Manifest(PARTITION), Claimant(0, 1, bytes(16)), now_ms=0, start_offset=seen)
    for kind in kinds:
        manifest = successor(manifest, kind, 0)
    manifest = replace(manifest, deleted_ms=1 if deleted else -1)
    try:
        check_not_lost(manifest, known)
    except ManifestLost:
        assert known > seen
        assert not deleted
        assert REPAIR not in kinds
    else:
        assert known <= seen or may_end_earlier(manifest, 0)
