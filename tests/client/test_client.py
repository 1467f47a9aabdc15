"""The client finds its way through a cluster: topics, leaders, offsets."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

import stratalog.client
from stratalog.client.client import BrokerAway, BrokerUnavailable, Client, ListedOffset, by_topic
from stratalog.client.coordinators import find_coordinator
from stratalog.client.groups import committed_offsets, list_groups
from stratalog.client.moving import LEADERSHIP_MOVES
from stratalog.client.transactions import list_transactions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from stratalog.wire.messages.list_groups import ListGroupsResponse
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.messages.list_transactions import ListTransactionsResponse
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from stratalog.wire.topic import TopicPartition

METADATA, LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR, API_VERSIONS = 3, 2, 9, 10, 18
ORDERS = TopicPartition("orders", 0)


def partition(number: int, leader: int) -> MetadataResponsePartition:
    """A partition with one replica."""
    return MetadataResponsePartition(
        partition_index=number, leader_id=leader, leader_epoch=5, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
    )


@pytest.fixture
def client(scripted):
    """A client of a broker with the topic orders: partition 0 is led by node 1, partition 1 has no leader."""
    scripted.ranges = {METADATA: (0, 13), LIST_OFFSETS: (1, 11)}
    topic = MetadataResponseTopic(name="orders", topic_id=b"t" * 16, partitions=[partition(1, -1), partition(0, 1)])
    scripted.answers[METADATA] = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=scripted.port)],
        cluster_id="cluster",
        controller_id=1,
        topics=[topic],
    )
    with Client(scripted.address, 5) as client:
        yield client


def test_a_topic_is_known_after_it_was_asked_for_once(scripted, client) -> None:
    """Partitions in order; the cluster's name and controller beside them."""
    topic = client.topic("orders")
    assert client.topic("orders") is topic
    assert [part.partition for part in topic.partitions] == [0, 1]
    assert (topic.partitions[0].leader_epoch, topic.topic_id) == (5, b"t" * 16)
    assert (client.cluster_id, client.controller_id) == ("cluster", 1)
    assert len([request for request, _ in scripted.requests if hasattr(request, "allow_auto_topic_creation")]) == 1


def test_asking_does_not_create_by_default(scripted, client) -> None:
    """A reader must not make topics by a misspelt name."""
    client.refresh(["orders"])
    assert scripted.requests[-1][0].allow_auto_topic_creation is False
    client.refresh(["orders"], create=True)
    assert scripted.requests[-1][0].allow_auto_topic_creation is True
    client.refresh()
    assert scripted.requests[-1][0].topics is None


def test_a_topic_that_cannot_be_described_is_an_error_with_its_name(scripted, client) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION in the answer."""
    scripted.answers[METADATA].topics = [MetadataResponseTopic(error_code=3, name="nope", partitions=[])]
    with pytest.raises(KafkaError, match="topic nope: unknown topic or partition") as caught:
        client.topic("nope")
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leaders_are_found_or_named_missing(client) -> None:
    """A partition that is led, one without a leader, one that does not exist."""
    assert client.by_leader([ORDERS]) == {1: [ORDERS]}
    with pytest.raises(KafkaError, match="orders-1 has no leader now"):
        client.leader(TopicPartition("orders", 1))
    with pytest.raises(KafkaError, match="orders-2: the topic has 2 partitions"):
        client.leader(TopicPartition("orders", 2))


def offsets_answer(**fields) -> ListOffsetsResponse:
    """An answer about partition 0 of orders."""
    found = ListOffsetsPartitionResponse(partition_index=0, **fields)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])])


def test_offsets_are_listed_by_partition(scripted, client) -> None:
    """With the isolation level asked for; the answer's three numbers."""
    scripted.answers[LIST_OFFSETS] = offsets_answer(offset=42, timestamp=7, leader_epoch=5)
    assert client.list_offsets({ORDERS: -1}, read_committed=True) == {ORDERS: ListedOffset(42, 7, 5)}
    asked = scripted.requests[-1][0]
    assert (asked.isolation_level, asked.topics[0].partitions[0].timestamp) == (1, -1)


def test_an_offset_that_cannot_be_listed_is_an_error(scripted, client) -> None:
    """With the partition's name."""
    scripted.answers[LIST_OFFSETS] = offsets_answer(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(KafkaError, match="orders-0: kafka storage error"):
        client.list_offsets({ORDERS: -1})


def test_a_broker_that_does_not_lead_yet_is_asked_again(scripted, client) -> None:
    """With fresh metadata, until it answers."""
    answers = [offsets_answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), offsets_answer(offset=1)]
    scripted.answers[LIST_OFFSETS] = lambda _request: answers.pop(0)
    assert client.list_offsets({ORDERS: -1})[ORDERS].offset == 1


def test_asking_again_ends_with_the_clients_patience(scripted, client) -> None:
    """The last error is raised."""
    client.topic("orders")
    client.link(1)
    client.timeout_seconds = 0
    scripted.answers[LIST_OFFSETS] = offsets_answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError, match="orders-0: not leader or follower"):
        client.list_offsets({ORDERS: -1})


def test_the_first_address_that_answers_is_used(scripted, client) -> None:
    """Several addresses; the error is that of the last one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
    with Client(f"{closed},{scripted.address}", 5) as other:
        assert other.topic("orders").name == "orders"
    with Client(f"{closed},{closed}", 5) as other, pytest.raises(BrokerUnavailable):
        other.refresh()


def test_a_broker_that_metadata_named_is_asked_where_none_of_the_first_addresses_answers(scripted, client) -> None:
    """The one that the user named may have died since."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
    client.refresh()
    client.bootstrap = closed
    assert client.link().port == scripted.port
    client.brokers.clear()
    with pytest.raises(BrokerUnavailable, match=closed):
        client.link()


def test_a_broken_connection_is_replaced_by_the_next_call(scripted, client) -> None:
    """The failed call is not repeated by itself."""
    kept = scripted.answers[METADATA]
    scripted.answers[METADATA] = None
    with pytest.raises(BrokerUnavailable):
        client.refresh()
    scripted.answers[METADATA] = kept
    assert [topic.name for topic in client.refresh()] == ["orders"]


@pytest.mark.parametrize("reaches", [False, True])
def test_a_connection_that_the_broker_has_closed_as_idle_is_replaced_before_a_request(
    scripted, client, reaches
) -> None:
    """Also where a command asks first whether the broker is there: nothing was sent over it, so nothing is in doubt."""
    client.topic("orders")
    scripted.answers[LIST_OFFSETS] = offsets_answer(offset=3)
    client.list_offsets({ORDERS: -1})
    scripted.hang_up()
    if reaches:
        client.reach(1)
    assert client.list_offsets({ORDERS: -1})[ORDERS].offset == 3


def test_a_reader_may_wait_for_a_broker_that_is_away(scripted, client) -> None:
    """Only a client that says so, and only what reads; another answer than the awaited one ends it."""
    client.topic("orders")
    answers = [None, None, offsets_answer(offset=3)]
    scripted.answers[LIST_OFFSETS] = lambda _request: answers.pop(0)
    with pytest.raises(BrokerUnavailable):
        client.list_offsets({ORDERS: -1})
    client.waits_for_brokers = True
    assert client.list_offsets({ORDERS: -1})[ORDERS].offset == 3
    attempts = []

    def attempt() -> None:
        attempts.append(1)
        raise BrokerUnavailable("away")

    with pytest.raises(BrokerUnavailable):
        client.while_leaders_move(["orders"], attempt)
    assert len(attempts) == 1


def test_waiting_for_a_broker_ends_with_the_clients_patience(scripted, client) -> None:
    """The last error is raised."""
    client.topic("orders")
    client.link(1)
    client.waits_for_brokers = True
    client.timeout_seconds = 0
    scripted.answers[LIST_OFFSETS] = None
    with pytest.raises(BrokerUnavailable, match="closed the connection"):
        client.list_offsets({ORDERS: -1})


@pytest.mark.parametrize("code", sorted(LEADERSHIP_MOVES))
def test_every_move_of_a_leader_is_waited_for(scripted, client, code) -> None:
    """Also one that Metadata tells of the whole topic."""
    kept = scripted.answers[METADATA]
    client.topic("orders")
    moving = MetadataResponse(
        brokers=kept.brokers,
        cluster_id="cluster",
        controller_id=1,
        topics=[MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name="orders", partitions=[])],
    )
    metadata = [moving, kept]
    scripted.answers[METADATA] = lambda _request: metadata.pop(0)
    answers = [offsets_answer(error_code=code), offsets_answer(offset=1)]
    scripted.answers[LIST_OFFSETS] = lambda _request: answers.pop(0)
    assert client.list_offsets({ORDERS: -1})[ORDERS].offset == 1


def test_a_leader_that_has_not_heard_of_a_topic_is_asked_again(scripted, client) -> None:
    """Also where the broker that is asked for metadata next has not heard of it; a topic that is not there is an error at once."""
    metadata = scripted.answers[METADATA]
    unknown = MetadataResponse(
        brokers=metadata.brokers,
        topics=[MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="orders", partitions=[])],
    )
    told = [metadata, unknown, metadata]
    scripted.answers[METADATA] = lambda _request: told.pop(0)
    answers = [offsets_answer(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), offsets_answer(offset=1)]
    scripted.answers[LIST_OFFSETS] = lambda _request: answers.pop(0)
    assert client.list_offsets({ORDERS: -1})[ORDERS].offset == 1
    client.topics.clear()
    scripted.answers[METADATA] = unknown
    asked = len(scripted.requests)
    with pytest.raises(KafkaError, match="topic orders: unknown topic"):
        client.list_offsets({ORDERS: -1})
    assert len(scripted.requests) == asked + 1


def test_a_second_broker_tells_the_topics_where_the_first_is_gone(scripted, client) -> None:
    """Metadata may be asked of any broker: the bootstrap address matters for the first answer only."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
    client.refresh()
    client.close()
    client.bootstrap = closed
    assert [topic.name for topic in client.refresh()] == ["orders"]


def test_topics_that_are_not_there_may_be_left_out(scripted, client) -> None:
    """Any other refusal is raised."""
    there = scripted.answers[METADATA].topics
    refused = MetadataResponseTopic(name="nope", partitions=[])
    scripted.answers[METADATA].topics = [refused, *there]
    for code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        refused.error_code = code
        assert [topic.name for topic in client.refresh(["nope", "orders"], skip_missing=True)] == ["orders"]
        with pytest.raises(KafkaError):
            client.refresh(["nope", "orders"])
    refused.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="topic nope: topic authorization failed"):
        client.refresh(["nope", "orders"], skip_missing=True)


def test_a_broker_may_take_as_long_to_find_an_offset_as_the_client_waits(scripted, client) -> None:
    """KIP-1075: without a time limit a broker may answer at once that a lookup in its tier takes too long."""
    scripted.answers[LIST_OFFSETS] = offsets_answer(offset=3)
    client.list_offsets({ORDERS: 1000})
    assert scripted.requests[-1][0].timeout_ms == 5000


def test_partitions_are_grouped_by_topic() -> None:
    """In the order given."""
    a, b, c = TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)
    assert by_topic([a, b, c]) == {"b": [a, c], "a": [b]}


def coordinates(scripted) -> None:
    """Let the broker coordinate every group, and serve its offsets."""
    scripted.ranges = {OFFSET_FETCH: (0, 8), FIND_COORDINATOR: (0, 4), METADATA: (0, 12)}
    scripted.answers[FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(
        coordinators=[Coordinator(key=request.coordinator_keys[0], node_id=1, host="127.0.0.1", port=scripted.port)]
    )


def no_offsets(request) -> OffsetFetchResponse:
    """A group that has committed nothing."""
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=[])])


@pytest.mark.parametrize("seconds", [0.0, 0.4], ids=["hung up", "late"])
def test_a_request_that_had_no_answer_spoils_no_later_one(scripted, seconds) -> None:
    """Its connection is given up: the answer may still come there, or the broker has closed it."""
    coordinates(scripted)

    def offsets(request):
        if request.groups[0].group_id != "slow":
            return no_offsets(request)
        time.sleep(seconds)
        return no_offsets(request) if seconds else None

    scripted.answers[OFFSET_FETCH] = offsets
    with Client(scripted.address, timeout_seconds=0.2) as client:
        with pytest.raises(BrokerAway):
            committed_offsets(client, "slow")
        assert committed_offsets(client, "quick") == {}


def test_a_broker_that_did_not_say_its_versions_is_asked_again(scripted) -> None:
    """A link that never told them does not stay either."""
    coordinates(scripted)
    scripted.answers[API_VERSIONS] = None
    with Client(scripted.address, timeout_seconds=1.0) as client:
        with pytest.raises(BrokerAway):
            find_coordinator(client, "g")
        del scripted.answers[API_VERSIONS]
        assert find_coordinator(client, "g") == 1


def test_only_the_client_itself_holds_requests_over_links() -> None:
    """Elsewhere a failed link would stay: others ask `Client.call`, `version_of`, `serves` and `send_unanswered`."""
    root = Path(stratalog.client.__file__).parent.parent
    found = re.compile(r"\.link\([^)]*\)\.(call|send|version_of|api_ranges)\b")
    sources = [*(root / "client").glob("*.py"), *(root / "cli").rglob("*.py")]
    assert [path.name for path in sources if found.search(path.read_text())] == []


def test_a_broker_that_does_not_know_a_filter_is_not_asked(scripted, client) -> None:
    """Without the filter it would list everything."""
    scripted.ranges |= {16: (0, 4), 66: (0, 1)}
    scripted.answers |= {16: ListGroupsResponse(groups=[]), 66: ListTransactionsResponse(transaction_states=[])}
    assert list_groups(client, states=["Empty"]) == []
    assert list_transactions(client, duration_ms=5) == []
    with pytest.raises(KafkaError, match="node 1 serves ListGroups up to version 4") as refused:
        list_groups(client, types=["classic"])
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match="node 1 serves ListTransactions up to version 1"):
        list_transactions(client, pattern="a.*")
