"""A value left out of collections is freed by its reference count, as all else."""

import gc
import weakref
from dataclasses import dataclass

from stratalog.metadata.image.topics_image import TopicsDraft, TopicsImage
from stratalog.metadata.maps.uncollected import leave_out_of_collections
from stratalog.wire.records.metadata import PartitionChangeRecord, PartitionRecord, TopicRecord

_ID = b"1" * 16


@dataclass(slots=True, weakref_slot=True)
class _Value:
    held: object


def _image(partitions: int) -> TopicsImage:
    draft = TopicsDraft(TopicsImage())
    draft.create(TopicRecord(name="orders", topic_id=_ID))
    for number in range(partitions):
        draft.put_partition(PartitionRecord(topic_id=_ID, partition_id=number, replicas=[1], isr=[1], leader=1))
    return draft.build(1)


def test_a_value_that_is_left_out_is_not_looked_at_and_is_freed():
    """With collections off, the last reference frees it and what it holds."""
    held = _Value(None)
    value = _Value(held)
    gone = [weakref.ref(held), weakref.ref(value)]
    assert gc.is_tracked(value)
    leave_out_of_collections(value)
    leave_out_of_collections(value)
    assert not gc.is_tracked(value)
    assert not any(found is value for found in gc.get_objects())
    gc.disable()
    try:
        del held, value
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_a_dict_is_looked_at_again_once_something_is_put_into_it():
    """A draft's dict may be left out, copied and filled: cycles through the copy are found."""
    numbers = {1: _Value(1)}
    leave_out_of_collections(numbers)
    assert not gc.is_tracked(numbers)
    copied = numbers.copy()
    copied[2] = _Value(copied)
    gone = weakref.ref(copied[2])
    assert gc.is_tracked(copied)
    del copied
    gc.collect()
    assert gone() is None


def test_topics_and_partitions_are_left_out_also_after_a_change():
    """Neither a new image nor the next one adds partitions to what a full collection looks at."""
    image = _image(3)
    draft = TopicsDraft(image)
    draft.change_partition(PartitionChangeRecord(topic_id=_ID, partition_id=1, isr=[], leader=-1))
    for one in (image, draft.build(2)):
        topic = one.by_id[_ID]
        assert not gc.is_tracked(topic)
        assert not gc.is_tracked(topic.partitions)
        assert [gc.is_tracked(partition) for partition in topic.partitions.values()] == [False] * 3


def test_an_image_that_changes_all_over_adds_next_to_nothing():
    """Thousands of topics whose partitions have all changed: what is left to look at is the nodes of two maps."""
    draft = TopicsDraft(TopicsImage())
    ids = [number.to_bytes(16, "big") for number in range(3000)]
    for topic_id in ids:
        draft.create(TopicRecord(name=topic_id.hex(), topic_id=topic_id))
        draft.put_partition(PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1))
    image = draft.build(1)
    gc.collect()
    before = len(gc.get_objects())
    draft = TopicsDraft(image)
    for topic_id in ids:
        draft.change_partition(PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[], leader=-1))
    changed = draft.build(2)
    del draft
    gc.collect()
    assert len(gc.get_objects()) - before < 300
    assert changed.by_id[ids[0]].partitions[0].leader == -1


def test_an_image_that_goes_takes_its_partitions_along():
    """Images made and thrown away a thousand times leave no object behind."""
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(1000):
        _image(5)
    gc.collect()
    assert len(gc.get_objects()) - before < 100
