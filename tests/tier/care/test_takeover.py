from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.care.restore_plan import PartitionState, read_bucket_state
from stratalog.tier.care.takeover import raise_incarnation, take_partition_over
from stratalog.tier.manifests.manifest import Claimant, Manifest, ManifestFenced, ManifestLost, claim
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.work.archive_writer import archive_log

MINE, OTHER = Claimant(3, 7, b"m" * 16, 1), Claimant(3, 7, b"o" * 16, 2)


def test_an_incarnation_is_raised_in_steps_and_once(log_bytes):
    """A manifest three incarnations behind takes three changes; a repetition changes nothing."""
    manifest = claim(Manifest(log_bytes.partition), Claimant(0, 7, bytes(16)), now_ms=1)
    raised = raise_incarnation(manifest, MINE, now_ms=2)
    assert (raised.claimant, raised.seq) == (MINE, manifest.seq + 3)
    assert raise_incarnation(raised, MINE, now_ms=3) is raised
    assert raise_incarnation(raised, MINE._replace(broker_id=5), now_ms=3) is raised


def test_an_archive_that_was_never_claimed_is_claimed(log_bytes):
    """So that the old cluster cannot begin it."""
    raised = raise_incarnation(Manifest(log_bytes.partition), MINE, now_ms=2)
    assert (raised.claimant, raised.remote_end) == (MINE, 0)
    with pytest.raises(ManifestFenced):
        claim(raised, Claimant(0, 99, bytes(16)), now_ms=3)


def test_one_of_two_restores_is_refused(log_bytes):
    """And so is one that comes after a later one."""
    raised = raise_incarnation(Manifest(log_bytes.partition), OTHER, now_ms=2)
    with pytest.raises(ManifestFenced, match="another restore"):
        raise_incarnation(raised, MINE, now_ms=3)
    with pytest.raises(ManifestFenced):
        raise_incarnation(raised, MINE._replace(incarnation=2), now_ms=3)


def test_the_old_leader_is_fenced_and_nothing_of_the_archive_changes(memory_store, log_bytes):
    """A claim of the old leader with epoch 50 is refused, because the incarnation was raised."""
    before = archive_log(memory_store, log_bytes.partition, [log_bytes.segment(0, 2)], now_ms=1)
    state = take_partition_over(
        memory_store,
        PartitionState(log_bytes.partition, before),
        Claimant(1, -1, b"m" * 16, 4),
        cluster_id="c",
        now_ms=5,
    )
    stored = read_manifest(memory_store, log_bytes.partition).manifest
    assert state.manifest == stored
    assert stored.claimant == Claimant(1, 1, b"m" * 16, 4)
    assert (
        replace(
            stored,
            **{
                name: getattr(before, name)
                for name in ("claimant", "claimed_ms", "seq", "commits", "prev_sha256", "cluster_id")
            },
        )
        == before
    )
    with pytest.raises(ManifestFenced):
        archive_log(
            memory_store, log_bytes.partition, [log_bytes.segment(20, 2)], now_ms=6, claimant=Claimant(0, 50, bytes(16))
        )


def test_a_lost_manifest_is_written_and_taken_over(memory_store, log_bytes):
    """In one go, under the mark of this restore."""
    before = archive_log(
        memory_store, log_bytes.partition, [log_bytes.segment(0, 2), log_bytes.segment(20, 2)], now_ms=1
    )
    memory_store.delete_many([log_bytes.partition.manifest_key])
    (state,) = [one for one in read_bucket_state(memory_store, now_ms=2).partitions if one.repair is not None]
    taken = take_partition_over(
        memory_store,
        state,
        Claimant(state.manifest.claimant.incarnation + 1, -1, b"m" * 16, 4),
        cluster_id="c",
        now_ms=5,
    )
    assert taken.manifest.entries == before.entries
    assert taken.manifest.claimant.uuid == b"m" * 16
    assert read_manifest(memory_store, log_bytes.partition).manifest == taken.manifest


def test_a_manifest_that_vanishes_meanwhile_is_not_replaced_by_an_empty_one(memory_store, log_bytes):
    """The log would begin at 0, and all objects would be orphans."""
    manifest = archive_log(memory_store, log_bytes.partition, [log_bytes.segment(0, 2)], now_ms=1)
    memory_store.delete_many([log_bytes.partition.manifest_key])
    state = PartitionState(log_bytes.partition, manifest)
    with pytest.raises(ManifestLost, match="has vanished since"):
        take_partition_over(memory_store, state, Claimant(1, -1, b"m" * 16, 4), cluster_id="c", now_ms=5)
    assert not read_manifest(memory_store, log_bytes.partition).version
