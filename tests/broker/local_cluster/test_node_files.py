"""The files of a cluster on one machine: what each node is given, and that Kafka's rules take it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.local_cluster.node_files import NodePorts, cluster_layout
from stratalog.broker.settings.config import load_config
from stratalog.broker.settings.file import parse_properties
from stratalog.metadata.formatting.initial_voters import parse_initial_voters
from stratalog.wire.errors import Invalid

IDS = [bytes([200 + number]) * 16 for number in range(12)]
PORTS = [NodePorts(clients=9092 + number, controller=19092 + number, http=8080 + number) for number in range(3)]


def laid_out(ports=PORTS, directory="/c", **options):
    options = {"cluster_id": "4L6g3nShT-eMCtK--X86sw", "bucket_url": "file:///c/bucket", **options}
    return cluster_layout(ports, directory, directory_ids=IDS[: len(ports)], **options)


def config_of(node):
    return load_config(assignments=[f"{name}={value}" for name, value in node.settings.items()])


def test_every_node_is_broker_controller_and_voter():
    """One quorum, one bucket, and directories, ports and a directory id of its own for each."""
    layout = laid_out()
    configs = [config_of(node) for node in layout.nodes]
    assert [one.node_id for one in configs] == [1, 2, 3]
    assert all(one.roles.is_combined and one.roles.has_peers for one in configs)
    assert len({one.roles.quorum.bootstrap_servers for one in configs}) == 1
    assert {one.bucket_url for one in configs} == {"file:///c/bucket"}
    assert [one.log_dirs for one in configs] == [("/c/node-1",), ("/c/node-2",), ("/c/node-3",)]
    assert [(one.listeners[0].port, one.http_port) for one in configs] == [(9092, 8080), (9093, 8081), (9094, 8082)]
    voters = parse_initial_voters(layout.initial_controllers)
    assert [(one.node_id, one.port, one.directory_id) for one in voters] == [
        (number, 19091 + number, IDS[number - 1]) for number in (1, 2, 3)
    ]
    assert [one.controller_address for one in configs] == [(one.host, one.port) for one in voters]
    assert layout.nodes[1].properties_path == "/c/node-2.properties"


def test_nodes_reach_each_other_at_advertised_ports_and_clients_directly():
    """A proxy may stand before the listeners of brokers and controllers; clients have a listener of their own."""
    ports = [
        NodePorts(clients=1, brokers=2, controller=3, http=4, told_brokers=12, told_controller=13),
        NodePorts(clients=5, brokers=6, controller=7, http=8, told_brokers=16, told_controller=17),
    ]
    layout = laid_out(ports)
    config = config_of(layout.nodes[0])
    assert {one.name: one.port for one in config.listeners} == {"PLAINTEXT": 1, "BROKERS": 2}
    assert {one.name: one.port for one in config.advertised_listeners} == {"PLAINTEXT": 1, "BROKERS": 12}
    assert config.roles.inter_broker_listener == "BROKERS"
    assert (config.controller_listeners[0].port, config.controller_address) == (3, ("127.0.0.1", 13))
    assert [one.port for one in parse_initial_voters(layout.initial_controllers)] == [13, 17]
    assert config.values["controller.quorum.bootstrap.servers"] == ("127.0.0.1:13", "127.0.0.1:17")


def test_settings_of_all_nodes_win():
    """Over those of the layout as well."""
    layout = laid_out(settings={"num.partitions": "7", "stratalog.bucket.url": "s3://b/p"})
    assert {config_of(node).integer("num.partitions") for node in layout.nodes} == {7}
    assert {config_of(node).bucket_url for node in layout.nodes} == {"s3://b/p"}


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_topics_are_on_up_to_three_nodes_and_one_may_be_killed(count, replicas, in_sync):
    """Those of clients and the internal ones; with one node away, acks=all is still answered."""
    settings = laid_out([PORTS[0]] * count).nodes[0].settings
    factors = (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    )
    assert [settings[name] for name in factors] == [str(replicas)] * 3
    assert [settings[name] for name in ("min.insync.replicas", "transaction.state.log.min.isr")] == [str(in_sync)] * 2


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=30))
def test_a_properties_file_reads_back_as_its_settings(text):
    """Also blanks at the ends of a value, line ends and backslashes."""
    (node,) = laid_out(PORTS[:1], settings={"broker.rack": text}).nodes
    found = {each.name: each.text for each in parse_properties(node.properties, "x")}
    assert found == node.settings


@pytest.mark.parametrize("count", [0, 10])
def test_a_number_of_nodes_that_cannot_be_is_refused(count):
    """None, or more than one machine should run."""
    with pytest.raises(Invalid, match=f"{count} nodes cannot be"):
        laid_out([PORTS[0]] * count)
