from __future__ import annotations

import pytest

from stratalog.tier.manifests.manifest import Claimant, ManifestFenced, NotAtRemoteEnd
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes
from stratalog.tier.objects.segment_object import FileRange
from stratalog.tier.objects.segment_reader import read_blob, read_object_footer
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.errors import Invalid


def test_segments_become_objects_and_one_manifest(memory_store, log_bytes, tmp_path):
    """From memory and from files; the manifest read back is the one returned, and names every object."""
    path = tmp_path / "x.log"
    path.write_bytes(log_bytes.segment(100, 10))
    source = [log_bytes.segment(0, 10), FileRange(str(path), 0, path.stat().st_size)]
    manifest = archive_log(memory_store, log_bytes.partition, source, now_ms=5)
    assert read_manifest(memory_store, log_bytes.partition).manifest == manifest
    assert [(e.base, e.end) for e in manifest.entries] == [(0, 100), (100, 200)]
    keys = [info.key for info in memory_store.list(log_bytes.partition.segments_prefix)]
    assert keys == [e.key for e in manifest.entries]


def test_an_archive_is_continued(memory_store, log_bytes):
    """Later calls go on at its end, under the claim it has or a higher one."""
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(50, 5)], now_ms=5)
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(100, 5)], now_ms=6)
    manifest = archive_log(memory_store, log_bytes.partition, [log_bytes.segment(150, 5, leader_epoch=3)], now_ms=7)
    assert (manifest.log_start_offset, manifest.remote_end) == (50, 200)
    assert manifest.leader_epochs == ((1, 50), (3, 150))
    with pytest.raises(NotAtRemoteEnd):
        archive_log(memory_store, log_bytes.partition, [log_bytes.segment(0, 5)], now_ms=8)


def test_each_object_knows_the_aborted_transactions_that_overlap_it(memory_store, log_bytes):
    """One that spans two objects is in both."""
    aborted = [AbortedTransaction(1, 10, 120, 100), AbortedTransaction(2, 150, 160, 150)]
    manifest = archive_log(
        memory_store,
        log_bytes.partition,
        [log_bytes.segment(0, 10), log_bytes.segment(100, 10)],
        now_ms=5,
        aborted=aborted,
    )
    found = []
    for entry in manifest.entries:
        footer = read_object_footer(memory_store, entry.key)
        found.append(list(aborted_from_bytes(read_blob(memory_store, entry.key, footer, "aborted"))))
    assert found == [aborted[:1], aborted]


def test_a_foreign_claim_is_respected(memory_store, log_bytes):
    """Another writer's higher claim fences this writer too."""
    high = Claimant(0, 9, bytes(16))
    archive_log(memory_store, log_bytes.partition, [log_bytes.segment(0, 5)], now_ms=5, claimant=high)
    low = high._replace(leader_epoch=8)
    with pytest.raises(ManifestFenced):
        archive_log(memory_store, log_bytes.partition, [log_bytes.segment(50, 5)], now_ms=5, claimant=low)


def test_an_empty_archive_is_an_error(memory_store, log_bytes):
    """An empty list makes no manifest."""
    with pytest.raises(Invalid, match="nothing to archive"):
        archive_log(memory_store, log_bytes.partition, [], now_ms=5)
