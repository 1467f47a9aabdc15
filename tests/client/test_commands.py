"""A command that no controller carries out ends with that as the reason."""

from __future__ import annotations

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import BrokerTimeout, Client
from stratalog.client.quorum import QuorumAdmin
from stratalog.client.reassignments import list_reassignments
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from stratalog.wire.messages.describe_quorum import DescribeQuorumResponse, PartitionData, TopicData
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse

CREATE, MOVES, QUORUM = 19, 46, 55


@pytest.fixture
def client(scripted):
    """A client with little patience, of a broker that keeps a command waiting."""
    scripted.ranges = {CREATE: (2, 7), QUORUM: (0, 2)}
    scripted.answers[CREATE] = b""
    with Client(scripted.address, 0.25) as client:
        yield client


def quorum(code=0, leader=1) -> DescribeQuorumResponse:
    """The quorum's description of itself."""
    found = PartitionData(
        partition_index=0,
        error_code=code,
        leader_id=leader,
        leader_epoch=1,
        high_watermark=1,
        current_voters=[],
        observers=[],
    )
    return DescribeQuorumResponse(topics=[TopicData(topic_name="__cluster_metadata", partitions=[found])])


@pytest.mark.parametrize(
    "told",
    [
        b"",
        DescribeQuorumResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, topics=[]),
        quorum(ErrorCode.NOT_CONTROLLER, -1),
    ],
    ids=["nothing", "late", "another"],
)
def test_a_command_without_a_controller_says_so(scripted, client, told) -> None:
    """The broker answers, and its question after the quorum is not answered, or finds no leader."""
    scripted.answers[QUORUM] = told
    with pytest.raises(
        KafkaError, match=r"no controller is active: .* until a majority of the voters is up"
    ) as refused:
        create_topic(client, "orders")
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(("leader", "is_over"), [(-1, True), (1, False)])
def test_a_broker_that_gives_up_before_its_client_is_asked_for_the_controller(
    scripted, client, leader, is_over
) -> None:
    """It waits for twenty seconds, a client for thirty. A controller that is there may have refused for the time itself."""
    late = CreatableTopicResult(name="orders", error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="late")
    scripted.answers |= {
        CREATE: CreateTopicsResponse(topics=[late]),
        QUORUM: quorum(ErrorCode.NOT_CONTROLLER if is_over else 0, leader),
    }
    with pytest.raises(KafkaError) as refused:
        create_topic(client, "orders")
    assert refused.value.code is (ErrorCode.NOT_CONTROLLER if is_over else ErrorCode.REQUEST_TIMED_OUT)


def test_a_list_of_moves_without_a_controller_says_so(scripted, client) -> None:
    """The broker passes the question on, and gives up before the client does."""
    scripted.ranges[MOVES] = (0, 0)
    late = ListPartitionReassignmentsResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="late", topics=[])
    for answer in (late, b""):
        scripted.answers |= {MOVES: answer, QUORUM: quorum(ErrorCode.NOT_CONTROLLER, -1)}
        with pytest.raises(KafkaError, match="no controller is active: ") as refused:
            list_reassignments(client)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
    scripted.answers[MOVES] = ListPartitionReassignmentsResponse(error_code=ErrorCode.INVALID_REQUEST, topics=[])
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        list_reassignments(client)


@pytest.mark.parametrize("told", [b"", DescribeQuorumResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, topics=[])])
def test_a_quorum_that_no_controller_describes_has_no_leader(scripted, client, told) -> None:
    """Also where no answer comes at all."""
    scripted.answers[QUORUM] = told
    with pytest.raises(KafkaError, match="no controller is active: ") as refused:
        QuorumAdmin(client).describe()
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_a_quorum_whose_nodes_all_follow_has_no_leader(scripted, client) -> None:
    """They say so at once; after the time that the client gives there is none yet."""
    scripted.answers[QUORUM] = quorum(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    with pytest.raises(KafkaError, match="no controller is active: ") as refused:
        QuorumAdmin(client).describe()
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_a_command_that_takes_long_is_late(scripted, client) -> None:
    """The controller is there: it may be carried out yet."""
    scripted.answers[QUORUM] = quorum()
    with pytest.raises(BrokerTimeout, match="no answer within"):
        create_topic(client, "orders")


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_broker_that_does_not_tell_the_quorum_is_late(scripted, client, is_silent) -> None:
    """It answers nothing more, or cannot be asked: of the controller nothing is known then."""
    client.link().api_ranges()
    if is_silent:
        scripted.answers[18] = b""
    else:
        scripted.ranges = {CREATE: (2, 7)}
    with pytest.raises(BrokerTimeout, match="no answer within"):
        create_topic(client, "orders")
