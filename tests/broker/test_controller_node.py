"""A process that is a controller and no broker, with a broker beside it."""

import json
import urllib.request

import pytest

from stratalog.wire.errors import Invalid
from tests.broker.nodes_of_a_cluster import RunningNodes


@pytest.fixture
def nodes(tmp_path):
    """One controller, one broker."""
    made = RunningNodes(tmp_path, {100: "controller", 1: "broker"})
    yield made
    made.stop()


def test_a_broker_serves_by_the_word_of_a_controller_elsewhere(nodes):
    """Registered, unfenced, forwarded; a restart of both finds everything again."""
    nodes.start()
    controller, broker = nodes[100], nodes[1]
    broker.create("t", 3)
    broker.wait_until(lambda: "t" in broker.node.image.topics.by_name)
    assert broker.produce("t", b"a", b"b") == [0, 1]
    assert sorted(controller.run(lambda: controller.node.image.topics.by_name)) == ["t"]
    registered = controller.node.image.brokers.brokers[1]
    assert not registered.is_fenced
    assert broker.node.quorum.leader.leader_id == 100
    assert not broker.node.quorum.is_voter
    nodes.stop()
    nodes.start()
    broker.wait_until(lambda: broker.node.partitions.get(broker_partition("t")) is not None)
    assert broker.values("t") == [b"a", b"b"]
    assert broker.node.image.brokers.brokers[1].epoch > registered.epoch


def broker_partition(topic):
    from stratalog.wire.topic import TopicPartition

    return TopicPartition(topic, 0)


def test_its_figures_and_its_readiness_stand_on_http(nodes):
    """Kafka's names for the active controller; ready once a leader is known."""
    nodes.start(100)
    controller = nodes[100]
    controller.wait_until(lambda: controller.node.quorum.is_active)
    host, port = controller.node.http_address[:2]
    with urllib.request.urlopen(f"http://{host}:{port}/readyz") as answer:
        assert answer.status == 200
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
        figures = answer.read().decode()
    assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in figures
    assert 'kafka_server_raftmetrics_current_state{current_state="leader"} 1.0' in figures
    assert "kafka_server_raftmetrics_number_of_voters 1.0" in figures
    assert "brokermetadatametrics" not in figures
    assert json.dumps(controller.node.not_ready()) == "[]"


def test_directories_that_are_not_formatted_are_refused(tmp_path):
    """A controller that made up an id might have voted before, under another."""
    made = RunningNodes(tmp_path, {100: "controller"}, **{"controller.quorum.voters": ""})
    member = made[100]
    member.directory = str(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="is not formatted"):
        member.start()
    member.stop()
