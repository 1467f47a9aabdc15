"""A command that no controller carries out ends with that as the reason."""

from __future__ import annotations

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import BrokerTimeout, Client
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_quorum import DescribeQuorumResponse, PartitionData, TopicData

CREATE, QUORUM = 19, 55


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
