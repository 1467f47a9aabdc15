"""The replicas that a topic names as throttled."""

import pytest

from stratalog.metadata.image.configs_image import ResourceType
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.quotas.throttled_replicas import ThrottledReplicas
from stratalog.wire.records.metadata import ConfigRecord

NAME = "leader.replication.throttled.replicas"


class Cluster:
    """An image that changes."""

    def __init__(self):
        self.image = EMPTY_IMAGE

    def put(self, value, topic="t", name=NAME):
        record = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)
        self.image = self.image.apply([record])


@pytest.fixture
def cluster():
    """The cluster of broker 1."""
    return Cluster()


@pytest.fixture
def replicas(cluster):
    """Those of broker 1."""
    return ThrottledReplicas(NAME, 1, lambda: cluster.image)


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("*", {0, 1, 2}),
        (" * ", {0, 1, 2}),
        ("0:1", {0}),
        ("0:1,1:2, 2:1", {0, 2}),
        ("0:11,1:10", set()),
        ("", set()),
        (",", set()),
        ("02:01", {2}),
        ("9" * 6000 + ":1", set()),
    ],
)
def test_pairs_of_this_broker_count(cluster, replicas, value, numbers):
    """``partition:broker`` pairs, or all of the topic; no other topic's."""
    cluster.put(value)
    assert {number for number in range(3) if ("t", number) in replicas} == numbers
    assert ("other", 0) not in replicas


def test_changes_count_at_once(cluster, replicas):
    """The setting is read anew when the topic's settings are others, and forgotten when it goes."""
    cluster.put("0:1", name="follower.replication.throttled.replicas")
    assert ("t", 0) not in replicas
    cluster.put("0:1")
    assert ("t", 0) in replicas
    cluster.put("1:1")
    assert ("t", 0) not in replicas
    assert ("t", 1) in replicas
    cluster.put(None)
    assert ("t", 1) not in replicas
    assert not replicas._read
