"""More partitions for several topics at once; what one topic may ask for is in test_controller_topics.py."""

import pytest

from stratalog.metadata.controller.controller import NewPartitions, NewTopic, create_partitions, create_topics
from stratalog.wire.errors import ErrorCode


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
