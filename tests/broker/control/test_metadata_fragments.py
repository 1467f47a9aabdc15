"""Bytes of topics that are kept from one Metadata answer to the next."""

import pytest

from stratalog.broker.control.metadata_fragments import MetadataFragments
from stratalog.broker.runtime.slices import to_the_end
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from stratalog.wire.metadata_answer import topic_bytes
from stratalog.wire.records.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)


def topic_id(name):
    return name.encode().ljust(16)


def created(image, *names):
    records = []
    for name in names:
        records.append(TopicRecord(name=name, topic_id=topic_id(name)))
        records.append(
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id(name),
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)],
            )
        )
    return image.apply(records)


class Describing:
    """Makes answers, and counts them; the topics in ``failing`` cannot be served."""

    def __init__(self):
        self.described = []
        self.failing = set()

    def __call__(self, topic):
        self.described.append(topic.name)
        partitions = [
            MetadataResponsePartition(
                error_code=5 if topic.name in self.failing else 0,
                partition_index=number,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=[],
                isr_nodes=[],
            )
            for number, state in topic.partitions.items()
        ]
        answer = MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        return answer, topic.name not in self.failing

    def taken(self):
        """The topics described since the last call."""
        described, self.described = self.described, []
        return described


@pytest.fixture
def describe():
    return Describing()


@pytest.fixture
def everything(describe):
    """Asks for all topics; what had to be described."""
    fragments = MetadataFragments()

    def everything(image, version=12, failures=0, listener="L"):
        form = version, listener
        encoded = to_the_end(fragments.everything(image, form, describe, failures=failures))
        taken = describe.taken()
        expected = b"".join(topic_bytes(describe(topic)[0], version) for topic in image.topics.by_name.values())
        assert (encoded.data, encoded.topic_count) == (expected, len(image.topics.by_name))
        describe.taken()
        return taken

    everything.fragments = fragments
    return everything


def test_only_what_has_changed_is_described_again(everything):
    """New topics, changed ones; those that are gone are no longer listed."""
    image = created(EMPTY_IMAGE, "a", "b")
    assert everything(image) == ["a", "b"]
    assert everything(image) == []
    image = created(image, "c")
    assert everything(image) == ["c"]
    image = image.apply([PartitionChangeRecord(partition_id=0, topic_id=topic_id("b"), leader=1)])
    assert everything(image) == ["b"]
    image = image.apply([RemoveTopicRecord(topic_id=topic_id("a"))])
    assert everything(image) == []
    assert everything(created(image, "a")) == ["a"]


def test_each_version_has_its_bytes(everything):
    """They are described once for each."""
    image = created(EMPTY_IMAGE, "a")
    assert everything(image, 12) == ["a"]
    assert everything(image, 1) == ["a"]
    assert everything(image, 12) == everything(image, 1) == []


def test_one_topic_and_all_of_them_share_their_bytes(everything, describe):
    """Whichever is asked for first."""
    image = created(EMPTY_IMAGE, "a", "b")
    topic = image.topics.by_name["b"]
    fragments = everything.fragments
    form = 12, "L"
    found = fragments.topic(topic, image.brokers, form, describe, failures=0)
    assert found == topic_bytes(Describing()(topic)[0], 12)
    assert describe.taken() == ["b"]
    assert everything(image) == ["a"]
    fragments.topic(topic, image.brokers, form, describe, failures=0)
    assert describe.taken() == []


def test_a_topic_that_cannot_be_served_is_looked_at_each_time(everything, describe):
    """Until it can; the others are kept."""
    image = created(EMPTY_IMAGE, "a", "b")
    describe.failing = {"a"}
    assert everything(image) == ["a", "b"]
    assert everything(image) == ["a"]
    describe.failing = set()
    assert everything(image) == ["a"]
    assert everything(image) == []


def test_a_failed_directory_makes_everything_void(everything):
    """The topics that lie in it are not known here."""
    image = created(EMPTY_IMAGE, "a", "b")
    everything(image)
    assert everything(image, failures=1) == ["a", "b"]
    assert everything(image, failures=1) == []


def registration(*, fenced):
    return RegisterBrokerRecord(
        broker_id=1, broker_epoch=1, incarnation_id=bytes(16), end_points=[], features=[], rack=None, fenced=fenced
    )


def test_a_broker_that_comes_or_is_fenced_makes_everything_void(everything):
    """Its replicas are offline in the answers for topics that have not changed."""
    image = created(EMPTY_IMAGE, "a", "b")
    everything(image)
    for fenced in (True, False):
        image = image.apply([registration(fenced=fenced)])
        assert everything(image) == ["a", "b"]
        assert everything(image) == []


def test_each_listener_has_its_bytes(everything):
    """A leader may be reached by one and not by another."""
    image = created(EMPTY_IMAGE, "a")
    assert everything(image) == everything(image, listener="M") == ["a"]
    assert everything(image) == everything(image, listener="M") == []


def test_an_answer_that_was_begun_before_a_change_of_brokers_leaves_nothing_behind(describe):
    """Another request has learnt of the change during a pause."""
    fragments, form = MetadataFragments(), (12, "L")
    before = created(EMPTY_IMAGE, *(f"t{number:03}" for number in range(120)))
    steps = fragments.everything(before, form, describe, failures=0)
    next(steps)
    after = before.apply([registration(fenced=True)])
    to_the_end(fragments.everything(after, form, describe, failures=0))
    assert to_the_end(steps).topic_count == 120
    describe.taken()
    to_the_end(fragments.everything(after, form, describe, failures=0))
    assert describe.taken() == []
    to_the_end(fragments.everything(before, form, describe, failures=0))
    assert len(describe.taken()) == 120


def test_topics_that_are_gone_do_not_pile_up(everything):
    """Their bytes go when they are many."""
    image = created(EMPTY_IMAGE, *(f"gone-{number}" for number in range(1100)))
    everything(image)
    image = image.apply([RemoveTopicRecord(topic_id=topic_id(name)) for name in list(image.topics.by_name)])
    image = created(image, "a", "b")
    everything(image)
    assert sorted(everything.fragments._topics[12, "L"]) == ["a", "b"]
