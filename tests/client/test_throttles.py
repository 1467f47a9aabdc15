"""The throttle is set and removed under Kafka's names, on brokers and topics."""

import pytest

from stratalog.client.client import Client
from stratalog.client.throttles import FOLLOWERS, LEADERS, RATES, remove_throttle, set_throttle, throttled_replicas
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_configs import AlterConfigsResourceResponse
from stratalog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from tests.client import told_topics as told


@pytest.fixture
def cluster(scripted):
    """A broker that keeps all changes; ``codes`` are errors by name."""
    scripted.ranges = {18: (0, 4), 32: (1, 4), 44: (0, 1)}
    scripted.codes = {}
    scripted.told = []

    def alter(request):
        for one in request.resources:
            scripted.told.append(
                (
                    one.resource_type,
                    one.resource_name,
                    {each.name: (each.config_operation, each.value) for each in one.configs},
                )
            )
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=scripted.codes.get(one.resource_name, 0),
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one in request.resources
            ]
        )

    scripted.answers[44] = alter
    return scripted


def test_topics_come_before_brokers_and_the_rate_holds_for_both_sides(cluster):
    """A rate without replicas would hold for none."""
    with Client(cluster.address, 5) as client:
        client.brokers = {1: ("127.0.0.1", cluster.port), 2: ("127.0.0.1", cluster.port)}
        set_throttle(client, {2, 1}, 1000, {"t": (["0:1", "1:2"], ["0:2"])})
    assert cluster.told == [
        (2, "t", {LEADERS: (0, "0:1,1:2"), FOLLOWERS: (0, "0:2")}),
        (4, "1", dict.fromkeys(RATES, (0, "1000"))),
        (4, "2", dict.fromkeys(RATES, (0, "1000"))),
    ]


def test_a_list_that_no_record_holds_throttles_the_topic_as_a_whole(cluster):
    """4,000 partitions with three replicas: 32,767 bytes are all that a setting may have."""
    leaders = [f"{number}:{broker}" for number in range(4000) for broker in (1, 2, 3)]
    with Client(cluster.address, 5) as client:
        set_throttle(client, (), 1000, {"t": (leaders, ["0:4"])})
    assert cluster.told == [(2, "t", {LEADERS: (0, "*"), FOLLOWERS: (0, "0:4")})]


def test_a_topic_that_was_deleted_meanwhile_has_no_throttle(cluster):
    """A broker that is away is left out. Any other refusal is raised."""
    cluster.codes["gone"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with Client(cluster.address, 5) as client:
        client.brokers = {1: ("127.0.0.1", cluster.port), 2: ("127.0.0.1", 1)}
        remove_throttle(client, [1, 2], ["gone"])
        assert cluster.told == [
            (4, "1", dict.fromkeys(RATES, (1, None))),
            (2, "gone", dict.fromkeys((LEADERS, FOLLOWERS), (1, None))),
        ]
        cluster.codes["1"] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError, match="1: cluster authorization failed"):
            remove_throttle(client, [1], [])


def test_throttled_replicas_are_those_of_topics_with_such_a_setting_of_their_own(cluster):
    """Defaults do not count."""
    answer = told.configs({"a": {LEADERS: "0:1"}, "b": {LEADERS: ""}})
    answer.results[1].configs[0].config_source = 5
    cluster.answers[32] = answer
    with Client(cluster.address, 5) as client:
        assert throttled_replicas(client, ["b", "a"]) == {"a": ("0:1",)}


def test_lists_of_throttled_replicas_are_read_beside_a_topic_that_goes(cluster):
    """The list of topics is older than the answer about their settings."""
    answer = told.configs({"a": {LEADERS: "0:1"}, "gone": {}})
    answer.results[1].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.answers[32] = answer
    with Client(cluster.address, 5) as client:
        assert throttled_replicas(client, ["a", "gone"]) == {"a": ("0:1",)}
