from __future__ import annotations

import json

import pytest

from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_from_bytes, group_copy_projection
from stratalog.tier.messages.projection import (
    CoordinatorTerm,
    MetadataPosition,
    cluster_projection,
    format_projection,
    topic_projection,
    write_projection,
)
from stratalog.tier.stores.store import PreconditionFailed
from stratalog.wire.errors import Fenced, Invalid, Retriable


def topic(**changes):
    """The projection of one topic."""
    fields = {"partitions": 3, "configs": {"b": "2", "a": "1"}, "cluster_id": "c", **changes}
    return topic_projection("orders", bytes(16), **fields)


def test_projections_are_written_and_rewritten_until_equal(memory_store):
    """A change of the topic shows; an equal one costs no write."""
    write_projection(memory_store, topic())
    version = memory_store.head(topic().key).version
    write_projection(memory_store, topic())
    assert memory_store.head(topic().key).version == version
    write_projection(memory_store, topic(partitions=5))
    fields = json.loads(memory_store.get(topic().key)[0])
    assert (fields["topic"], fields["partitions"], list(fields["configs"])) == ("orders", 5, ["a", "b"])


def test_each_kind_has_its_own_key_and_format(memory_store):
    """format.json, cluster.json and topic.json say what they are."""
    for command in (format_projection(), cluster_projection("c", 0), topic()):
        write_projection(memory_store, command)
    found = {i.key: json.loads(memory_store.get(i.key)[0])["format"] for i in memory_store.list("")}
    assert list(found.values()) == ["stratalog-cluster", "stratalog-archive", "stratalog-topic"]


def test_fields_of_other_writers_are_kept(memory_store):
    """A projection only speaks for its own fields."""
    write_projection(memory_store, topic())
    fields = json.loads(memory_store.get(topic().key)[0])
    memory_store.put(topic().key, json.dumps({**fields, "owner": "team"}).encode())
    write_projection(memory_store, topic(partitions=9))
    fields = json.loads(memory_store.get(topic().key)[0])
    assert (fields["owner"], fields["partitions"]) == ("team", 9)


@pytest.mark.parametrize("held", [b"not json", b"[]", b'{"format":"stratalog-topic","version":2}'])
def test_documents_we_do_not_understand_are_left_alone(memory_store, held):
    """Neither another writer's file nor a newer version is overwritten."""
    memory_store.put(topic().key, held)
    with pytest.raises(Invalid):
        write_projection(memory_store, topic())
    assert memory_store.get(topic().key)[0] == held


def test_a_document_of_a_later_incarnation_is_left_alone(memory_store):
    """A broker from which the bucket was taken over writes none of its own over that of its successor."""
    write_projection(memory_store, cluster_projection("c", 2))
    with pytest.raises(Fenced, match=r"incarnation 2 .* incarnation 1"):
        write_projection(memory_store, cluster_projection("c", 1))
    assert json.loads(memory_store.get(cluster_projection("c", 2).key)[0])["incarnation"] == 2


class AlwaysLate:
    """A store in which another writer is always faster."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def compare_and_swap(self, key, *args, **kwargs):
        """Refuse."""
        raise PreconditionFailed("compare_and_swap", key, "memory:", "late")


def test_races_without_end_are_given_up(memory_store):
    """The caller comes back later."""
    write_projection(memory_store, topic())
    with pytest.raises(Retriable):
        write_projection(AlwaysLate(memory_store), topic(partitions=7))


def test_a_broker_that_is_behind_replaces_nothing_that_was_written_from_a_later_image(memory_store):
    """Two brokers lead partitions of the topic; one of them has not heard of the three new ones yet."""
    write_projection(memory_store, topic(partitions=6, as_of=MetadataPosition(1, 20)))
    write_projection(memory_store, topic(partitions=3, as_of=MetadataPosition(1, 19)))
    assert held_partitions(memory_store) == 6
    write_projection(memory_store, topic(partitions=8, as_of=MetadataPosition(1, 21)))
    assert held_partitions(memory_store) == 8


@pytest.mark.parametrize(
    "before",
    [
        {"as_of": MetadataPosition(0, 99)},  # of the cluster from which the bucket was taken over
        {"as_of": MetadataPosition(1, 99), "cluster_id": "another"},
        {},  # of an earlier release
    ],
)
def test_a_later_offset_of_another_metadata_log_says_nothing(memory_store, before):
    """Each cluster, and each incarnation of one, counts its records by itself."""
    write_projection(memory_store, topic(partitions=6, **before))
    write_projection(memory_store, topic(partitions=3, as_of=MetadataPosition(1, 5)))
    assert held_partitions(memory_store) == 3


@pytest.mark.parametrize("damaged", [7, {}, {"incarnation": 1}, {"incarnation": 1, "metadata_offset": "99"}])
def test_a_position_that_is_none_is_overwritten(memory_store, damaged):
    """The document repeats what the image says: it is written until it is right."""
    write_projection(memory_store, topic(partitions=6))
    fields = json.loads(memory_store.get(topic().key)[0])
    memory_store.put(topic().key, json.dumps({**fields, "as_of": damaged}).encode())
    write_projection(memory_store, topic(partitions=3, as_of=MetadataPosition(1, 5)))
    assert held_partitions(memory_store) == 3


OFFSETS_TOPIC = bytes([9]) * 16


@pytest.mark.parametrize(
    ("before", "is_kept"),
    [
        ({"coordinator": CoordinatorTerm(OFFSETS_TOPIC, 3, 5)}, True),
        ({"coordinator": CoordinatorTerm(OFFSETS_TOPIC, 3, 4)}, False),  # of the same time
        ({"coordinator": CoordinatorTerm(OFFSETS_TOPIC, 3, 3)}, False),
        ({"coordinator": CoordinatorTerm(OFFSETS_TOPIC, 2, 5)}, False),  # the topic had fewer partitions
        ({"coordinator": CoordinatorTerm(bytes([8]) * 16, 3, 5)}, False),  # the topic was deleted and made again
        ({"coordinator": CoordinatorTerm(OFFSETS_TOPIC, 3, 5), "incarnation": 1}, False),  # taken over since
        ({}, False),  # of an earlier release
    ],
)
def test_an_earlier_coordinator_replaces_nothing_of_a_later_one(memory_store, before, is_kept):
    """Epochs of one partition of one topic of one incarnation are in order; others say nothing of each other."""
    old, new = OffsetCopy("orders", bytes(16), 0, 9), OffsetCopy("orders", bytes(16), 0, 5)
    write_projection(memory_store, group_copy_projection("c", "g", [old], **{"incarnation": 2, **before}))
    ours = group_copy_projection("c", "g", [new], 2, CoordinatorTerm(OFFSETS_TOPIC, 3, 4))
    write_projection(memory_store, ours)
    copy = group_copy_from_bytes(memory_store.get(ours.key)[0], ours.key)
    assert copy.offsets == ((old,) if is_kept else (new,))


@pytest.mark.parametrize("damaged", [7, {}, {"leader_epoch": "9"}, {"leader_epoch": 9}])
def test_a_coordinator_that_is_none_is_overwritten(memory_store, damaged):
    """The copy is written until it is right."""
    ours = group_copy_projection("c", "g", [], 2, CoordinatorTerm(OFFSETS_TOPIC, 3, 4))
    memory_store.put(ours.key, json.dumps({**ours.fields, "coordinator": damaged}).encode())
    write_projection(memory_store, ours)
    assert json.loads(memory_store.get(ours.key)[0])["coordinator"]["leader_epoch"] == 4


def held_partitions(store):
    return json.loads(store.get(topic().key)[0])["partitions"]
