"""The listeners of a controller beside those of its broker."""

import pytest

from stratalog.broker.api.controller_apis import CONTROLLER_APIS
from stratalog.client.link import BrokerUnavailable
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.metadata import MetadataRequest


def test_two_servers_of_one_process_share_figures(shared_controller):
    """Each figure stands once on ``/metrics``; connections are counted by listener, and memory is added up."""
    with_controller = shared_controller.link()
    with_controller.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    shared_controller.running.link().call(MetadataRequest(topics=None), 12)
    text = shared_controller.metrics.render().decode()
    lines = [
        line for line in text.splitlines() if line.startswith("kafka_server_socket_server_metrics_connection_count{")
    ]
    assert sorted(line.split('"')[1] for line in lines) == ["CONTROLLER", "PLAINTEXT"]
    memory = [line for line in text.splitlines() if line.startswith("stratalog_network_receive_buffer_bytes ")]
    assert len(memory) == 1
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_clients_do_not_hear_of_the_controllers_listener(shared_controller):
    """Metadata names the address of the listener that was asked; the registration has no other."""
    node = shared_controller.running
    (broker,) = node.link().call(MetadataRequest(topics=None), 12).brokers
    assert broker.port == node.port != shared_controller.port
    assert list(node.node.image.brokers.brokers[node.node.node_id].listeners) == ["PLAINTEXT"]


def test_the_listener_has_the_port_that_was_bound(shared_controller):
    """Registrations and voters name it so."""
    told = shared_controller.listener.told
    assert {name: (at.host, at.port) for name, at in told.items()} == {
        "CONTROLLER": ("127.0.0.1", shared_controller.port)
    }


def test_a_key_of_brokers_closes_the_connection_on_the_controllers_listener(shared_controller):
    """As in Kafka: the table of the listener decides."""
    link = shared_controller.link()
    with pytest.raises(BrokerUnavailable):
        link.call(MetadataRequest(topics=None), 12)


def test_the_controllers_listener_announces_its_own_table(shared_controller):
    """``ApiVersions`` lists just its rows, with their versions."""
    expected = {api.key: api.advertised for api in CONTROLLER_APIS}
    assert dict(shared_controller.link().api_ranges()) == expected


def test_a_request_of_the_largest_size_fits_with_its_envelope(shared_controller):
    """The limit of the listener is above that of clients by what an envelope adds."""
    limits = shared_controller.listener.server.limits.connection
    assert limits.frame_bytes_max >= shared_controller.config.integer("socket.request.max.bytes") + (64 << 10)
    assert limits.elements_max >= 50_000


def test_quotas_and_limits_follow_the_image(shared_controller):
    """Settings that change while it runs hold for the controller's clients, too."""
    before = shared_controller.listener.server.limits
    shared_controller.running.run(
        shared_controller.listener.follow, shared_controller.image, shared_controller.running.node.config
    )
    assert shared_controller.listener.server.limits == before
