"""Finding coordinators, and asking again while they move."""

from __future__ import annotations

import pytest

from stratalog.client import coordinators as client_coordinators
from stratalog.client.client import Client
from stratalog.client.coordinators import GROUP, TRANSACTION, at_coordinator, coordinators_away, find_coordinator
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from stratalog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

FIND = 10


@pytest.fixture
def client(scripted, monkeypatch):
    """A client of a broker that finds coordinators, and that is asked again at once."""
    monkeypatch.setattr(client_coordinators, "_RETRY_PAUSE_SECONDS", 0)
    scripted.ranges = {FIND: (0, 6)}
    with Client(scripted.address, 5) as client:
        yield client


def found(scripted, code: int = 0, message: str | None = None) -> FindCoordinatorResponse:
    one = Coordinator(key="g", node_id=7, host="127.0.0.1", port=scripted.port, error_code=code, error_message=message)
    return FindCoordinatorResponse(
        error_code=code, error_message=message, node_id=7, host="127.0.0.1", port=scripted.port, coordinators=[one]
    )


@pytest.mark.parametrize("version", [0, 3, 4, 6])
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_the_coordinator_of_a_key(scripted, client, version, key_type) -> None:
    """In every version; its address is known afterwards."""
    scripted.ranges[FIND] = (0, version)
    scripted.answers[FIND] = found(scripted)
    assert find_coordinator(client, "g", key_type) == 7
    assert client.brokers[7] == ("127.0.0.1", scripted.port)
    asked, _ = scripted.requests[-1]
    assert [asked.key, *asked.coordinator_keys] == (["g"] if version < 4 else ["", "g"])
    if version:
        assert asked.key_type == key_type


def test_a_refusal_carries_the_brokers_words(scripted, client) -> None:
    """Its code and message."""
    scripted.answers[FIND] = found(scripted, ErrorCode.GROUP_AUTHORIZATION_FAILED, "not yours")
    with pytest.raises(KafkaError, match="not yours") as caught:
        find_coordinator(client, "g")
    assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_coordinator_that_is_being_loaded_is_asked_again(scripted, client) -> None:
    """Until it answers; the coordinator is looked up each time."""
    scripted.answers[FIND] = found(scripted)
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    def attempt(node_id: int) -> str:
        if codes:
            raise KafkaError(codes.pop())
        return f"done by {node_id}"

    assert at_coordinator(client, "g", attempt) == "done by 7"
    assert len([one for one, _ in scripted.requests if hasattr(one, "coordinator_keys")]) == 4


def test_other_errors_end_it(scripted, client) -> None:
    """At once."""
    scripted.answers[FIND] = found(scripted)

    def attempt(_node_id: int) -> None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    with pytest.raises(KafkaError):
        at_coordinator(client, "g", attempt)
    assert len([one for one, _ in scripted.requests if hasattr(one, "coordinator_keys")]) == 1


def test_it_is_not_asked_for_ever(scripted) -> None:
    """The last error, after the client's time."""
    scripted.ranges = {FIND: (0, 6)}
    scripted.answers[FIND] = found(scripted, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with Client(scripted.address, 0.3) as client, pytest.raises(KafkaError) as caught:
        at_coordinator(client, "g", lambda _: None)
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("code", "expected"), [(0, 2), (3, 0), (29, 0)])
def test_partitions_of_coordinators_without_a_leader_are_counted(scripted, client, code, expected) -> None:
    """A topic that is not there yet, or that the caller may not see, counts none."""
    partitions = [
        MetadataResponsePartition(
            error_code=0 if leader >= 0 else 5,
            partition_index=number,
            leader_id=leader,
            leader_epoch=0,
            replica_nodes=[1],
            isr_nodes=[1],
            offline_replicas=[],
        )
        for number, leader in enumerate([1, -1, 2, -1])
    ]
    topic = MetadataResponseTopic(
        error_code=code, name="__g", topic_id=b"t" * 16, is_internal=True, partitions=[] if code else partitions
    )
    scripted.ranges = {3: (0, 13)}
    scripted.answers |= {3: MetadataResponse(brokers=[], cluster_id="c", controller_id=1, topics=[topic])}
    assert coordinators_away(client, "__g") == expected
