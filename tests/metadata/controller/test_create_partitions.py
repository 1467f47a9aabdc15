"""More partitions for several topics at once; what one topic may ask for is in test_controller_topics.py."""

import pytest
from msgspec import structs

from stratalog.metadata.controller.controller import NewPartitions, NewTopic, create_partitions, create_topics
from stratalog.metadata.controller.reassign_partitions import Move, reassign_partitions
from stratalog.metadata.controller.topics import (
    TopicRules,
    creating_partitions,
    creating_topics,
)
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def image(cluster, rules, topic_ids):
    """One broker and the topics t and u of one partition each."""
    image = cluster(1)
    topics = [NewTopic("t"), NewTopic("u")]
    return image.apply(create_topics(image, topics, rules, new_topic_id=topic_ids, next_int=lambda _: 0).records)


def codes(decision):
    return {name: None if failure is None else failure.code for name, failure in decision.result}


def asked(image, *wanted, **options):
    return create_partitions(image, wanted, next_int=lambda _: 0, **options)


def test_partitions_by_default_count_as_any_others(cluster, rules, topic_ids):
    """A request for many topics of the default count could ask for millions."""
    many = [NewTopic(f"t{number}") for number in range(101)]
    hundred = structs.replace(rules, default_partition_count=100)
    decision = create_topics(cluster(1), many, hundred, new_topic_id=topic_ids, next_int=lambda _: 0)
    assert {failure.code for _, failure in decision.result} == {ErrorCode.POLICY_VIOLATION}
    decision = create_topics(cluster(1), many[:100], hundred, new_topic_id=topic_ids, next_int=lambda _: 0)
    assert {topic.partition_count for _, topic in decision.result} == {100}


def test_each_topic_succeeds_or_fails_for_itself(image):
    """Those that can be have their records, in one decision."""
    decision = asked(image, NewPartitions("t", 3), NewPartitions("absent", 2), NewPartitions("u", 1))
    assert codes(decision) == {
        "t": None,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "u": ErrorCode.INVALID_PARTITIONS,
    }
    after = image.apply(decision.records)
    assert list(after.topics.by_name["t"].partitions) == [0, 1, 2]
    assert [one.leader for one in after.topics.by_name["t"].partitions.values()] == [1, 1, 1]


def test_a_topic_named_twice_gets_nothing(image):
    """INVALID_REQUEST once; the other topic is served."""
    decision = asked(image, NewPartitions("t", 3), NewPartitions("t", 4), NewPartitions("u", 2))
    assert codes(decision) == {"t": ErrorCode.INVALID_REQUEST, "u": None}


def test_validation_writes_nothing(image):
    """The answers are those of the change."""
    decision = asked(image, NewPartitions("t", 3), NewPartitions("u", 0), validate_only=True)
    assert codes(decision) == {"t": None, "u": ErrorCode.INVALID_PARTITIONS}
    assert decision.records == ()


def test_a_request_has_a_limit(image):
    """10,000 new partitions together, before any of them is placed."""
    decision = asked(image, NewPartitions("t", 9_001), NewPartitions("u", 1_002))
    assert codes(decision) == {"t": None, "u": ErrorCode.POLICY_VIOLATION}
    assert codes(asked(image, NewPartitions("t", (1 << 31) - 1))) == {"t": ErrorCode.POLICY_VIOLATION}


def test_new_replicas_go_to_no_broker_that_stops_or_has_no_room(world, rules, topic_ids):
    """Leaving and fully cordoned brokers are left out; a fenced one follows where its place is needed, out of sync."""
    one = world()
    one.start(1, 2, 3, 4, 5)
    one.topic("t", (1, 2))
    one.beat(1, wants_shutdown=True)
    one.beat(2, cordoned_directories=(b"\x02" * 16,))
    one.beat(3, wants_fence=True)
    new = NewTopic("u", partition_count=6, replication_factor=3)
    one.do(create_topics(one.image, [new], rules, new_topic_id=topic_ids, next_int=lambda _: 0))
    for state in one.image.topics.by_name["u"].partitions.values():
        assert sorted(state.replicas) == [3, 4, 5]
        assert state.replicas[-1] == 3
        assert sorted(state.in_sync_replicas) == [4, 5]
    failed = one.do(
        create_topics(one.image, [NewTopic("v", 1, 4)], rules, new_topic_id=topic_ids, next_int=lambda _: 0)
    )
    assert failed[0][1].code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_broker_that_has_stopped_in_order_gets_replicas_as_any_that_is_away(world, rules, topic_ids, leads):
    """A topic of three replicas is made while one of three brokers is restarted; it follows, out of sync."""
    one = world()
    one.start(1, 2, 3)
    one.topic("t", (1, 2) if leads else (2, 1))
    while not one.beat(1, wants_shutdown=True).should_shut_down:
        one.beat(2)
        one.beat(3)
    one.do(create_topics(one.image, [NewTopic("u", 2, 3)], rules, new_topic_id=topic_ids, next_int=lambda _: 0))
    for state in one.image.topics.by_name["u"].partitions.values():
        assert (state.replicas[-1], sorted(state.in_sync_replicas)) == (1, [2, 3])
    one.do(create_partitions(one.image, [NewPartitions("u", 3)], next_int=lambda _: 0))
    assert sorted(one.state("u", 2).replicas) == [1, 2, 3]


@pytest.mark.parametrize("assignments", [None, [[1, 2]]], ids=["placed", "named"])
def test_partitions_that_are_added_during_a_move_have_as_many_replicas_as_the_others(world, assignments):
    """While the first partition moves, its replicas are the old and the new ones."""
    one = world()
    one.start(1, 2, 3, 4)
    one.topic("t", (1, 2))
    one.do(reassign_partitions(one.view, [Move(TopicPartition("t", 0), (3, 4))]))
    assert len(one.state("t").replicas) == 4
    added = create_partitions(one.image, [NewPartitions("t", 2, assignments)], next_int=lambda _: 0)
    assert codes(added) == {"t": None}
    one.do(added)
    assert len(one.state("t", 1).replicas) == 2


def test_partitions_of_a_topic_whose_brokers_are_all_gone_are_refused_with_their_own_code(world, rules, topic_ids):
    """INVALID_REPLICA_ASSIGNMENT for those that a caller placed on fenced brokers, by the number of the partition."""
    one = world()
    one.start(1, 2)
    one.topic("t", (1,))
    one.beat(2, wants_fence=True)
    found = create_partitions(one.image, [NewPartitions("t", 2, [[2]])], next_int=lambda _: 0).result
    assert found[0][1].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "for partition 1 are fenced" in found[0][1].message


def test_one_large_topic_is_decided_in_small_steps(world):
    """A topic with the most partitions does not hold the loop, nor does one that grows."""
    one = world()
    one.start(1)
    rules = TopicRules(resolver=ConfigResolver.for_topics({}), tiering_enabled=False)
    topic = NewTopic("t", partition_count=1_000, replication_factor=1)
    chance = {"next_int": lambda _bound: 0}
    assert len(list(creating_topics(one.image, [topic], rules, new_topic_id=lambda: b"t" * 16, **chance))) > 15
    one.topic("u", (1,))
    assert len(list(creating_partitions(one.image, [NewPartitions("u", 1_001)], **chance))) > 15
