"""DescribeCluster: who is there."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.records.metadata import ControllerEndpoint, RegisterControllerRecord


def request(*, operations=False, **options):
    return DescribeClusterRequest(include_cluster_authorized_operations=operations, **options)


@pytest.mark.parametrize("version", range(3))
def test_the_broker_is_its_own_controller(start_node, version):
    """With the cluster's id, the address of the listener that was asked, and its rack."""
    node = start_node(broker_rack="b12")
    answer = node.link().call(request(), version)
    assert (answer.error_code, answer.cluster_id) == (0, node.node.cluster_id)
    assert answer.controller_id == node.node.node_id
    (only,) = answer.brokers
    assert (only.broker_id, only.host, only.port, only.rack) == (node.node.node_id, "127.0.0.1", node.port, "b12")
    assert not only.is_fenced


def test_operations_are_answered_when_asked_for(broker):
    """A bit set, or the smallest number if not asked for."""
    link = broker.link()
    assert link.call(request(), 2).cluster_authorized_operations == -(1 << 31)
    assert link.call(request(operations=True), 2).cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_controllers_are_not_described_by_a_broker(broker, endpoint, code):
    """The error says so, and nothing is listed."""
    answer = broker.link().call(request(endpoint_type=endpoint), 1)
    assert (answer.error_code, answer.brokers) == (code, [])


def test_the_cluster_keeps_its_id_over_restarts(broker):
    """It is written into every log directory."""
    before = broker.node.cluster_id
    broker.restart()
    assert broker.link().call(request(), 2).cluster_id == before


@pytest.fixture
def controllers(shared_controller):
    """A controller of an image that has controller 7 on its listener, and 8 on another one."""
    records = tuple(
        RegisterControllerRecord(
            controller_id=number,
            incarnation_id=bytes(16),
            zk_migration_ready=False,
            end_points=[ControllerEndpoint(name=name, host=f"c{number}", port=9093, security_protocol=0)],
            features=[],
        )
        for number, name in ((7, "CONTROLLER"), (8, "OTHER"))
    )
    shared_controller.running.run(lambda: shared_controller.control.write(records))
    leader_id = shared_controller.last_leader_id
    yield shared_controller
    shared_controller.last_leader_id = leader_id


def test_a_controller_describes_the_registered_controllers(controllers):
    """At the listener that was asked, with the last leader of the metadata quorum; one without that listener is left out."""
    controllers.last_leader_id = 7
    answer = controllers.link().call(request(endpoint_type=2, operations=True), 2)
    assert (answer.error_code, answer.endpoint_type) == (0, 2)
    assert (answer.cluster_id, answer.controller_id) == (controllers.cluster_id, 7)
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [(7, "c7", 9093)]
    assert answer.cluster_authorized_operations > 0


@pytest.mark.parametrize("leader_id", [-1, 8])
def test_clients_ask_again_while_no_controller_can_be_named(controllers, leader_id):
    """Kafka's admin client would stop for five minutes at an answer without a controller that it can reach."""
    controllers.last_leader_id = leader_id
    answer = controllers.link().call(request(endpoint_type=2), 2)
    assert (answer.error_code, answer.controller_id) == (ErrorCode.LEADER_NOT_AVAILABLE, leader_id)
    assert answer.error_message.startswith(
        f"No active controller is known to node {controllers.node_id} on the listener"
    )
    assert [one.broker_id for one in answer.brokers] == [7]
