"""Leaders and coordinators that do not answer are named, and the others are used."""

from __future__ import annotations

import socket
import threading

import pytest

from stratalog.client import reach
from stratalog.client.client import BrokerTimeout, BrokerUnavailable, Client
from stratalog.client.coordinators import at_coordinator
from stratalog.client.reach import Away, away_sentences, or_away, reached_partitions
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from stratalog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from stratalog.wire.topic import TopicPartition

LIST_OFFSETS, METADATA, FIND = 2, 3, 10


def partition(number: int, leader: int) -> MetadataResponsePartition:
    """A partition with one replica."""
    return MetadataResponsePartition(
        partition_index=number, leader_id=leader, leader_epoch=5, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
    )


def orders(number: int) -> TopicPartition:
    """A partition of the topic."""
    return TopicPartition("orders", number)


@pytest.fixture
def dead():
    """The number of a port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def silent():
    """The number of a port at which connections are taken and nothing is answered, as by a process that stands still."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


class Cluster:
    """Metadata that a test changes: the partitions' leaders, where brokers are said to be, and partitions without an end."""

    def __init__(self, scripted) -> None:
        self.leaders: list[int] = []
        self.ports = {1: scripted.port}
        self.topic = "orders"
        self.endless: set[int] = set()
        scripted.ranges = {LIST_OFFSETS: (1, 11), METADATA: (0, 13), FIND: (0, 6)}
        scripted.answers[METADATA] = self._answer
        scripted.answers[LIST_OFFSETS] = self._ends

    def _ends(self, request) -> ListOffsetsResponse:
        rows = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index,
                error_code=ErrorCode.OFFSET_NOT_AVAILABLE if one.partition_index in self.endless else 0,
                offset=7,
                timestamp=-1,
                leader_epoch=5,
            )
            for one in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=self.topic, partitions=rows)])

    def _answer(self, _request) -> MetadataResponse:
        partitions = [partition(number, leader) for number, leader in enumerate(self.leaders)]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=one, host="127.0.0.1", port=port) for one, port in self.ports.items()
            ],
            cluster_id="c",
            controller_id=1,
            topics=[MetadataResponseTopic(name=self.topic, topic_id=b"t" * 16, partitions=partitions)],
        )


@pytest.fixture
def cluster(scripted, monkeypatch):
    """A cluster whose node 1 answers. Commands have a twentieth of a second of patience."""
    monkeypatch.setattr("stratalog.client.client.REACH_SECONDS", 0.05)
    monkeypatch.setattr("stratalog.client.coordinators.REACH_SECONDS", 0.05)
    monkeypatch.setattr(reach, "REACH_SECONDS", 0.05)
    return Cluster(scripted)


@pytest.fixture
def client(scripted, cluster):
    """A client of it, with all the time that a user gives."""
    with Client(scripted.address, 30) as client:
        yield client


def test_partitions_whose_leader_is_away_are_set_apart(cluster, client, dead, silent) -> None:
    """No leader, a leader whose host refuses, a leader that stands still: each has its words."""
    cluster.leaders = [1, 2, -1, 3, 1, -1]
    cluster.ports |= {2: dead, 3: silent}
    found = reached_partitions(client, [orders(number) for number in (5, 4, 3, 2, 1, 0)])
    assert found.partitions == [orders(4), orders(0)]
    refused = "Connection refused; is a broker running there?"
    assert away_sentences(found.away) == [
        "orders-5, orders-2: no leader, because no broker that has the records is active.",
        f"orders-3: node 3 leads and does not answer (broker 127.0.0.1:{silent}: no answer within 0.05 s).",
        f"orders-1: node 2 leads and does not answer (broker 127.0.0.1:{dead}: {refused}).",
    ]


def test_a_leader_that_is_elected_meanwhile_is_used(cluster, client, monkeypatch) -> None:
    """Metadata is asked for again before a partition is given up."""
    monkeypatch.setattr(reach, "REACH_SECONDS", 30)
    cluster.leaders = [-1]
    threading.Timer(0.05, lambda: cluster.leaders.__setitem__(0, 1)).start()
    assert reached_partitions(client, [orders(0)]) == ([orders(0)], {})


def test_a_leader_that_does_not_know_the_end_is_not_waited_for_long(cluster, client) -> None:
    """It was elected with too few replicas in sync. Asked for the end by itself, it would cost the command all its time."""
    cluster.leaders, cluster.endless = [1, 1], {1}
    found = reached_partitions(client, [orders(0), orders(1)])
    assert found.partitions == [orders(0)]
    (sentence,) = away_sentences(found.away)
    assert sentence.startswith(
        "orders-1: the leader does not know yet what is committed, because fewer than min.insync"
    )


def test_a_leader_that_comes_to_know_the_end_is_used(cluster, client, monkeypatch) -> None:
    """Each new leader is so for a moment."""
    monkeypatch.setattr(reach, "REACH_SECONDS", 30)
    cluster.leaders, cluster.endless = [1], {0}
    threading.Timer(0.05, cluster.endless.clear).start()
    assert reached_partitions(client, [orders(0)]) == ([orders(0)], {})


def test_a_partition_that_does_not_exist_is_an_error(cluster, client) -> None:
    """A broker that is away is no excuse for a wrong number."""
    cluster.leaders = [1]
    with pytest.raises(KafkaError, match="orders-7"):
        reached_partitions(client, [orders(7)])


def test_the_first_of_many_partitions_are_named() -> None:
    """A broker may lead thousands."""
    (sentence,) = away_sentences({orders(number): "why" for number in range(23)})
    assert sentence.endswith("orders-19 and 3 more: why.")


def test_a_reached_broker_has_all_the_time_for_its_answers(cluster, client) -> None:
    """The few seconds are for connections only."""
    cluster.leaders = [1]
    client.refresh(["orders"])
    client.reach(1)
    link = client.link(1)
    client.reach(1)
    assert client.link(1) is link
    assert link._socket.gettimeout() == 30


def coordinator(code=0, node_id=1, port=0) -> FindCoordinatorResponse:
    """An answer for the group g."""
    found = Coordinator(key="g", node_id=node_id, host="127.0.0.1", port=port, error_code=code, error_message=None)
    return FindCoordinatorResponse(coordinators=[found])


def test_a_coordinator_that_stands_still_is_not_waited_for(scripted, cluster, client, silent) -> None:
    """Its host takes connections."""
    scripted.answers[FIND] = coordinator(node_id=3, port=silent)
    with pytest.raises(BrokerTimeout, match="no answer within"):
        at_coordinator(client, "g", pytest.fail)


def test_a_coordinator_whose_partition_has_no_leader_is_said_to_be_away(scripted, cluster, client) -> None:
    """Without the thirty seconds that a user gives for one that moves."""
    cluster.topic, cluster.leaders = "__consumer_offsets", [1, -1]
    scripted.answers[FIND] = coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(
        BrokerUnavailable, match="the partition of __consumer_offsets that it keeps this in has no leader"
    ):
        at_coordinator(client, "g", pytest.fail)


def test_a_group_that_is_away_has_its_name() -> None:
    """Other errors pass as they are."""

    def refused(error):
        def attempt():
            raise error

        return attempt

    for error in (BrokerTimeout("late"), KafkaError(ErrorCode.NOT_COORDINATOR, "moved")):
        with pytest.raises(Away, match="group g: "):
            or_away("group g", refused(error))
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        or_away("group g", refused(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)))
    assert or_away("group g", lambda: 7) == 7
