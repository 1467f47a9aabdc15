"""Topics and partitions."""

import random
from dataclasses import replace

import pytest

from stratalog.metadata.image.topics_image import (
    NO_LEADER,
    LeaderRecovery,
    PartitionImage,
    TopicsDraft,
    TopicsImage,
)
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import ClearElrRecord, PartitionChangeRecord, PartitionRecord, TopicRecord

_ONE, _TWO = b"1" * 16, b"2" * 16
_FULL = PartitionImage(
    replicas=(1, 2, 3),
    in_sync_replicas=(2, 3),
    leader=2,
    leader_epoch=4,
    partition_epoch=9,
    leader_recovery=LeaderRecovery.RECOVERING,
    directories=(b"d" * 16,) * 3,
    adding_replicas=(3,),
    removing_replicas=(1,),
    eligible_leader_replicas=(1,),
    last_known_eligible=(3,),
)


def _image(**partitions):
    draft = TopicsDraft(TopicsImage())
    for name, topic_id in (("one", _ONE), ("two", _TWO)):
        draft.create(TopicRecord(name=name, topic_id=topic_id))
        draft.put_partition(partitions.get(name, _FULL).to_record(topic_id, 0))
    return draft.build(1)


def test_a_partition_survives_its_record():
    """Every field goes into the record and comes back."""
    assert PartitionImage.of(_FULL.to_record(_ONE, 0)) == _FULL
    assert _FULL.preferred_replica == 1


def test_a_change_that_names_a_leader_raises_the_leader_epoch():
    """Also if it names the same one; the partition epoch rises with every change."""
    after = _FULL.changed(PartitionChangeRecord(topic_id=_ONE, leader=2))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 5, 10)
    gone = _FULL.changed(PartitionChangeRecord(topic_id=_ONE, leader=NO_LEADER))
    assert (gone.leader, gone.leader_epoch) == (NO_LEADER, 5)


def test_a_change_that_names_no_leader_keeps_the_leader_epoch():
    """A smaller in-sync set is not a new leadership."""
    after = _FULL.changed(PartitionChangeRecord(topic_id=_ONE, isr=[2]))
    assert (after.in_sync_replicas, after.leader_epoch, after.partition_epoch) == ((2,), 4, 10)


def test_a_change_says_everything_it_names():
    """Each field of the record that is not null takes effect, an empty list too."""
    record = PartitionChangeRecord(
        topic_id=_ONE,
        isr=[9],
        replicas=[9, 8],
        adding_replicas=[],
        removing_replicas=[],
        leader_recovery_state=0,
        directories=[b"x" * 16, b"y" * 16],
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
    assert _FULL.changed(record) == PartitionImage(
        (9, 8), (9,), leader=2, leader_epoch=4, partition_epoch=10, directories=(b"x" * 16, b"y" * 16)
    )


def test_untouched_topics_are_the_same_objects():
    """Structural sharing: only the changed topic is new, and carries the new version."""
    image = _image()
    draft = TopicsDraft(image)
    draft.change_partition(PartitionChangeRecord(topic_id=_ONE, partition_id=0, leader=3))
    after = draft.build(2)
    assert after.by_name["two"] is image.by_name["two"]
    assert after.by_name["one"] is after.by_id[_ONE]
    assert (image.by_name["one"].version, after.by_name["one"].version) == (1, 2)
    assert image.partition("one", 0) == _FULL
    assert draft.changed_ids == {_ONE}


def test_a_partition_that_does_not_exist_is_none():
    """Neither an unknown topic nor an unknown number raises."""
    assert _image().partition("three", 0) is None
    assert _image().partition("one", 1) is None


def test_a_draft_without_changes_gives_its_base_back():
    """An unchanged draft copies nothing."""
    image = _image()
    assert TopicsDraft(image).build(5) is image


def test_a_topic_recreated_in_one_batch_has_its_new_id():
    """Delete and create under the same name in one batch."""
    draft = TopicsDraft(_image())
    assert draft.remove(_ONE) == "one"
    draft.create(TopicRecord(name="one", topic_id=b"3" * 16))
    after = draft.build(2)
    assert after.by_name["one"].topic_id == b"3" * 16
    assert set(after.by_id) == {_TWO, b"3" * 16}
    assert draft.removed == {_ONE: "one"}


def test_a_topic_created_and_removed_in_one_batch_leaves_no_trace():
    """Its name is free again at once."""
    image = _image()
    draft = TopicsDraft(image)
    for _ in range(2):
        draft.create(TopicRecord(name="three", topic_id=b"3" * 16))
        draft.remove(b"3" * 16)
    assert draft.build(2) is image


def test_clearing_eligible_replicas_touches_one_topic_or_all():
    """A name clears that topic, the empty name every topic; partitions without any stay as they are."""
    plain = PartitionImage((1,), (1,), leader=1)
    image = _image(two=plain)
    draft = TopicsDraft(image)
    draft.clear_eligible(ClearElrRecord(topic_name="one"))
    cleared = draft.build(2).partition("one", 0)
    assert cleared is not None
    assert (cleared.eligible_leader_replicas, cleared.last_known_eligible) == ((), ())
    everything = TopicsDraft(image)
    everything.clear_eligible(ClearElrRecord(topic_name=""))
    assert everything.build(2).partition("two", 0) == plain


@pytest.mark.parametrize(
    "step",
    [
        lambda draft: draft.create(TopicRecord(name="other", topic_id=_ONE)),
        lambda draft: draft.create(TopicRecord(name="one", topic_id=b"3" * 16)),
        lambda draft: draft.put_partition(_FULL.to_record(b"3" * 16, 0)),
        lambda draft: draft.change_partition(PartitionChangeRecord(topic_id=_ONE, partition_id=7)),
        lambda draft: draft.remove(b"3" * 16),
        lambda draft: (draft.remove(_ONE), draft.remove(_ONE)),
        lambda draft: (draft.remove(_ONE), draft.put_partition(_FULL.to_record(_ONE, 1))),
        lambda draft: draft.clear_eligible(ClearElrRecord(topic_name="three")),
    ],
)
def test_a_record_that_does_not_fit_is_corrupt(step):
    """A log that contradicts itself is never guessed at."""
    with pytest.raises(Corrupt):
        step(TopicsDraft(_image()))


def test_eligible_replicas_are_cleared_without_a_touch_of_other_topics():
    """A topic that has none is the same object afterwards, also if all are cleared."""
    image = _image(two=replace(_FULL, eligible_leader_replicas=(), last_known_eligible=()))
    draft = TopicsDraft(image)
    draft.clear_eligible(ClearElrRecord(topic_name=""))
    after = draft.build(2)
    assert after.by_name["two"] is image.by_name["two"]
    assert after.partition("one", 0).eligible_leader_replicas == ()
    assert dict(draft.changed_partitions) == {_ONE: {0}}


def test_names_that_look_alike_are_found_by_their_key():
    """The key follows creations and removals; names without dot and underscore have none."""
    draft = TopicsDraft(TopicsImage())
    for number, name in enumerate(("a.b", "plain", "c_d")):
        draft.create(TopicRecord(name=name, topic_id=bytes([number + 1]) * 16))
    image = draft.build(1)
    assert dict(image.by_collision_key) == {"a_b": ("a.b",), "c_d": ("c_d",)}
    draft = TopicsDraft(image)
    draft.remove(b"\x01" * 16)
    draft.create(TopicRecord(name="a_b", topic_id=b"9" * 16))
    draft.remove(b"\x03" * 16)
    assert dict(draft.build(2).by_collision_key) == {"a_b": ("a_b",)}


def test_an_image_of_many_topics_shares_almost_all_with_the_next():
    """One topic more among 1,000: no other topic is copied, and lookups find old and new ones."""
    draft = TopicsDraft(TopicsImage())
    for number in range(1000):
        draft.create(TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big")))
    image = draft.build(1)
    draft = TopicsDraft(image)
    draft.create(TopicRecord(name="new", topic_id=b"n" * 16))
    draft.remove((7).to_bytes(16, "big"))
    after = draft.build(2)
    assert (len(after.by_id), len(after.by_name)) == (1000, 1000)
    assert after.by_name["new"].topic_id == b"n" * 16
    assert "t7" not in after.by_name
    assert all(after.by_id[topic_id] is topic for topic_id, topic in image.by_id.items() if topic.name != "t7")


def test_partitions_are_counted_as_they_come_and_go():
    """At the cost of what has changed; the count is that of a look at all."""
    dice = random.Random(3)
    image, ids = TopicsImage(), []
    for number in range(200):
        draft = TopicsDraft(image)
        for _ in range(dice.randrange(1, 4)):
            if ids and dice.random() < 0.3:
                draft.remove(ids.pop(dice.randrange(len(ids))))
                continue
            topic_id = dice.choice(ids) if ids and dice.random() < 0.4 else dice.randbytes(16)
            if topic_id not in ids:
                ids.append(topic_id)
                draft.create(TopicRecord(name=topic_id.hex(), topic_id=topic_id))
            draft.put_partition(
                PartitionRecord(partition_id=dice.randrange(5), topic_id=topic_id, replicas=[1], isr=[1])
            )
        image = draft.build(number)
        assert image.partition_count == sum(len(topic.partitions) for topic in image.by_id.values())
