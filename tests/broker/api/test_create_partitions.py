"""CreatePartitions: topics grow, and the new partitions are served at once."""

import pytest

from stratalog.broker.api.create_partitions import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def topic(name, count, *assignments):
    """A topic's new size, with the brokers of each new partition where they are given."""
    given = [CreatePartitionsAssignment(broker_ids=list(each)) for each in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given or None)


def ask(broker, *topics, version=3, validate_only=False):
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=30_000, validate_only=validate_only)
    results = broker.link().call(request, version).results
    return {one.name: (ErrorCode(one.error_code), one.error_message) for one in results}


@pytest.mark.parametrize("version", range(4))
def test_new_partitions_can_be_written_when_the_answer_comes(broker, version):
    """The client sees them, and they are there after a restart."""
    broker.create("t")
    assert ask(broker, topic("t", 3), version=version) == {"t": (ErrorCode.NONE, None)}
    for number in range(3):
        assert broker.produce("t", b"x", partition=number) == [0]
    broker.restart()
    (described,) = broker.client().refresh(["t"])
    assert [(one.partition, one.leader) for one in described.partitions] == [(0, 1), (1, 1), (2, 1)]
    assert [broker.values("t", number) for number in range(3)] == [[b"x"]] * 3


def test_assignments_are_taken_and_checked(broker):
    """One for each new partition, each on the brokers that are there."""
    node = broker.node.node_id
    broker.create("t")
    assert ask(broker, topic("t", 3, [node], [node])) == {"t": (ErrorCode.NONE, None)}
    for assignments in ([[node]], [[node], [77]], [[node], [node, node]], [[node], []]):
        code, message = ask(broker, topic("t", 5, *assignments))["t"]
        assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message


def test_topics_succeed_or_fail_for_themselves(broker):
    """Unknown ones, those that would shrink, and those named twice."""
    for name in ("same", "fewer", "more", "twice"):
        broker.create(name, 2)
    found = ask(
        broker,
        topic("same", 2),
        topic("fewer", 1),
        topic("more", 3),
        topic("absent", 2),
        topic("twice", 3),
        topic("twice", 4),
    )
    assert found == {
        "same": (ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        "fewer": (
            ErrorCode.INVALID_PARTITIONS,
            "The topic fewer currently has 2 partition(s); 1 would not be an increase.",
        ),
        "more": (ErrorCode.NONE, None),
        "absent": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, found["absent"][1]),
        "twice": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    }
    assert len(broker.client().refresh(["twice"])[0].partitions) == 2


def test_validation_changes_nothing(broker):
    """The answer is that of the change."""
    broker.create("t")
    assert ask(broker, topic("t", 3), validate_only=True) == {"t": (ErrorCode.NONE, None)}
    assert len(broker.client().refresh(["t"])[0].partitions) == 1


def test_the_new_partitions_of_a_tiered_topic_are_tiered(broker):
    """They have the topic's settings and an archive of their own."""
    broker.create("t", remote_storage_enable="true")
    ask(broker, topic("t", 2))
    unified = broker.partition("t", 1)
    assert unified.log.config.remote_storage_enable
    broker.wait_until(lambda: broker.node.tiering.describe(unified).state not in {"", "local"})


def test_a_failure_as_a_whole_is_answered_for_each_topic():
    """With its name."""
    request = CreatePartitionsRequest(topics=[topic("t", 2)], timeout_ms=1, validate_only=False)
    (result,) = API.failure(request, 3, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why")).results
    assert (result.name, result.error_code, result.error_message) == ("t", -1, "why")


def test_partitions_that_are_added_are_spread_over_the_brokers_of_a_controller(memory_controller):
    """By the factor that the topic has."""
    one = memory_controller()
    one.start(1, 2, 3)
    one.topic("t", (1,))
    one.topic("wide", (1, 2))
    asked = CreatePartitionsRequest(topics=[topic("t", 7), topic("wide", 2)], timeout_ms=1000, validate_only=False)
    results = one.ask(API, asked).results
    assert [ErrorCode(each.error_code).name for each in results] == ["NONE", "NONE"]
    assert len(one.state("wide", 1).replicas) == 2
    leaders = [one.state(number=number).leader for number in range(1, 7)]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
