"""Which topics of a request a group hears of."""

from types import SimpleNamespace

from stratalog.metadata.groups.offsets.topics import RefusedTopic, admit_topics, give_ids, give_names
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from stratalog.wire.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from stratalog.wire.topic import ZERO_UUID

ID = b"t" * 16
NO_ID = b"?" * 16
TOPIC = SimpleNamespace(name="t", topic_id=ID, partitions={0: None, 1: None})
IMAGE = SimpleNamespace(topics=SimpleNamespace(by_name={"t": TOPIC}, by_id={ID: TOPIC}))


def topic(name, *partitions, topic_id=ZERO_UUID):
    listed = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata=None)
        for index in partitions
    ]
    return OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=listed)


def admitted(topics, forbidden=(), *, by_id=False):
    kept, refused = admit_topics(topics, IMAGE, lambda name: name not in forbidden, by_id=by_id)
    return {one.name: [part.partition_index for part in one.partitions] for one in kept}, refused


def test_known_topics_are_not_refused():
    """No topic is refused, and the topics are those of the request."""
    wanted = [topic("t", 0, 1)]
    kept, refused = admit_topics(wanted, IMAGE, lambda _: True)
    assert kept == wanted
    assert kept[0] is wanted[0]
    assert refused == []
    assert admitted([topic("t")]) == ({"t": []}, [])


def test_unknown_partitions_are_refused_and_the_others_not():
    """Partitions that do not exist are refused, the others go on."""
    refused = [RefusedTopic("t", ZERO_UUID, [2], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert admitted([topic("t", 1, 2)]) == ({"t": [1]}, refused)
    assert admitted([topic("t", 2)]) == ({}, refused)


def test_an_unknown_topic_is_refused_by_its_name_or_id():
    """A topic that does not exist is refused by its name, or by its id where the client knows topics by ids."""
    assert admitted([topic("u", 0)]) == ({}, [RefusedTopic("u", ZERO_UUID, [0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    by_id = [topic("", 0, topic_id=NO_ID)]
    assert admitted(by_id, by_id=True) == ({}, [RefusedTopic("", NO_ID, [0], ErrorCode.UNKNOWN_TOPIC_ID)])


def test_a_forbidden_topic_looks_like_a_missing_one():
    """A client that may not read a topic does not learn whether it exists."""
    for name in ("t", "u"):
        refused = [RefusedTopic(name, ZERO_UUID, [5], ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        assert admitted([topic(name, 5)], forbidden=("t", "u")) == ({}, refused)


def test_topic_without_ids():
    """Other requests have names only."""
    wanted = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=7)])
    refused = [RefusedTopic("t", ZERO_UUID, [7], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert admit_topics([wanted], IMAGE, lambda _: True) == ([], refused)


def test_names_and_ids():
    """Topics get the name of their id, or the id of their name; what does not exist gets neither."""
    by_id = [topic("old", topic_id=ID), topic("old", topic_id=NO_ID)]
    give_names(by_id, IMAGE)
    assert [one.name for one in by_id] == ["t", ""]
    by_name = [topic("t"), topic("u")]
    give_ids(by_name, IMAGE)
    assert [one.topic_id for one in by_name] == [ID, ZERO_UUID]
