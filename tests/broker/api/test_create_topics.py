"""CreateTopics: topics that can be written to when the answer comes, or a reason why not."""

import pytest

from stratalog.broker.api.create_topics import API
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from stratalog.wire.topic import ZERO_UUID


def topic(name="t", partitions=1, replicas=1, assignments=(), **configs):
    """One topic of a request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=at, broker_ids=list(ids)) for at, ids in assignments],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def request(*topics, validate_only=False):
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_can_be_written_to_when_the_answer_comes(broker, version):
    """With its settings and counts from version 5 on and its id from version 7 on."""
    (answer,) = broker.link().call(request(topic(partitions=2, retention_ms="1000")), version).topics
    assert (answer.name, answer.error_code) == ("t", 0)
    assert (answer.topic_id != ZERO_UUID) == (version >= 7)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (2, 1)
        configs = {one.name: (one.value, one.config_source) for one in answer.configs}
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["segment.bytes"] == ("1073741824", 5)
        assert "internal.segment.bytes" not in configs
    assert broker.produce("t", b"v", partition=1) == [0]
    assert broker.partition("t").log.config.retention_ms == 1000


def test_each_topic_succeeds_or_fails_for_itself(broker):
    """The good one is made although the others of the request are refused, each with Kafka's code."""
    topics = [
        topic("good"),
        topic("bad name"),
        topic("none", partitions=0),
        topic("wide", replicas=3),
        topic("odd", retention_ms="soon"),
        topic("strange", no_such_setting="1"),
        topic("elsewhere", partitions=-1, replicas=-1, assignments=[(0, [99])]),
    ]
    answers = broker.link().call(request(*topics), 7).topics
    assert {one.name: ErrorCode(one.error_code) for one in answers} == {
        "good": ErrorCode.NONE,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "none": ErrorCode.INVALID_PARTITIONS,
        "wide": ErrorCode.INVALID_REPLICATION_FACTOR,
        "odd": ErrorCode.INVALID_CONFIG,
        "strange": ErrorCode.INVALID_CONFIG,
        "elsewhere": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    assert all(one.error_message for one in answers if one.error_code)
    assert list(broker.node.image.topics.by_name) == ["good"]


def test_a_topic_is_made_once(broker):
    """TOPIC_ALREADY_EXISTS, and the first one is untouched; twice in one request is INVALID_REQUEST."""
    link = broker.link()
    first = link.call(request(topic()), 7).topics[0].topic_id
    assert link.call(request(topic(partitions=9)), 7).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert broker.node.image.topics.by_name["t"].topic_id == first
    twice = link.call(request(topic("u"), topic("u")), 7).topics
    assert {one.error_code for one in twice} == {ErrorCode.INVALID_REQUEST}
    assert "u" not in broker.node.image.topics.by_name


def test_validation_makes_nothing(broker):
    """The answer says what would be made."""
    (answer,) = broker.link().call(request(topic(partitions=4), validate_only=True), 7).topics
    assert (answer.error_code, answer.num_partitions) == (0, 4)
    assert broker.node.image.topics.by_name == {}


def test_minus_one_takes_the_brokers_defaults(start_node):
    """num.partitions and default.replication.factor (KIP-464)."""
    node = start_node(num_partitions=5)
    (answer,) = node.link().call(request(topic(partitions=-1, replicas=-1)), 7).topics
    assert (answer.num_partitions, answer.replication_factor) == (5, 1)
    assert len(node.node.partitions) == 5


def test_explicit_assignments_are_kept(broker):
    """The partitions are those of the assignment."""
    me = broker.node.node_id
    wanted = topic(partitions=-1, replicas=-1, assignments=[(0, [me]), (1, [me])])
    (answer,) = broker.link().call(request(wanted), 7).topics
    assert (answer.error_code, answer.num_partitions) == (0, 2)


def test_topics_are_there_after_a_restart(broker):
    """With the same id and settings, read from the metadata log."""
    topic_id = broker.link().call(request(topic(retention_ms="777")), 7).topics[0].topic_id
    broker.restart()
    assert broker.node.image.topics.by_name["t"].topic_id == topic_id
    assert broker.partition("t").log.config.retention_ms == 777


TOO_MANY = (
    "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only 3 "
    "broker(s) are registered or some brokers have all their log directories cordoned."
)


class TestOverManyBrokers:
    """Topics of a controller of three brokers."""

    @pytest.fixture
    def one(self, memory_controller):
        one = memory_controller()
        one.start(1, 2, 3)
        return one

    def made(self, one, *topics):
        """The code and the message of each topic."""
        answer = one.ask(API, request(*topics))
        return [(ErrorCode(each.error_code), each.error_message) for each in answer.topics]

    def test_leaders_are_spread_over_all_of_them(self, one):
        """As many for each, in their one directory."""
        assert self.made(one, topic("t", partitions=6)) == [(ErrorCode.NONE, None)]
        states = one.image.topics.by_name["t"].partitions.values()
        assert sorted(state.leader for state in states) == [1, 1, 2, 2, 3, 3]
        assert all(state.replicas == state.in_sync_replicas == (state.leader,) for state in states)
        assert all(state.directories == (bytes([state.leader]) * 16,) for state in states)

    def test_a_fenced_broker_and_one_that_stops_lead_nothing_new(self, one):
        """New replicas go to the others."""
        one.topic("held", (2,))
        one.beat(1, wants_fence=True)
        one.beat(2, wants_shutdown=True)
        self.made(one, topic("t", partitions=6))
        assert {state.replicas for state in one.image.topics.by_name["t"].partitions.values()} == {(3,)}

    def test_more_replicas_than_brokers_are_refused_in_kafkas_words(self, one):
        """As many as there are brokers are kept, also of a tiered topic."""
        wanted = [topic("four", replicas=4), topic("good", replicas=3, remote_storage_enable="true")]
        assert self.made(one, *wanted) == [(ErrorCode.INVALID_REPLICATION_FACTOR, TOO_MANY), (ErrorCode.NONE, None)]

    def test_replicas_that_are_named_go_where_they_are_named(self, one):
        """One for each partition."""
        named = topic("named", partitions=-1, replicas=-1, assignments=[(1, [3]), (0, [2])])
        assert self.made(one, named) == [(ErrorCode.NONE, None)]
        assert [one.state("named", number).replicas for number in (0, 1)] == [(2,), (3,)]
