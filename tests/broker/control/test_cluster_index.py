"""The index beside the image."""

import random

import pytest

from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.image.partition_index import PartitionIndex
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.records.metadata import (
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)

IDS = [bytes([number]) * 16 for number in range(1, 6)]


class Resolvers:
    """Makes resolvers and counts them."""

    def __init__(self):
        self.made = 0

    def __call__(self, image):
        self.made += 1
        return ConfigResolver.for_topics()


@pytest.fixture
def resolvers():
    return Resolvers()


@pytest.fixture
def index(resolvers):
    return ClusterIndex(resolvers)


def after(image, *records):
    """The next image and its delta."""
    delta = ImageDelta(image)
    for record in records:
        delta.replay(record)
    return delta.build(Provenance()), delta


def topic(number, leader=1):
    """A topic with one partition on the brokers 1 and 2."""
    topic_id = IDS[number]
    return (
        TopicRecord(name=f"t{number}", topic_id=topic_id),
        PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=leader),
    )


def keys(found):
    return sorted((held.topic.topic_id, held.number) for held in found)


def test_an_image_that_follows_is_indexed_by_its_changes_and_another_one_anew(index, monkeypatch):
    """The cost of an image is that of its delta; a snapshot has none."""
    first, delta = after(EMPTY_IMAGE, *topic(0))
    index.follow(first, delta)
    made = []
    making = PartitionIndex.making
    monkeypatch.setattr(PartitionIndex, "making", classmethod(lambda _cls, image: made.append(image) or making(image)))
    second, delta = after(first, *topic(1, leader=-1))
    index.follow(second, delta)
    assert not made
    assert (index.index.partition_count, index.index.leaderless_count, index.index.not_preferred_count) == (2, 1, 1)
    index.follow(second, None)
    assert not made
    other, delta = after(EMPTY_IMAGE, *topic(2))
    index.follow(other, None)
    assert made == [other]


@pytest.mark.parametrize("seed", range(3))
def test_the_view_finds_what_a_search_finds(index, seed):
    """Random changes; some come as a snapshot does."""
    dice = random.Random(seed)
    image = EMPTY_IMAGE
    for _ in range(40):
        absent = [number for number, topic_id in enumerate(IDS) if topic_id not in image.topics.by_id]
        if absent and dice.random() < 0.3:
            records = topic(dice.choice(absent))
        elif image.topics.by_id:
            topic_id = dice.choice(list(image.topics.by_id))
            records = [PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=dice.choice([-1, 1, 2]))]
        else:
            records = [NoOpRecord()]
        image, delta = after(image, *records)
        index.follow(image, None if dice.random() < 0.2 else delta)
        view, searched = index.view(image), index.view(after(image, NoOpRecord())[0])
        assert view.index is index.index
        assert searched.index is None
        for broker_id in (1, 2, 3):
            assert keys(searched.held_by(broker_id)) == keys(view.held_by(broker_id))
        assert keys(searched.leaderless()) == keys(view.leaderless())
        assert keys(searched.not_preferred()) == keys(view.not_preferred())


def test_settings_are_resolved_anew_only_when_they_have_changed(index, resolvers):
    """A view of an image is asked for by each heartbeat."""
    image, delta = after(EMPTY_IMAGE, *topic(0), *topic(1))
    index.follow(image, delta)
    made = resolvers.made
    assert index.view(image).settings("t0").min_in_sync_replicas == 1
    image, delta = after(image, NoOpRecord())
    index.follow(image, delta)
    assert index.view(image) is index.view(image)
    assert resolvers.made == made
    minimum = ConfigRecord(resource_type=2, resource_name="t0", name="min.insync.replicas", value="2")
    image, delta = after(image, minimum)
    index.follow(image, delta)
    assert resolvers.made == made + 1
    assert [index.view(image).settings(name).min_in_sync_replicas for name in ("t0", "t1")] == [2, 1]
