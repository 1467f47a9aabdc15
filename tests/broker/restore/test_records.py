from __future__ import annotations

from stratalog.broker.restore.records import (
    OFFSETS_PARTITIONS,
    ClampedOffset,
    Range,
    RestoredTopic,
    batches_of,
    committed_offsets,
    metadata_records,
    usable_configs,
)
from stratalog.metadata.groups.offsets.records import read_offset, read_offset_key
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.tier.messages.group_copy import GroupCopy, OffsetCopy
from stratalog.wire.batch import check_batch
from stratalog.wire.partitioner import coordinator_partition
from stratalog.wire.topic import TopicPartition

ORDERS = bytes(range(16))


def test_the_records_make_the_image_of_the_cluster():
    """Ids, settings, one leader for all partitions under the epochs given, producer ids above all that were seen."""
    records = metadata_records(
        [RestoredTopic("orders", ORDERS, {"segment.ms": "5"}, [3, 0])],
        node_id=4,
        directory_id=b"d" * 16,
        incarnation=2,
        next_producer_id=1001,
    )
    image = EMPTY_IMAGE.apply(records)
    topic = image.topics.by_name["orders"]
    assert (topic.topic_id, image.incarnation, image.next_producer_id) == (ORDERS, 2, 2000)
    assert [(one.leader, one.leader_epoch, one.replicas) for one in topic.partitions.values()] == [
        (4, 3, (4,)),
        (4, 0, (4,)),
    ]
    assert image.topic_configs("orders") == {"segment.ms": "5"}
    assert image.features["metadata.version"] > 0


def test_settings_that_this_release_does_not_take_are_named():
    """The others stay."""
    known, problems = usable_configs({"segment.ms": "5", "segment.bytes": "many", "colour": "red"})
    assert known == {"segment.ms": "5"}
    assert [problem.partition("=")[0] for problem in problems] == ["segment.bytes", "colour"]


def test_offsets_are_clamped_to_the_restored_range_and_reported():
    """Beyond the end, below the start, of a topic that is not there or has another id now."""
    ranges = {TopicPartition("orders", 0): Range(ORDERS, 10, 100), TopicPartition("orders", 1): Range(ORDERS, 0, 0)}
    group = GroupCopy(
        "g",
        (
            OffsetCopy("orders", ORDERS, 0, 50, 3, "note"),
            OffsetCopy("orders", ORDERS, 1, 7),
            OffsetCopy("orders", bytes(16), 0, 50),
            OffsetCopy("gone", ORDERS, 0, 50),
        ),
    )
    below = GroupCopy("h", (OffsetCopy("orders", ORDERS, 0, 5, 1),))
    rows, clamped = committed_offsets([group, below], ranges, now_ms=77)
    assert clamped == [
        ClampedOffset("g", "orders", 1, 7, 0),
        ClampedOffset("g", "orders", 0, 50, -1),
        ClampedOffset("g", "gone", 0, 50, -1),
        ClampedOffset("h", "orders", 0, 5, 10),
    ]
    mine = rows[coordinator_partition("g", OFFSETS_PARTITIONS)]
    assert [read_offset_key(key) for key, _ in mine] == [("g", "orders", 0), ("g", "orders", 1)]
    kept, moved = (read_offset(value) for _, value in mine)
    assert (kept.offset, kept.leader_epoch, kept.metadata, kept.commit_timestamp) == (50, 3, "note", 77)
    assert (moved.offset, moved.leader_epoch, moved.topic_id) == (0, -1, ORDERS)


def test_many_records_become_batches_that_a_log_takes():
    """A thousand in each."""
    batches = list(batches_of([(b"k%d" % at, b"v") for at in range(2500)], 5))
    assert [check_batch(batch).record_count for batch in batches] == [1000, 1000, 500]
    assert list(batches_of([], 5)) == []
