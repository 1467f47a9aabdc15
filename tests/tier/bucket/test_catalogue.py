"""Topics of a bucket, as the bucket alone shows them."""

from __future__ import annotations

import json

import pytest

from stratalog.tier.bucket.catalogue import ArchivedTopic, read_catalogue
from stratalog.tier.bucket.trash import TIERING_OFF, trash_archive
from stratalog.tier.care.restore_plan import PartitionState
from stratalog.tier.care.rewind import empty_added
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Claimant, claim
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.projection import topic_projection, write_projection
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Corrupt

OLD, NEW = b"\1" * 16, b"\2" * 16


@pytest.fixture
def store():
    """An empty bucket."""
    return MemoryStore("memory:catalogue")


def archive(store, name, topic_id=OLD, number=0, now_ms=1):
    """One object of one record."""
    batch = bytes(build_batch([Record(0, 1, None, b"v")]))
    archive_log(store, PartitionId(name, topic_id, number), [batch], now_ms=now_ms, cluster_id="c")


def describe(store, name, topic_id=OLD, partitions=1, state="live"):
    """A ``topic.json``."""
    configs = {"retention.ms": "1"}
    write_projection(
        store, topic_projection(name, topic_id, partitions=partitions, configs=configs, cluster_id="c", state=state)
    )


def test_a_described_topic_has_all_its_partitions(store):
    """Those that have archived nothing, too; and the settings."""
    archive(store, "orders", number=1)
    describe(store, "orders", partitions=4)
    found = read_catalogue(store)
    assert found.topics == (ArchivedTopic("orders", OLD, 4, {"retention.ms": "1"}, "c"),)
    assert found.problems == ()
    assert found.by_name("orders").partition(3) == PartitionId("orders", OLD, 3)
    assert found.by_name("others") is None


def test_a_topic_without_a_description_is_known_by_its_manifests(store):
    """Also by a name that keys cut, and with more partitions than a stale description says."""
    name = "n" * 230
    archive(store, name, number=2)
    assert read_catalogue(store).topics == (ArchivedTopic(name, OLD, 3, {}, "", described=False),)
    describe(store, name, partitions=1)
    assert read_catalogue(store).by_name(name).partition_count == 3


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b'{"format":"x","version":1}', b'{"format":"stratalog-topic","version":2}']
)
def test_a_description_that_cannot_be_read_is_said_and_replaced(store, raw):
    """The manifests stand in for it."""
    archive(store, "orders")
    store.put(topic_key("orders", OLD), raw)
    found = read_catalogue(store)
    assert found.topics == (ArchivedTopic("orders", OLD, 1, {}, "", described=False),)
    assert "topic.json is left aside" in found.problems[0]


def test_a_description_of_another_topic_is_not_believed(store):
    """One that was copied to a wrong place."""
    archive(store, "orders")
    describe(store, "others", NEW)
    store.put(topic_key("orders", OLD), store.get(topic_key("others", NEW))[0])
    assert [topic.name for topic in read_catalogue(store).topics] == ["orders"]


def test_the_last_claimed_of_two_topics_of_a_name_is_listed(store):
    """The older one is reported; one that was deleted is none."""
    archive(store, "orders", NEW, now_ms=2)
    archive(store, "orders", OLD, now_ms=1)
    found = read_catalogue(store)
    assert [topic.topic_id for topic in found.topics] == [NEW]
    assert "2 topics are named orders" in found.problems[0]
    describe(store, "orders", NEW, state="deleting")
    assert [topic.topic_id for topic in read_catalogue(store).topics] == [OLD]


@pytest.mark.parametrize("name", ["../../../../tmp/x", "..", "", "a b", "n" * 250, "a/b", "a\0b"])
def test_a_name_that_no_topic_may_have_is_not_believed(store, name):
    """Neither in a description nor in a manifest: names become paths and keys. The other topics are there."""
    archive(store, "orders")
    archive(store, "others", NEW)
    describe(store, "orders")
    key = topic_key("orders", OLD)
    fields = json.loads(store.get(key)[0])
    store.put(key, json.dumps({**fields, "topic": name}).encode())
    found = read_catalogue(store)
    assert [topic.name for topic in found.topics] == ["orders", "others"]
    assert "its topic has a name that no topic may have" in found.problems[0]
    manifest = PartitionId("orders", OLD, 0).manifest_key
    data = store.get(manifest)[0].replace(b'"topic":"orders"', b'"topic":' + json.dumps(name).encode())
    body = data.rpartition(b',"crc32c":')[0] + b"}"  # without the checksum, as who edits a manifest leaves it
    with pytest.raises(Corrupt, match="is no name of a topic"):
        from_bytes(body, manifest)


def test_a_description_is_of_the_topic_of_its_folder(store):
    """One with the right id and another name would take another topic's place."""
    archive(store, "orders")
    describe(store, "orders")
    key = topic_key("orders", OLD)
    store.put(key, store.get(key)[0].replace(b'"orders"', b'"others"'))
    found = read_catalogue(store)
    assert [topic.name for topic in found.topics] == ["orders"]
    assert "it describes topic others" in found.problems[0]


def test_a_folder_called_as_directories_are_is_no_topic(store):
    """Foreign objects are never touched; names that only begin with dots are legal."""
    for number, name in enumerate((".", "..", "...", "..-a")):
        store.put(PartitionId(name, bytes([number]) * 16, 0).manifest_key, b"{}")
    assert [topic.name for topic in read_catalogue(store).topics] == ["..-a", "..."]


def test_a_partition_that_is_no_longer_archived_makes_no_topic_a_deleted_one(store):
    """Tiering was off and is on again, and one partition has archived since; the description is lost."""
    us = Claimant(0, 5, bytes([5] * 16), 4)
    for number in (0, 1):
        archive(store, "orders", number=number)

    def switch_off(number):
        partition = PartitionId("orders", OLD, number)
        change_manifest(store, partition, lambda one: claim(one, us, now_ms=2))
        change_manifest(store, partition, lambda one: trash_archive(one, us, now_ms=2, reason=TIERING_OFF))

    switch_off(0)
    sound = store.get(PartitionId("orders", OLD, 1).manifest_key)[0]
    for raw in (sound, b"{", None):  # damaged or lost: its objects are there, and nothing says that they are not wanted
        store.delete_many([PartitionId("orders", OLD, 1).manifest_key])
        if raw is not None:
            store.put(PartitionId("orders", OLD, 1).manifest_key, raw)
        found = read_catalogue(store)
        assert (found.by_name("orders").partition_count, found.problems) == (2, ())
    store.put(PartitionId("orders", OLD, 1).manifest_key, sound)
    switch_off(1)
    found = read_catalogue(store)
    assert found.topics == ()
    assert "has no topic.json, and all its archives are on their way out" in found.problems[0]


@pytest.mark.parametrize(("state", "count"), [("emptied", 1), ("added again", 2), ("damaged", 2)])
@pytest.mark.parametrize("name", ["orders", "n" * 249])
def test_a_partition_that_went_with_the_way_back_to_a_cut_is_none_of_the_topic(store, state, count, name):
    """A later restore makes no partition that the cluster did not have: keys would go to others."""
    describe(store, name)
    for number in (0, 1):
        archive(store, name, number=number)
    partition = PartitionId(name, OLD, 1)
    emptied = PartitionState(partition, read_manifest(store, partition).manifest)
    empty_added(store, emptied, Claimant(1, -1, b"u" * 16, 4), cluster_id="c", now_ms=5)
    if state == "added again":
        change_manifest(store, partition, lambda one: claim(one, Claimant(1, 0, b"n" * 16, 4), now_ms=6))
    elif state == "damaged":
        store.put(partition.manifest_key, b"{")
    assert read_catalogue(store).by_name(name).partition_count == count
