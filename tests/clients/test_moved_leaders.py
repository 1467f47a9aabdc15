"""Answers of a broker that does not lead the partition, and how foreign ones go on (KIP-951).

Answers are read by kio, an implementation of the protocol that is not ours.
"""

import socket
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.index import load_payload_module
from kio.serial import entity_reader
from kio.static.constants import EntityType

from stratalog.client.admin import create_topic, delete_topics
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import encode_request
from stratalog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest
from stratalog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratalog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from stratalog.wire.schema import encode
from tests.broker.nodes_of_a_cluster import RunningNodes

pytestmark = pytest.mark.story

BROKERS = (1, 2, 3)
ROLES = {**dict.fromkeys(BROKERS, "broker"), 9: "controller"}
HEAD_BYTES = 5
"""The correlation id and the tags before the body of an answer."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Three brokers that clients reach by two listeners each."""
    made = RunningNodes(tmp_path_factory.mktemp("nodes"), ROLES)
    for broker_id in BROKERS:
        made[broker_id].settings["listeners"] += ",OTHER://127.0.0.1:0"
    for member in made.members.values():
        member.settings["listener.security.protocol.map"] += ",OTHER:PLAINTEXT"
        member.settings["inter.broker.listener.name"] = "PLAINTEXT"
    yield made.start()
    made.stop()


@pytest.fixture
def new_topic(nodes, request) -> Callable[..., SimpleNamespace]:
    """Makes a topic of one partition: its name, its id, its leader, and a broker that does not lead it."""

    def make(name: str = request.node.name.partition("[")[0][-40:]) -> SimpleNamespace:
        made = create_topic(nodes[1].client(), name, partition_count=1)
        for member in brokers(nodes):
            member.wait_until(lambda member=member: known(member, made.topic_id) is not None)
        leader = known(nodes[1], made.topic_id).partitions[0].leader
        nodes[leader].wait_until(lambda: len(nodes[leader].node.partitions.of_topic(name)) == 1)
        return SimpleNamespace(name=name, id=made.topic_id, leader=leader, other=1 if leader != 1 else 2)

    return make


def brokers(nodes):
    return [nodes[broker_id] for broker_id in BROKERS]


def known(member, topic_id):
    return member.node.image.topics.by_id.get(topic_id)


def address(member, listener: str) -> tuple[str, int]:
    return member.node.server.addresses[listener]


def asked(member, listener: str, request, version: int):
    """The answer of a broker to one request, as kio reads it."""
    name = type(request).__name__.removesuffix("Request")
    frame = encode_request(request.api_key, version, 7, "test", encode(request, version), flexible=True)
    with socket.create_connection(address(member, listener), timeout=20) as connection:
        connection.sendall(b"".join(bytes(part) for part in frame))
        (size,) = struct.unpack(">i", receive(connection, 4))
        body = receive(connection, size)[HEAD_BYTES:]
    module = load_payload_module(request.api_key, version, EntityType.response)
    answer, read_bytes = entity_reader(getattr(module, f"{name}Response"))(body, 0)
    assert read_bytes == len(body)
    return answer


def receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        assert piece
        found += piece
    return found


def produce(topic, version: int) -> ProduceRequest:
    batch = build_batch([Record(0, int(time.time() * 1000), None, b"v")])
    by_id = version >= 13
    data = [PartitionProduceData(index=0, records=memoryview(batch))]
    named = {"topic_id": topic.id} if by_id else {"name": topic.name}
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(**{"name": "", **named}, partition_data=data)],
    )


def fetch(topic, version: int, *, leader_epoch: int = -1, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    wanted = FetchPartition(partition=0, current_leader_epoch=leader_epoch, fetch_offset=0, partition_max_bytes=1 << 20)
    named = {"topic_id": topic.id} if version >= 13 else {"topic": topic.name}
    session_id, session_epoch = session
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(**{"topic": "", **named}, partitions=[wanted])],
    )


def told(partition, answer) -> tuple:
    """The error of a partition, the leader and its epoch, and the endpoints of the whole answer."""
    leader = partition.current_leader
    endpoints = [(at.node_id, at.host, at.port) for at in answer.node_endpoints]
    return ErrorCode(partition.error_code), (leader.leader_id, leader.leader_epoch), endpoints


@pytest.mark.parametrize("listener", ["PLAINTEXT", "OTHER"])
@pytest.mark.parametrize("version", [10, 13])
def test_a_produce_request_to_another_broker_names_the_leader(nodes, new_topic, version, listener):
    """With its epoch, and its endpoint at the listener by which the client came."""
    topic = new_topic(f"produce-{version}-{listener.lower()}")
    answer = asked(nodes[topic.other], listener, produce(topic, version), version)
    (partition,) = answer.responses[0].partition_responses
    at = (topic.leader, *address(nodes[topic.leader], listener))
    assert told(partition, answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (topic.leader, 0), [at])
    answer = asked(nodes[topic.leader], listener, produce(topic, version), version)
    (partition,) = answer.responses[0].partition_responses
    assert told(partition, answer) == (ErrorCode.NONE, (-1, -1), [])


@pytest.mark.parametrize("listener", ["PLAINTEXT", "OTHER"])
@pytest.mark.parametrize("version", [16, 17])
def test_a_fetch_from_another_broker_names_the_leader(nodes, new_topic, version, listener):
    """With and without a session; where the leader leads in a newer epoch it says so itself."""
    topic = new_topic(f"fetch-{version}-{listener.lower()}")
    at = (topic.leader, *address(nodes[topic.leader], listener))
    other = nodes[topic.other]
    answer = asked(other, listener, fetch(topic, version), version)
    (partition,) = answer.responses[0].partitions
    assert told(partition, answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (topic.leader, 0), [at])
    begun = asked(other, listener, fetch(topic, version, session=(0, 0)), version)
    answer = asked(other, listener, fetch(topic, version, session=(begun.session_id, 1)), version)
    assert answer.session_id == begun.session_id != 0
    (partition,) = answer.responses[0].partitions
    assert told(partition, answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (topic.leader, 0), [at])


def test_every_api_tells_a_partition_elsewhere_from_one_that_is_unknown(nodes, new_topic):
    """As Kafka does for each of them."""
    topic = new_topic()
    link = nodes[topic.other].link()

    def codes(name: str, number: int) -> list[ErrorCode]:
        (producers,) = link.call(
            DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[number])])
        ).topics
        (ends,) = link.call(
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=number, timestamp=-1)])
                ],
            )
        ).topics
        (epochs,) = link.call(
            OffsetForLeaderEpochRequest(
                topics=[
                    OffsetForLeaderTopic(
                        topic=name, partitions=[OffsetForLeaderPartition(partition=number, leader_epoch=0)]
                    )
                ]
            )
        ).topics
        (deleted,) = link.call(
            DeleteRecordsRequest(
                timeout_ms=1000,
                topics=[
                    DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=number, offset=0)])
                ],
            )
        ).topics
        path = nodes[topic.other].node.directories.all[0].path
        (moved,) = link.call(
            AlterReplicaLogDirsRequest(
                dirs=[AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=[number])])]
            )
        ).results
        answers = (producers, ends, epochs, deleted, moved)
        return [ErrorCode(answer.partitions[0].error_code) for answer in answers]

    assert codes(topic.name, 0) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 4 + [ErrorCode.REPLICA_NOT_AVAILABLE]
    assert codes(topic.name, 1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5
    assert codes("absent", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5


def test_a_topic_made_again_is_unknown_under_its_old_id(nodes, new_topic):
    """By name the answer is about the new one."""
    old = new_topic("again")
    delete_topics(nodes[1].client(), ["again"])
    for member in brokers(nodes):
        member.wait_until(lambda member=member: known(member, old.id) is None)
    absent = asked(nodes[old.other], "OTHER", produce(old, 13), 13)
    assert absent.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    new = new_topic("again")
    assert new.id != old.id
    for one in brokers(nodes):
        for request, version in ((produce(old, 13), 13), (fetch(old, 17), 17)):
            answer = asked(one, "OTHER", request, version)
            rows = answer.responses[0]
            (partition,) = rows.partition_responses if version == 13 else rows.partitions
            assert told(partition, answer) == (ErrorCode.UNKNOWN_TOPIC_ID, (-1, -1), [])
    answer = asked(nodes[new.other], "OTHER", produce(new, 12), 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_stops_leaves_none_and_comes_back_under_a_newer_epoch(nodes, new_topic):
    """Without a leader there is its epoch alone; an epoch of before is fenced by the leader itself."""
    topic = new_topic()
    leader, other = nodes[topic.leader], nodes[topic.other]
    leader.stop()
    other.wait_until(lambda: known(other, topic.id).partitions[0].leader == -1)
    epoch = known(other, topic.id).partitions[0].leader_epoch
    answer = asked(other, "OTHER", produce(topic, 13), 13)
    (partition,) = answer.responses[0].partition_responses
    assert told(partition, answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (-1, epoch), [])
    leader.start()
    leader.wait_until(lambda: len(leader.node.partitions.of_topic(topic.name)) == 1)
    now = known(leader, topic.id).partitions[0].leader_epoch
    assert now > epoch
    answer = asked(leader, "OTHER", fetch(topic, 17, leader_epoch=epoch), 17)
    (partition,) = answer.responses[0].partitions
    at = (topic.leader, *address(leader, "OTHER"))
    assert told(partition, answer) == (ErrorCode.FENCED_LEADER_EPOCH, (topic.leader, now), [at])


def test_a_broker_that_is_fenced_is_left_out_and_its_replicas_are_offline(nodes, new_topic):
    """Unless fenced brokers are asked for; the controller of clients is one of the others."""
    topic = new_topic()
    gone, other = nodes[topic.leader], nodes[topic.other]
    gone.stop()
    left = {broker_id for broker_id in BROKERS if broker_id != topic.leader}
    other.wait_until(lambda: other.node.image.brokers.brokers[topic.leader].is_fenced)
    metadata = [
        asked(other, "OTHER", MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)]), 12) for _ in range(30)
    ]
    for answer in metadata:
        assert {one.node_id: (one.host, one.port) for one in answer.brokers} == {
            broker_id: address(nodes[broker_id], "OTHER") for broker_id in left
        }
        (partition,) = answer.topics[0].partitions
        assert (ErrorCode(partition.error_code), partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert partition.replica_nodes == partition.offline_replicas == (topic.leader,)
    assert {answer.controller_id for answer in metadata} == left
    for fenced in (False, True):
        described = asked(
            other,
            "OTHER",
            DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=fenced),
            2,
        )
        assert described.controller_id in left
        assert {one.broker_id: one.is_fenced for one in described.brokers} == {
            **dict.fromkeys(left, False),
            **({topic.leader: True} if fenced else {}),
        }
    gone.start()


def test_librdkafka_goes_on_when_leaders_come_back(nodes, new_topic):
    """A producer and a consumer that were connected before lose and repeat nothing."""
    topic = new_topic()
    servers = ",".join(f"127.0.0.1:{address(member, 'OTHER')[1]}" for member in brokers(nodes))
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    sent, found = [], []
    for round_ in range(3):
        for number in range(20):
            value = b"%d-%d" % (round_, number)
            producer.produce(topic.name, value, partition=0)
            sent.append(value)
        if round_ == 1:
            nodes[topic.leader].restart()
        assert producer.flush(30) == 0
    end = time.monotonic() + 30
    while len(found) < len(sent) and time.monotonic() < end:
        found += [message.value() for message in consumer.consume(100, timeout=1) if message.error() is None]
    consumer.close()
    assert found == sent
