"""Compacted topics with replicas: none misses a tombstone, or the marker of a transaction, while it is out of sync."""

from dataclasses import replace

import pytest

from stratalog.client.records import NewRecord


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
