"""The two forms of a broker's cluster offer the same."""

import pytest

from stratalog.broker.joined_cluster import JoinedCluster
from stratalog.broker.node_cluster import NodeCluster
from stratalog.broker.own_cluster import OwnCluster


@pytest.mark.parametrize("form", [OwnCluster, JoinedCluster])
def test_each_form_has_all_that_a_broker_asks_of_its_cluster(form):
    """By name; the types are the type checker's."""
    offered = {name for name in vars(NodeCluster) if name[0] != "_"}
    assert offered == {
        "broker_state",
        "control",
        "membership",
        "producer_ids",
        "forwarding",
        "placements",
        "cluster_view",
        "join",
        "enter",
        "leave",
        "close",
    }
    in_init = form.__init__.__code__.co_names
    assert [name for name in sorted(offered) if not hasattr(form, name) and name not in in_init] == []
