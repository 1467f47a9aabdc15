"""Which partitions a listing shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from stratalog.tier.bucket.partition_folders import partition_folders, topic_folders
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ObjectInfo

FIRST, SECOND = bytes(15) + b"\1", bytes(15) + b"\2"


@dataclass
class ListedStore:
    """Counts the keys that listings bring."""

    inner: MemoryStore = field(default_factory=lambda: MemoryStore("memory:listed"))
    keys: int = 0

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        for info in self.inner.list(prefix, start_after):
            self.keys += 1
            yield info


def filled(*partitions: PartitionId, objects: int = 3) -> ListedStore:
    store = ListedStore()
    for partition in partitions:
        store.inner.put(partition.manifest_key, b"{}")
        for number in range(objects):
            store.inner.put(partition.segment_key(number, number + 1, 0, bytes(16)), b"x")
    return store


def test_every_partition_is_found_once() -> None:
    """With or without a manifest; topic descriptions and foreign keys are none."""
    partitions = [PartitionId("a", FIRST, 0), PartitionId("a", FIRST, 1), PartitionId("b", SECOND, 0)]
    store = filled(*partitions)
    store.inner.put("topics/a-strange/key", b"x")
    store.inner.put("format.json", b"{}")
    assert list(partition_folders(store)) == partitions  # type: ignore[arg-type]


def test_topics_are_found_by_name_with_every_id() -> None:
    """A topic that was deleted and created again; not one whose name begins alike."""
    store = filled(PartitionId("a", FIRST, 0), PartitionId("a", SECOND, 0), PartitionId("a-b", FIRST, 0))
    found = [(each.topic, each.topic_id) for each in topic_folders(store, ["a", "a"])]  # type: ignore[arg-type]
    assert found == [("a", FIRST), ("a", SECOND)]


def test_large_folders_are_jumped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs about one listing, whatever it holds."""
    monkeypatch.setattr("stratalog.tier.bucket.partition_folders.KEYS_PER_LISTING", 5)
    store = filled(PartitionId("a", FIRST, 0), PartitionId("a", FIRST, 1), objects=100)
    assert len(list(partition_folders(store))) == 2  # type: ignore[arg-type]
    assert store.keys < 20
