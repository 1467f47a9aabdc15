"""Links between real nodes are cut: who leads, in which epoch, and how clients are answered meanwhile."""

from __future__ import annotations

import time

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import BrokerAway, Client
from stratalog.client.quorum import QuorumAdmin
from stratalog.wire.errors import ErrorCode, KafkaError

pytestmark = [pytest.mark.cluster, pytest.mark.story]

FETCH_TIMEOUT_SECONDS = 2.0
SETTINGS = {"controller.quorum.fetch.timeout.ms": "1000", "controller.quorum.election.timeout.ms": "500"}


@pytest.fixture
def cluster(stratalog_cluster):
    """Three nodes that serve, with quicker elections."""
    return stratalog_cluster(nodes=3, settings=SETTINGS)


def told(cluster, node_id):
    """The quorum as this node tells it; None while it cannot."""
    try:
        with Client(cluster.address(node_id), 3.0) as client:
            return QuorumAdmin(client).describe()
    except (BrokerAway, KafkaError):
        return None


def until(look, seconds=20.0):
    """The first true value of ``look``."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.05)
    return found


def make(cluster, node_id, name, seconds=30.0):
    with Client(cluster.address(node_id), seconds) as client:
        create_topic(client, name, partition_count=1)


def has(cluster, node_id, name):
    with Client(cluster.address(node_id), 5.0) as client:
        return any(topic.name == name for topic in client.refresh())


def test_an_isolated_voter_that_comes_back_begins_no_epoch(cluster):
    """It has asked for pre-votes all the time, which raise nothing (KIP-996)."""
    leader = cluster.active_controller()
    epoch = told(cluster, leader).leader_epoch
    lonely = next(one for one in cluster.node_ids if one != leader)
    cluster.isolate(lonely)
    time.sleep(4)
    make(cluster, leader, "meanwhile")
    cluster.heal()
    until(lambda: has(cluster, lonely, "meanwhile"))
    time.sleep(2)
    after = told(cluster, leader)
    assert (after.leader_id, after.leader_epoch) == (leader, epoch)
    make(cluster, lonely, "afterwards")


@pytest.mark.parametrize("to_leader", [True, False])
def test_a_voter_that_is_cut_off_one_way_disturbs_no_other(cluster, to_leader):
    """It cannot reach the leader, or hears no answer of it. The third voter hears the leader, and grants nothing."""
    leader = cluster.active_controller()
    epoch = told(cluster, leader).leader_epoch
    follower = next(one for one in cluster.node_ids if one != leader)
    cluster.partition(*((follower, leader) if to_leader else (leader, follower)), one_way=True)
    time.sleep(4)
    make(cluster, leader, "meanwhile")
    after = told(cluster, leader)
    assert (after.leader_id, after.leader_epoch) == (leader, epoch)
    cluster.heal()
    until(lambda: has(cluster, follower, "meanwhile"))
    after = told(cluster, leader)
    assert (after.leader_id, after.leader_epoch) == (leader, epoch)


@pytest.mark.parametrize("one_way", [False, True])
def test_a_leader_without_followers_resigns_and_answers_with_an_error(cluster, one_way):
    """Check-quorum; the others have a new one, and when the link is whole again its client is answered by that.

    The broker answers REQUEST_TIMED_OUT, and the client asks for what that says: no controller is active.
    """
    leader = cluster.active_controller()
    others = [one for one in cluster.node_ids if one != leader]
    epoch = told(cluster, leader).leader_epoch
    for other in others:
        cluster.partition(leader, other, one_way=one_way)
    second = until(
        lambda: next((one for one in others if (seen := told(cluster, one)) and seen.leader_id in others), 0)
    )
    assert told(cluster, second).leader_epoch > epoch
    make(cluster, second, "meanwhile")
    begun = time.monotonic()
    with pytest.raises(KafkaError) as refused:
        make(cluster, leader, "nowhere")
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert "(REQUEST_TIMED_OUT: broker " in str(refused.value)
    assert time.monotonic() - begun < 29
    cluster.heal()
    until(lambda: has(cluster, leader, "meanwhile"))
    assert not has(cluster, leader, "nowhere")
    make(cluster, leader, "afterwards")
