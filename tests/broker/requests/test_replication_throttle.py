"""The throttle of one side: settings of the broker and of topics, as they are now."""

import pytest

from stratalog.broker.control.dynamic_config import effective_config
from stratalog.broker.requests.replication_throttle import ReplicationThrottle, ThrottledSide
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.settings.config import load_config
from stratalog.metadata.image.configs_image import ResourceType
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.records.metadata import ConfigRecord, TopicRecord

TOPIC_ID = b"i" * 16


class World:
    """A broker whose image changes."""

    def __init__(self, given, side=ThrottledSide.LEADER):
        self.given = given
        self.image = EMPTY_IMAGE.apply([TopicRecord(name="t", topic_id=TOPIC_ID)])
        config = lambda: effective_config(self.given, self.image)  # noqa: E731
        self.throttle = ReplicationThrottle(side, config=config, image=lambda: self.image)

    def put(self, name, value, resource="t", kind=ResourceType.TOPIC):
        self.image = self.image.apply(
            [ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)]
        )

    def put_rate(self, name, value, broker=""):
        self.put(name, value, broker, ResourceType.BROKER)


@pytest.fixture
def world(tmp_path):
    """Broker 1 as a leader, with a rate of 1000 in its file."""
    path = tmp_path / "server.properties"
    path.write_text("node.id=1\nleader.replication.throttled.rate=1000\nreplication.quota.window.size.seconds=2\n")
    return World(load_config(path=str(path)))


def test_the_newest_rate_counts(world):
    """The setting of this broker comes first, then that of all, then the file."""
    throttle = world.throttle
    assert throttle.allowed_bytes(0) == 2000
    world.put_rate("leader.replication.throttled.rate", "500")
    world.put_rate("follower.replication.throttled.rate", "7")
    assert throttle.allowed_bytes(0) == 1000
    world.put_rate("leader.replication.throttled.rate", "100", "2")
    world.put_rate("leader.replication.throttled.rate", "200", "1")
    assert throttle.allowed_bytes(0) == 400
    world.put_rate("leader.replication.throttled.rate", None, "1")
    throttle.record(500, 0)
    assert throttle.wait_ms(0) == pytest.approx(200, abs=2)


def test_replicas_are_named_by_their_topic(world):
    """By its name and by its id; a topic that is gone is not throttled."""
    throttle = world.throttle
    world.put("leader.replication.throttled.replicas", "0:1,1:2")
    assert [throttle.is_throttled("t", number) for number in range(2)] == [True, False]
    assert [throttle.is_key_throttled(PartitionKey(TOPIC_ID, number)) for number in range(2)] == [True, False]
    assert not throttle.is_key_throttled(PartitionKey(b"j" * 16, 0))


def test_each_side_has_settings_of_its_own(world):
    """A follower does not look at the leader's."""
    world = World(world.given, ThrottledSide.FOLLOWER)
    world.put("leader.replication.throttled.replicas", "*")
    assert not world.throttle.is_throttled("t", 0)
    world.put("follower.replication.throttled.replicas", "*")
    assert world.throttle.is_throttled("t", 0)
    assert world.throttle.allowed_bytes(0) > 1e18


def test_its_bytes_are_shown(world):
    """Under the name that the JMX exporter gives Kafka's attribute."""
    metrics = Metrics()
    world.throttle.add_figure(metrics, "LeaderReplication", lambda: 10.0)
    world.throttle.record(40_000, 10_000)
    assert "kafka_server_leaderreplication_byte_rate 2000.0" in metrics.render().decode()
