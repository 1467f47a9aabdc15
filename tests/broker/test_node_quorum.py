"""The links and the first records with which a node opens its replica of the metadata log."""

import pytest

from stratalog.broker.quorum.quorum_links import QuorumLinks
from stratalog.broker.quorum.quorum_peers import NoPeers
from stratalog.metadata.image.features import bootstrap_records
from tests.broker.nodes_of_a_cluster import RunningNodes


def parts(member):
    """The things that the quorum of a running node works with."""
    return member.node.quorum._parts


def test_a_node_of_one_has_no_links(start_node):
    """Its settings name no other."""
    assert isinstance(parts(start_node()).peers, NoPeers)


@pytest.mark.parametrize("setting", ["controller.quorum.bootstrap.servers", "controller.quorum.voters"])
def test_a_node_of_several_asks_the_servers_of_its_settings(tmp_path, setting):
    """Or the static voters, which are servers as well."""
    nodes = RunningNodes(tmp_path, {100: "controller", 1: "broker"})
    if setting.endswith("voters"):
        for member in nodes.members.values():
            del member.settings["controller.quorum.bootstrap.servers"]
            member.settings[setting] = f"100@127.0.0.1:{nodes.ports[100]}"
    nodes.start()
    try:
        for member in nodes.members.values():
            peers = parts(member).peers
            assert isinstance(peers, QuorumLinks)
            assert peers.servers == [("127.0.0.1", nodes.ports[100])]
        assert tuple(nodes[100].node.quorum.image.features) == tuple(
            record.name for record in bootstrap_records() if hasattr(record, "feature_level")
        )
    finally:
        nodes.stop()
