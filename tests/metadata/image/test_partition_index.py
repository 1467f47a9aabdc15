"""Partitions by broker."""

import random
import sys

import pytest

from stratalog.metadata.image.difference import differing
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.image.partition_index import EMPTY_INDEX, PartitionIndex, PartitionKey, ScannedPartitions
from stratalog.wire.records.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

BROKERS = range(5)


def random_record(dice, image, number):
    """A record that fits: a topic, another partition, another leader or other replicas, or the end of a topic."""
    topics = list(image.topics.by_id)
    what = dice.randrange(8) if topics else 0
    if what == 0:
        return TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big"))
    topic_id = dice.choice(topics)
    partitions = list(image.topics.by_id[topic_id].partitions)
    replicas = dice.sample(BROKERS, dice.randrange(1, 4))
    if what <= 3 or not partitions:
        return PartitionRecord(
            topic_id=topic_id,
            partition_id=dice.randrange(4),
            replicas=replicas,
            isr=replicas,
            leader=dice.choice([-1, *replicas]),
        )
    if what == 4:
        return RemoveTopicRecord(topic_id=topic_id)
    number = dice.choice(partitions)
    state = image.topics.by_id[topic_id].partitions[number]
    if what == 5:
        return PartitionChangeRecord(topic_id=topic_id, partition_id=number, replicas=replicas)
    return PartitionChangeRecord(topic_id=topic_id, partition_id=number, leader=dice.choice([-1, *state.replicas]))


@pytest.mark.parametrize("seed", range(4))
def test_an_index_that_follows_is_the_one_made_anew_and_what_a_look_at_all_finds(seed):
    """Random topics, partitions, leaders, assignments and removals, in batches; also one that makes and removes."""
    dice = random.Random(seed)
    image, index, number = EMPTY_IMAGE, EMPTY_INDEX, 0
    for _ in range(60):
        delta, after = ImageDelta(image), image
        for _ in range(dice.randrange(1, 5)):
            number += 1
            record = random_record(dice, after, number)
            delta.replay(record)
            after = delta.build(Provenance())
        index = index.after(image, delta, after)
        image = after
        anew, scanned = PartitionIndex.of(image), ScannedPartitions(image)
        for broker in BROKERS:
            held = [list(one.held_by(broker)) for one in (index, anew)]
            assert held == [sorted(scanned.held_by(broker))] * 2
            assert index.leads_any(broker) is anew.leads_any(broker) is scanned.leads_any(broker)
        assert list(index.leaderless()) == list(anew.leaderless()) == sorted(scanned.leaderless())
        assert index.partition_count == sum(len(topic.partitions) for topic in image.topics.by_id.values())
        assert index.leaderless_count == len(list(index.leaderless()))
        assert index.not_preferred_count == len(list(index.not_preferred()))
        assert list(index.not_preferred()) == list(anew.not_preferred()) == sorted(scanned.not_preferred())


def test_a_change_of_the_in_sync_set_alone_leaves_the_index_as_it_is():
    """Most changes are of this kind."""
    records = [
        TopicRecord(name="t", topic_id=b"t" * 16),
        PartitionRecord(topic_id=b"t" * 16, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1),
    ]
    image = EMPTY_IMAGE.apply(records)
    index = PartitionIndex.of(image)
    assert list(index.held_by(2)) == [PartitionKey(b"t" * 16, 0)]
    delta = ImageDelta(image)
    delta.replay(PartitionChangeRecord(topic_id=b"t" * 16, partition_id=0, isr=[1]))
    assert index.after(image, delta, delta.build(Provenance())) == index
    assert list(index.held_by(9)) == []


def calls_of(work):
    """The Python functions that ``work`` calls: what it does, whatever the machine."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def cost_of_a_change(topic_count):
    """Calls for the next image and index when one partition has another leader."""
    ids = [number.to_bytes(16, "big") for number in range(topic_count)]
    records = []
    for number, topic_id in enumerate(ids):
        records.append(TopicRecord(name=f"t.{number}", topic_id=topic_id))
        records += [
            PartitionRecord(topic_id=topic_id, partition_id=one, replicas=[1], isr=[1], leader=1) for one in range(4)
        ]
    image = EMPTY_IMAGE.apply(records)
    index = PartitionIndex.of(image)

    def change():
        delta = ImageDelta(image)
        delta.replay(PartitionChangeRecord(topic_id=ids[5], partition_id=1, leader=-1))
        index.after(image, delta, delta.build(Provenance()))

    return calls_of(change)


def test_a_change_costs_what_it_changes_however_many_partitions_there_are():
    """A tree of 64 children a node is one level deeper at 64 times as many."""
    assert cost_of_a_change(1_000) <= cost_of_a_change(100) + 20


def test_very_many_partitions_are_built_indexed_and_compared_in_steps():
    """Each step is short: it has some hundred keys."""
    records = []
    for number in range(1_000):
        topic_id = number.to_bytes(16, "little")
        records += [
            TopicRecord(name=f"t{number}", topic_id=topic_id),
            PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1),
        ]
    delta = ImageDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    building = delta.building(Provenance())
    assert sum(1 for _ in building) >= 2
    image = EMPTY_IMAGE.apply(records)
    assert sum(1 for _ in PartitionIndex.making(image)) >= 2
    assert sum(1 for _ in differing(EMPTY_IMAGE, image)) >= 9
