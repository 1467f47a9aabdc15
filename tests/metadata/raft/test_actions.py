"""Everything that a node does."""

from typing import get_args

from sim.raft import node as simulated
from stratalog.metadata.raft.actions import BOOTSTRAP, Action


def test_the_simulated_driver_carries_out_every_action():
    """And no other: an action that no driver knows would be lost."""
    assert set(simulated._DO) == set(get_args(Action))


def test_a_bootstrap_server_has_no_id_of_a_node():
    """Node ids are not negative."""
    assert BOOTSTRAP < 0
