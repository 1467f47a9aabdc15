"""Compacted topics with replicas: none misses a tombstone, or the marker of a transaction, while it is out of sync."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from stratalog.client.records import NewRecord
from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.hot.log.forgotten import ForgottenOffset
from stratalog.hot.storage.checkpoint import FORGOTTEN_OFFSETS, read_offsets
from stratalog.hot.storage.filesystem import RealFilesystem


@pytest.fixture
def broker(start_node):
    """It cleans when a test says so."""
    return start_node(log_cleaner_backoff_ms=3_600_000)


def put(broker, key: bytes, value: bytes | None) -> None:
    broker.produce("t", NewRecord(value, broker.node.clock.wall_ms(), key=key, partition=0))
    broker.run(broker.partition("t").log.roll)


def offsets_after_cleaning(broker) -> list[int]:
    for _ in range(3):
        put(broker, b"other", b"v")
        broker.run(broker.node.compaction.look)
        broker.wait_until(lambda: broker.node.compaction.idle)
    return [record.offset for record in broker.read("t")]


def test_tombstones_stay_while_a_replica_is_out_of_sync(broker):
    """It copies on from its own end: an older value that it has would be the newest one of its key there, for good."""
    broker.create("t", cleanup_policy="compact", delete_retention_ms=0, min_cleanable_dirty_ratio="0")
    put(broker, b"gone", b"v")
    put(broker, b"gone", None)
    broker.partition("t").awaits_copies = True
    assert offsets_after_cleaning(broker)[0] == 1
    broker.partition("t").awaits_copies = False
    assert 1 not in offsets_after_cleaning(broker)


@pytest.fixture
def compacted(broker):
    """A topic with a key that was deleted at offset 1."""
    broker.create("t", cleanup_policy="compact", delete_retention_ms=0, min_cleanable_dirty_ratio="0")
    put(broker, b"gone", b"v")
    put(broker, b"gone", None)
    return broker


def row(broker) -> int:
    """The forgotten offset in the checkpoint, 0 without a row."""
    path = str(Path(broker.directory, "data"))
    return read_offsets(RealFilesystem(), path, FORGOTTEN_OFFSETS).get(broker.partition("t").topic_partition, 0)


def test_a_log_knows_up_to_where_it_has_forgotten_tombstones(compacted):
    """It tells replicas whose disks are put back, also after a restart. The row is there before the first tombstone goes."""
    log, found = compacted.partition("t").log, []
    stage = SegmentSwap.stage

    def staged(swap):
        found.append((swap.cleaned.counts.forgotten_below, row(compacted), log.forgotten.below))
        return stage(swap)

    with patch.object(SegmentSwap, "stage", staged):
        assert 1 not in offsets_after_cleaning(compacted)
    assert (2, 2, 0) in found
    assert log.forgotten.below == row(compacted) == 2
    compacted.restart()
    assert compacted.partition("t").log.forgotten.below == 2


@pytest.mark.parametrize("when", ["noting", "dropped"])
def test_a_replica_that_falls_out_of_sync_while_a_log_is_cleaned_ends_that(compacted, when):
    """It may have begun to copy the log from its beginning: records that a tombstone ends, and the tombstone next."""
    unified = compacted.partition("t")

    def falls_out(real):
        def called(*args):
            unified.awaits_copies = True
            return real(*args)

        return called

    owner, name = (ForgottenOffset, "noting") if when == "noting" else (SegmentSwap, "stage")
    with patch.object(owner, name, falls_out(getattr(owner, name))):
        assert 1 in offsets_after_cleaning(compacted)
    assert unified.log.forgotten.below == 0


def test_a_log_knows_whether_a_replica_is_out_of_sync(broker):
    """With each image, and where it is opened."""
    broker.create("t")
    hosted, me, image = broker.node.hosted, broker.node.node_id, broker.node.image
    topic, name = image.topics.by_name["t"], broker.partition("t").topic_partition

    def state(in_sync):
        return replace(topic.partitions[0], replicas=(me, me + 1), in_sync_replicas=in_sync)

    def awaits(in_sync):
        broker.run(lambda: hosted._follow(image, topic, 0, state(in_sync)))
        return broker.partition("t").awaits_copies

    def reopen():
        hosted.table.remove(broker.partition("t"))
        hosted._open(topic, name, state((me,)), hosted.settings(image, "t"))

    assert [awaits(in_sync) for in_sync in ((me,), (me, me + 1))] == [True, False]
    broker.run(broker.partition("t").log.close)
    broker.run(reopen)
    assert broker.partition("t").awaits_copies
