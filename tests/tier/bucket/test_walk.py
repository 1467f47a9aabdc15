from __future__ import annotations

import json
from itertools import islice

import pytest

from stratalog.tier.bucket.walk import iter_clusters, iter_partitions, iter_topics, read_topic_document
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.messages.projection import cluster_projection, topic_projection, write_projection
from stratalog.tier.stores.wrappers import CountingStore

ORDERS = bytes(range(16))
LONG = "x" * 249


def fill(store):
    """Two topics, one with a very long name, of three and one partitions with many objects each."""
    for name, topic_id, count in (("orders", ORDERS, 3), (LONG, bytes(16), 1)):
        write_projection(
            store, topic_projection(name, topic_id, partitions=count, configs={"segment.ms": "5"}, cluster_id="c")
        )
        for number in range(count):
            partition = PartitionId(name, topic_id, number)
            for base in range(20):
                store.put(partition.segment_key(base, base + 1, 0, bytes(16)), b"x")
            store.put(partition.manifest_key, b"{}")


def test_topics_and_partitions_are_found_in_one_request_each(local_store):
    """A folder costs one request, with any number of objects below it."""
    fill(local_store)
    store = CountingStore(local_store, log_count=1, on_request=lambda _: None)
    topics = list(iter_topics(store))
    assert [(topic.name, topic.topic_id) for topic in topics] == [("orders", ORDERS), (LONG[:200], bytes(16))]
    found = [[folder.partition for folder in iter_partitions(store, topic)] for topic in topics]
    assert found == [[0, 1, 2], [0]]


def test_the_document_of_a_topic_gives_the_whole_name_and_the_settings(memory_store):
    """Folder names are cut to 200 characters."""
    fill(memory_store)
    document = read_topic_document(memory_store, list(iter_topics(memory_store))[1])
    assert (document.name, document.partition_count, document.found) == (LONG, 1, True)
    assert (document.configs, document.cluster_id, document.state) == ({"segment.ms": "5"}, "c", "live")


def test_without_a_readable_document_the_folder_is_what_is_known(memory_store):
    """Missing, no JSON, and JSON of something else."""
    fill(memory_store)
    topic = next(iter_topics(memory_store))
    for data in (b"{", b"[]", json.dumps({"topic": 5}).encode()):
        memory_store.put(topic_key("orders", ORDERS), data)
        assert read_topic_document(memory_store, topic).found is False
    memory_store.delete_many([topic_key("orders", ORDERS)])
    document = read_topic_document(memory_store, topic)
    assert (document.name, document.topic_id, document.found) == ("orders", ORDERS, False)


def test_foreign_keys_are_reported_and_passed_over(memory_store):
    """They hide neither topics nor partitions."""
    fill(memory_store)
    for key in ("topics/a", "topics/orders-short/x", "topics/zzz"):
        memory_store.put(key, b"")
    topic_prefix = next(iter_topics(memory_store)).prefix
    memory_store.put(topic_prefix + "notes.txt", b"")
    foreign = []
    topics = list(iter_topics(memory_store, foreign.append))
    assert len(topics) == 2
    assert foreign == ["topics/a", "topics/orders-short/x", "topics/zzz"]
    foreign.clear()
    assert len(list(iter_partitions(memory_store, topics[0], foreign.append))) == 3
    assert foreign == [topic_prefix + "notes.txt"]


@pytest.mark.parametrize("name", ["~notes", "ü.txt", "\U0010ffff"])
def test_a_key_behind_all_of_ours_does_not_lead_back_into_its_folder(memory_store, name):
    """A walk would never end there."""
    fill(memory_store)
    write_projection(memory_store, cluster_projection("c", 3))
    folder = next(iter_partitions(memory_store, next(iter_topics(memory_store))))
    for prefix in (folder.prefix, folder.topic.prefix, "clusters/c/"):
        memory_store.put(prefix + name, b"")
    assert [topic.name for topic in islice(iter_topics(memory_store), 9)] == ["orders", LONG[:200]]
    assert [one.partition for one in islice(iter_partitions(memory_store, folder.topic), 9)] == [0, 1, 2]
    assert list(islice(iter_clusters(memory_store), 9)) == [("c", 3)]
