"""The difference of two images names all that the records in between have changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.image.difference import difference, differing
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.wire.records.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NAMES = "abc"
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "remove", "elect", "set"]), st.sampled_from(NAMES), st.integers(1, 3)),
    max_size=12,
)


def topic_id(name, life):
    return name.encode().ljust(15, b".") + bytes([life])


def records(image, step, life):
    """The records of one step, none where it cannot be."""
    kind, name, number = step
    known = image.topics.by_name.get(name)
    if kind == "create" and known is None:
        new = topic_id(name, life)
        state = {"replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
        yield TopicRecord(name=name, topic_id=new)
        for partition in range(number):
            yield PartitionRecord(topic_id=new, partition_id=partition, **state)
    elif kind == "remove" and known is not None:
        yield RemoveTopicRecord(topic_id=known.topic_id)
    elif kind == "elect" and known is not None and number <= len(known.partitions):
        yield PartitionChangeRecord(topic_id=known.topic_id, partition_id=number - 1, leader=1)
    elif kind == "set" and known is not None:
        yield ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value=str(number))


@given(before=STEPS, after=STEPS)
def test_the_difference_names_all_that_records_have_changed_and_that_still_differs(before, after):
    """A topic that came and went in between is in neither image; one that was changed back need not be named."""
    image, life = EMPTY_IMAGE, 0
    for step in before:
        life += 1
        image = image.apply(records(image, step, life))
    base = image
    for step in after:
        life += 1
        delta = ImageDelta(image)
        for record in records(image, step, life):
            delta.replay(record)
        image = delta.build(Provenance(life, 1, 0))
    found = difference(base, image)
    old, new = base.topics.by_id, image.topics.by_id
    assert set(found.removed_topics) == set(old) - set(new)
    changed = {one for one in new if one not in old or new[one].partitions != old[one].partitions}
    assert found.changed_topic_ids == set(found.changed_partitions) == changed
    for one in changed:
        states = old[one].partitions if one in old else {}
        assert set(found.changed_partitions[one]) == {
            number for number, state in new[one].partitions.items() if states.get(number) != state
        }
    settings = base.configs.by_resource, image.configs.by_resource
    assert found.changed_resources == {
        one for one in {*settings[0], *settings[1]} if settings[0].get(one) != settings[1].get(one)
    }


def test_an_image_does_not_differ_from_itself():
    """No topic is looked into."""
    found = difference(EMPTY_IMAGE, EMPTY_IMAGE)
    assert not found.changed_topic_ids
    assert not found.removed_topics
    assert not found.changed_resources


def many_settings():
    return [
        ConfigRecord(resource_type=2, resource_name=f"t{one}", name="retention.ms", value="1") for one in range(5000)
    ]


def many_partitions():
    yield TopicRecord(name="a", topic_id=topic_id("a", 1))
    for number in range(5000):
        yield PartitionRecord(
            topic_id=topic_id("a", 1),
            partition_id=number,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )


def many_topics():
    return [TopicRecord(name=f"t{one}", topic_id=one.to_bytes(16, "little")) for one in range(5000)]


@pytest.mark.parametrize("made", [many_settings, many_partitions, many_topics])
def test_very_many_things_are_looked_at_in_steps(made):
    """Others have their turns, when a node that serves clients gets the leader's snapshot."""
    image = EMPTY_IMAGE.apply(made())
    for before, after in ((EMPTY_IMAGE, image), (image, EMPTY_IMAGE), (image, EMPTY_IMAGE.apply(made()))):
        if made is not many_partitions or after is not EMPTY_IMAGE:
            assert sum(1 for _ in differing(before, after)) >= 5
