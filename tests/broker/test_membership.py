"""A broker's registration, seen from a broker that has lost it."""

import pytest

from stratalog.client.link import BrokerLink
from stratalog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.nodes_of_a_cluster import RunningNodes


@pytest.fixture
def nodes(tmp_path):
    """One controller, one broker."""
    made = RunningNodes(tmp_path, {100: "controller", 1: "broker"}).start()
    yield made
    made.stop()


def test_a_broker_that_was_unregistered_registers_anew_and_leads_again(nodes):
    """Under a new epoch and a new incarnation; its records are there."""
    broker = nodes[1]
    broker.create("t")
    broker.produce("t", b"kept")
    before = broker.node.image.brokers.brokers[1]
    leader_epoch = broker.partition("t").partition.leader_epoch
    with BrokerLink("127.0.0.1", nodes.ports[100]) as link:
        answer = link.call(UnregisterBrokerRequest(broker_id=1), 0)
    assert answer.error_code == 0

    def back():
        mine = broker.node.image.brokers.brokers.get(1)
        return mine is not None and mine.epoch > before.epoch and not mine.is_fenced

    broker.wait_until(back)
    broker.wait_until(lambda: broker.partition("t").partition.leader_epoch > leader_epoch)
    assert broker.node.image.brokers.brokers[1].incarnation_id != before.incarnation_id
    assert broker.values("t") == [b"kept"]


def test_a_broker_is_in_contact_while_its_controller_answers(nodes):
    """Its session can be over once the controller has been silent for long enough."""
    broker = nodes[1]
    lifecycle = broker.node.cluster.membership.lifecycle
    assert broker.run(lambda: lifecycle.in_contact)
    nodes[100].stop()
    broker.wait_until(lambda: not lifecycle.in_contact)
