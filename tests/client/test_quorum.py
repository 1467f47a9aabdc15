"""The metadata quorum through the client: what is asked of whom, what an answer means, refusals."""

from __future__ import annotations

import socket

import pytest

from stratalog.client.client import Client
from stratalog.client.quorum import Endpoint, QuorumAdmin
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.add_raft_voter import AddRaftVoterResponse
from stratalog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from stratalog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from stratalog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

DESCRIBE, CLUSTER, ADD, REMOVE = 55, 60, 80, 81
DIRECTORY = b"d" * 16


@pytest.fixture
def client(scripted):
    """A client of a broker that serves what is asked about quorums."""
    scripted.ranges = {DESCRIBE: (0, 2), CLUSTER: (0, 2), ADD: (0, 1), REMOVE: (0, 0)}
    scripted.answers[CLUSTER] = DescribeClusterResponse(cluster_id="c", controller_id=7, brokers=[])
    with Client(scripted.address, 5) as client:
        yield client


def replica(node_id: int, end: int, fetched: int, caught_up: int) -> ReplicaState:
    return ReplicaState(
        replica_id=node_id,
        replica_directory_id=DIRECTORY,
        log_end_offset=end,
        last_fetch_timestamp=fetched,
        last_caught_up_timestamp=caught_up,
    )


def described(code: int = 0, leader: int = 1, voters: tuple[ReplicaState, ...] = ()) -> DescribeQuorumResponse:
    found = PartitionData(
        partition_index=0,
        error_code=code,
        leader_id=leader,
        leader_epoch=4,
        high_watermark=90,
        current_voters=list(voters),
        observers=[replica(9, 60, 40, -1)],
    )
    nodes = [Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="a", port=9093)])]
    return DescribeQuorumResponse(topics=[TopicData(topic_name="__cluster_metadata", partitions=[found])], nodes=nodes)


def test_lag_and_silence_are_counted_from_the_leader(scripted, client) -> None:
    """Offsets from its log end, times by its clock; what it does not tell is None."""
    scripted.answers[DESCRIBE] = described(
        voters=(replica(1, 100, 5000, 5000), replica(2, 97, 4400, 4000), replica(3, -1, -1, -1))
    )
    found = QuorumAdmin(client).describe()
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 4, 90)
    assert [found.lag(one) for one in found.voters] == [0, 3, None]
    assert [found.silence_ms(one) for one in found.voters] == [0, 600, None]
    assert [(one.node_id, found.lag(one)) for one in found.observers] == [(9, 40)]
    assert found.endpoints == {1: (Endpoint("CONTROLLER", "a", 9093),)}
    assert scripted.requests[-1][0].topics[0].topic_name == "__cluster_metadata"


def test_a_leader_on_its_way_out_has_no_row(scripted, client) -> None:
    """It leads without being a voter, so nothing can be counted from it."""
    scripted.answers[DESCRIBE] = described(leader=5, voters=(replica(1, 100, 5000, 5000),))
    found = QuorumAdmin(client).describe()
    assert found.leader is None
    assert (found.lag(found.voters[0]), found.silence_ms(found.voters[0])) == (None, None)


def test_a_directory_that_is_not_told_is_none(scripted, client) -> None:
    """Version 1 has no field for it, and no addresses."""
    scripted.ranges[DESCRIBE] = (0, 1)
    scripted.answers[DESCRIBE] = described(voters=(replica(1, 100, 5000, 5000),))
    found = QuorumAdmin(client).describe()
    assert (found.voters[0].directory_id, found.endpoints) == (None, {})


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_question_is_asked_again_until_a_controller_is_active(scripted, client, code) -> None:
    """Such an answer says that nothing was done."""
    answers = [described(code=code), described(code=code), described()]
    scripted.answers[DESCRIBE] = lambda request: answers.pop(0)
    assert QuorumAdmin(client).describe().leader_id == 1


def test_without_an_active_controller_the_wait_ends(scripted) -> None:
    """After the client's time limit, with the code."""
    scripted.ranges = {DESCRIBE: (0, 2)}
    scripted.answers[DESCRIBE] = described(code=ErrorCode.NOT_CONTROLLER)
    with Client(scripted.address, 0.3) as client, pytest.raises(KafkaError, match="not controller") as caught:
        QuorumAdmin(client).describe()
    assert caught.value.code == ErrorCode.NOT_CONTROLLER


def test_other_refusals_are_raised_at_once(scripted, client) -> None:
    """With the words of the broker."""
    scripted.answers[DESCRIBE] = DescribeQuorumResponse(error_code=31, error_message="not you", topics=[])
    with pytest.raises(KafkaError, match="not you"):
        QuorumAdmin(client).describe()
    assert [version for request, version in scripted.requests].count(2) == 1


def test_a_voter_is_added_with_its_listeners(scripted, client) -> None:
    """Under the id of the cluster, answered when the change is committed."""
    scripted.answers[ADD] = AddRaftVoterResponse(error_message=None)
    QuorumAdmin(client).add_voter(4, DIRECTORY, [Endpoint("CONTROLLER", "d", 9093)])
    asked = scripted.requests[-1][0]
    assert (asked.cluster_id, asked.voter_id, asked.voter_directory_id) == ("c", 4, DIRECTORY)
    assert (asked.ack_when_committed, asked.timeout_ms) == (True, 5000)
    assert [(one.name, one.host, one.port) for one in asked.listeners] == [("CONTROLLER", "d", 9093)]


def test_a_refused_change_of_voters_is_raised_and_not_repeated(scripted, client) -> None:
    """Code and words of the answer; a time-out may have been a success, also where no controller is active afterwards."""
    scripted.answers[ADD] = AddRaftVoterResponse(error_code=126, error_message="4 is a voter")
    with pytest.raises(KafkaError, match="4 is a voter") as caught:
        QuorumAdmin(client).add_voter(4, DIRECTORY, [])
    assert caught.value.code == ErrorCode.DUPLICATE_VOTER
    scripted.answers[REMOVE] = RemoveRaftVoterResponse(error_code=7, error_message="in time")
    for told, words in ((described(), "in time"), (described(code=41), "no controller is active")):
        scripted.answers[DESCRIBE] = told
        with pytest.raises(KafkaError, match=words):
            QuorumAdmin(client).remove_voter(4, DIRECTORY)
    asked = [request for request, _ in scripted.requests if type(request).__name__ == "RemoveRaftVoterRequest"]
    assert [(one.cluster_id, one.voter_id, one.voter_directory_id) for one in asked] == [("c", 4, DIRECTORY)] * 2


def test_at_controllers_the_active_one_is_asked(scripted, client) -> None:
    """Any controller names it with DescribeCluster; after NOT_CONTROLLER it is looked for again."""

    def name_self(request):
        assert request.endpoint_type == 2
        me = DescribeClusterBroker(broker_id=7, host="127.0.0.1", port=scripted.port)
        return DescribeClusterResponse(cluster_id="c", endpoint_type=2, controller_id=7, brokers=[me])

    scripted.answers[CLUSTER] = name_self
    answers = [described(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), described()]
    scripted.answers[DESCRIBE] = lambda request: answers.pop(0)
    assert QuorumAdmin(client, at_controllers=True).describe().leader_id == 1
    asked = [type(request).__name__ for request, _ in scripted.requests]
    assert asked.count("DescribeClusterRequest") == asked.count("DescribeQuorumRequest") == 2


def test_controllers_without_a_leader_are_asked_again_and_then_told(scripted) -> None:
    """NOT_CONTROLLER in words; nothing is sent to a controller of unknown address."""
    scripted.ranges = {DESCRIBE: (0, 2), CLUSTER: (0, 2)}
    scripted.answers[CLUSTER] = DescribeClusterResponse(cluster_id="c", endpoint_type=2, brokers=[])
    with Client(scripted.address, 0.3) as client, pytest.raises(KafkaError, match="elected no leader"):
        QuorumAdmin(client, at_controllers=True).describe()
    assert "DescribeQuorumRequest" not in [type(request).__name__ for request, _ in scripted.requests]


def test_a_node_that_tells_no_controllers_is_refused(scripted, client) -> None:
    """Version 0 would answer with brokers."""
    scripted.ranges[CLUSTER] = (0, 0)
    with pytest.raises(KafkaError, match="tells no controllers"):
        QuorumAdmin(client, at_controllers=True).describe()


def test_an_active_controller_that_is_away_is_waited_for(scripted, client) -> None:
    """Controllers name the old one until another is elected; nothing was sent to it."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        away = DescribeClusterBroker(broker_id=6, host="127.0.0.1", port=gone.getsockname()[1])
    me = DescribeClusterBroker(broker_id=7, host="127.0.0.1", port=scripted.port)
    answers = [
        DescribeClusterResponse(cluster_id="c", endpoint_type=2, controller_id=leader, brokers=[away, me])
        for leader in (6, 7)
    ]
    scripted.answers[CLUSTER] = lambda request: answers.pop(0)
    scripted.answers[DESCRIBE] = described()
    assert QuorumAdmin(client, at_controllers=True).describe().leader_id == 1
    assert answers == []
