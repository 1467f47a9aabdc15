"""The faults of a heartbeat, in Kafka's words."""

import pytest

from stratalog.metadata.groups.consumer.requests import check_heartbeat, is_full, owned_partitions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

ASSIGNORS = ("uniform", "range")
JOIN = {"rebalance_timeout_ms": 1, "subscribed_topic_names": [], "topic_partitions": []}


def _request(**fields):
    return ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 1, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"member_epoch": 0, **JOIN, "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
        ({"member_epoch": 0, **JOIN, "topic_partitions": None}, "TopicPartitions must be empty when"),
        (
            {"member_epoch": 0, **JOIN, "topic_partitions": [TopicPartitions(topic_id=b"a" * 16, partitions=[0])]},
            "TopicPartitions must be empty when",
        ),
        ({"member_epoch": 0, **JOIN, "subscribed_topic_names": None}, "Either SubscribedTopicNames or"),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_an_incomplete_request_is_invalid(fields, message):
    """INVALID_REQUEST, with the sentence that says what is missing."""
    with pytest.raises(KafkaError, match=message) as caught:
        check_heartbeat(_request(**fields), 1, ASSIGNORS)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_assignor_is_answered_with_the_known_ones():
    """UNSUPPORTED_ASSIGNOR names those that there are."""
    with pytest.raises(KafkaError, match=r"sticky is not supported\. Supported assignors: uniform, range\.") as caught:
        check_heartbeat(_request(server_assignor="sticky"), 1, ASSIGNORS)
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"member_epoch": 0, **JOIN},
        {"member_epoch": 0, **JOIN, "subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"member_epoch": -1},
        {"member_epoch": -2, "instance_id": "i"},
        {"server_assignor": "range"},
    ],
)
def test_all_legal_requests_are_valid(fields):
    """All that members may say."""
    check_heartbeat(_request(**fields), 1, ASSIGNORS)


def test_member_id_of_version_0():
    """In version 0 the coordinator makes the id of a member that joins."""
    check_heartbeat(_request(member_id="", member_epoch=0, **JOIN), 0, ASSIGNORS)


def test_a_full_request_has_time_out_subscription_and_owned_partitions():
    """A full request has the time-out, a subscription and what is owned."""
    assert is_full(_request(**JOIN))
    assert not any(is_full(_request(**{**JOIN, name: -1 if name.endswith("ms") else None})) for name in JOIN)


def test_owned_partitions_are_none_if_the_request_leaves_them_out():
    """The owned partitions, by topic; None if the request says nothing."""
    assert owned_partitions(_request()) is None
    listed = [
        TopicPartitions(topic_id=b"a" * 16, partitions=[1, 2]),
        TopicPartitions(topic_id=b"a" * 16, partitions=[3]),
    ]
    assert owned_partitions(_request(topic_partitions=listed)) == {b"a" * 16: {1, 2, 3}}
