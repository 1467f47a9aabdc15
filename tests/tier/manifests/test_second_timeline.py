"""Which claims prove that a data directory went back in time."""

from __future__ import annotations

import pytest

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.manifest import Claimant, Manifest, claim
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.second_timeline import BatchMark, MadeClaims, SecondTimeline, check_timeline
from stratalog.tier.messages.commands import Claim, LastBatchRead, ReadLastBatch, SecondTimelineReport
from stratalog.tier.planning.reconcile import Keep, RestartAt, reconcile
from stratalog.tier.work.archive_commands import claim_archive
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import iter_headers

PARTITION = PartitionId("t", bytes(16), 0)
OURS, THEIRS = b"o" * 16, b"t" * 16
MADE = MadeClaims(frozenset([OURS]), 100)


def claimed(incarnation, epoch, uuid, broker, at_ms=200):
    """A manifest under this claim."""
    return claim(Manifest(PARTITION), Claimant(incarnation, epoch, uuid, broker), now_ms=at_ms)


@pytest.mark.parametrize(
    ("manifest", "proof"),
    [
        (Manifest(PARTITION), False),
        (claimed(0, 4, OURS, 1), False),
        (claimed(0, 5, OURS, 1), False),
        (claimed(0, 5, THEIRS, 1), True),
        (claimed(0, 5, THEIRS, 2), True),
        (claimed(0, 4, THEIRS, 1), True),
        (claimed(0, 4, THEIRS, 1, at_ms=99), False),
        (claimed(0, 4, THEIRS, 2), False),
        (claimed(0, 6, THEIRS, 1), True),
        (claimed(0, 6, THEIRS, 2), False),
        (claimed(1, 5, THEIRS, 1), False),
        (claimed(0, 4, bytes(16), 1), False),
    ],
    ids=[
        "no manifest",
        "our earlier run",
        "this run",
        "our epoch, another run",
        "our epoch, another broker",
        "an earlier epoch of a run that is not known",
        "a run from before runs were noted",
        "an earlier leader",
        "a later epoch of a run that is not known",
        "a newer leader",
        "another incarnation",
        "a repair",
    ],
)
def test_a_claim_that_the_directory_does_not_know_is_proof(manifest, proof):
    """Objects of this broker, or of its very epoch; leaders before and after it, and other clusters, are as they should be."""
    us = Claimant(0, 5, OURS, 1)
    if proof:
        with pytest.raises(SecondTimeline) as found:
            check_timeline(manifest, us, MADE)
        assert found.value.leader_epoch == manifest.claimant.leader_epoch
    else:
        check_timeline(manifest, us, MADE)


def test_a_claim_over_another_timeline_changes_nothing(memory_store):
    """The manifest stays claimed as it was; the report tells above which epoch to go."""
    first = Claimant(0, 5, THEIRS, 1)
    claim_archive(memory_store, Claim(PARTITION, first, 200, 0))
    command = Claim(PARTITION, Claimant(0, 5, OURS, 1), 300, 0, made=MADE)
    report = Worker(memory_store).execute(command)
    assert isinstance(report, SecondTimelineReport)
    assert (report.leader_epoch, read_manifest(memory_store, PARTITION).manifest.claimant) == (5, first)


def test_the_last_batch_of_an_object_is_recognised_by_its_crc(memory_store, log_bytes):
    """Offsets and CRC-32C as they stand in the batch's header."""
    data = log_bytes.segment(0, 10)
    manifest = archive_log(memory_store, log_bytes.partition, [data], now_ms=5)
    report = Worker(memory_store).execute(ReadLastBatch(log_bytes.partition, manifest.entries[0].key))
    *_, (_, header) = iter_headers(data)
    assert report == LastBatchRead(
        manifest.entries[0].key, BatchMark(header.base_offset, header.next_offset, header.crc)
    )


@pytest.mark.parametrize("diverged", [False, True])
def test_logs_of_equal_epochs_are_distinguished_by_their_batches(diverged):
    """Epoch numbers were given out twice: only the batches differ."""
    outcome = reconcile(
        remote_end=10,
        remote_log_start=0,
        remote_epochs=[LeaderEpoch(1, 0)],
        snapshot_key="k",
        local_start=0,
        local_end=15,
        local_epochs=[LeaderEpoch(1, 0)],
        log_start_checkpoint=0,
        diverged=diverged,
    )
    assert isinstance(outcome, RestartAt if diverged else Keep)
