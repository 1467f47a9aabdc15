"""Manifests found by topic name."""

from __future__ import annotations

from stratalog.tier.bucket.topics import newest_manifests
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages.commands import TrashArchive
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.removal_commands import trash_partition
from stratalog.wire.batch import Record, build_batch

SEGMENT = bytes(build_batch([Record(0, 0, None, b"x")], leader_epoch=0))
OLD, NEW = bytes(15) + b"\2", bytes(15) + b"\1"


def filled() -> MemoryStore:
    store = MemoryStore()
    for topic, topic_id, partition, now_ms in [
        ("a", OLD, 0, 1), ("a", OLD, 1, 1), ("a", NEW, 0, 9), ("a", NEW, 1, 9), ("a-b", OLD, 0, 5)
    ]:  # fmt: skip
        claimant = Claimant(0, 0, bytes(16))
        archive_log(store, PartitionId(topic, topic_id, partition), [SEGMENT], now_ms=now_ms, claimant=claimant)
    store.put(PartitionId("empty", NEW, 0).segment_key(0, 1, 0, bytes(16)), b"an orphan")
    return store


def names(*arguments: object) -> list[tuple[str, bytes, int]]:
    return [tuple(each.partition) for each in newest_manifests(filled(), *arguments)]  # type: ignore[arg-type]


def test_the_newest_topic_of_a_name_counts() -> None:
    """All of its partitions; a folder without a manifest is nothing."""
    assert names() == [("a", NEW, 0), ("a", NEW, 1), ("a-b", OLD, 0)]
    assert names(["a", "empty"]) == [("a", NEW, 0), ("a", NEW, 1)]


def test_one_partition_can_be_asked_for() -> None:
    """The manifests of each topic; none if there are none."""
    assert names(["a"], 1) == [("a", NEW, 1)]
    assert names(["a-b"], 1) == []


def test_a_deleted_topic_is_not_among_them() -> None:
    """A topic of the same name that lives is chosen, although the deletion of the old one was claimed later."""
    store = filled()
    for partition in (0, 1):
        deleted = PartitionId("a", OLD, partition)
        trash_partition(store, TrashArchive(deleted, Claimant(0, 9, bytes(16)), 10_000, "topic deleted"))
    assert [each.partition for each in newest_manifests(store, ["a"])] == [PartitionId("a", NEW, n) for n in (0, 1)]
    for partition in (0, 1):
        deleted = PartitionId("a", NEW, partition)
        trash_partition(store, TrashArchive(deleted, Claimant(0, 9, bytes(16)), 10_000, "topic deleted"))
    assert newest_manifests(store, ["a"]) == []
