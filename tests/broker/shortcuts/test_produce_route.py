"""Routes of remembered produce requests: the answers they write."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api.produce import API
from stratalog.broker.requests.dispatch_row import Row
from stratalog.broker.shortcuts.produce_route import Route, WaitingAnswer
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.hot.log.log import AppendInfo
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import encode_request
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from stratalog.wire.schema import decode, encode
from stratalog.wire.topic import TopicPartition

TOPIC_ID = bytes(range(16))


class Connection:
    """Notes what leaves."""

    def __init__(self) -> None:
        self.closed = False
        self.read_at = 1.0
        self.delivered = 0

    def deliver(self) -> None:
        self.delivered += 1


@pytest.fixture
def route():
    """Makes the route to a partition in a version."""

    def make(version: int, partition: int = 3, acks: int = 1) -> Route:
        data = PartitionProduceData(index=partition, records=b"")
        topic = TopicProduceData(
            name="orders" if version < 13 else "",
            topic_id=TOPIC_ID if version >= 13 else bytes(16),
            partition_data=[data],
        )
        request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=500, topic_data=[topic])
        metrics = SimpleNamespace(time_us=0, time_buckets=[0] * 64)
        context = SimpleNamespace(
            request=request,
            row=Row(API, version, metrics),
            dispatcher=SimpleNamespace(monotonic=lambda: 2.0),
            broker=SimpleNamespace(transactions=SimpleNamespace(enlistment=None)),
        )
        unified = SimpleNamespace(
            topic_partition=TopicPartition("orders", partition),
            partition=SimpleNamespace(log=SimpleNamespace(start=SimpleNamespace(offset=5))),
            metrics=SimpleNamespace(bytes_in=0, messages_in=0),
        )
        return Route(context, unified, None)

    return make


@pytest.mark.parametrize("version", range(3, 14))
def test_an_answer_names_the_partition_and_its_offsets(route, version):
    """In every version as the decoder of clients reads it."""
    one, connection = route(version), Connection()
    slot = WaitingAnswer(one, connection, 77, 300)
    slot.acknowledge(AppendInfo(40, 42, -1))
    (frame,) = slot.parts
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big") == 77
    (topic,) = decode(ProduceResponse, version, memoryview(frame), 9 if version >= 9 else 8).responses
    assert (topic.name, topic.topic_id) == (("orders", bytes(16)) if version < 13 else ("", TOPIC_ID))
    (answer,) = topic.partition_responses
    assert (answer.index, answer.error_code, answer.base_offset, answer.log_append_time_ms) == (3, 0, 40, -1)
    assert answer.log_start_offset == (5 if version >= 5 else -1)
    assert (one.metrics.bytes_in, one.metrics.messages_in, connection.delivered) == (300, 3, 1)


def test_routes_of_a_topic_share_what_they_can(route):
    """A connection may remember many: what writes an answer is the same for all partitions."""
    assert route(9, 1).pack is route(9, 2).pack


def test_the_wait_is_bounded_where_others_are_waited_for(route):
    """With acks=1 there is nothing to wait for but the write."""
    assert WaitingAnswer(route(9), Connection(), 1, 1).deadline == float("inf")
    assert WaitingAnswer(route(9, acks=-1), Connection(), 1, 1).deadline == 2.5


(SHORT,) = with_shortcuts([API])


def frame_of(version, correlation_id, now_ms):
    """A request of one batch for partition 0 of ``t``, safe everywhere."""
    batch = build_batch([Record(0, now_ms, None, b"v")])
    data = [PartitionProduceData(index=0, records=memoryview(batch))]
    topic = TopicProduceData(name="t", topic_id=b"t".ljust(16), partition_data=data)
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=500, topic_data=[topic])
    parts = encode_request(0, version, correlation_id, "c", encode(request, version), flexible=True)
    return b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize("api", [SHORT, API], ids=["short", "decoded"])
@pytest.mark.parametrize(("version", "named"), [(9, False), (10, True), (13, True)])
def test_a_batch_that_waits_hears_who_leads_when_the_role_ends(
    broker_rig, tmp_path, now_ms, monkeypatch, api, version, named
):
    """From version 10 on, with the leader's endpoint (KIP-951), though the request was not decoded."""
    rig = broker_rig(tmp_path, api)
    first, second = (frame_of(version, number, now_ms) for number in (1, 2))
    rig.receive(first)
    rig.loop.run()
    monkeypatch.setattr(rig.directory, "_begin_cycle", lambda: None)
    before = len(rig.connection._transport.sent)
    rig.receive(second)
    rig.loop.run()
    assert len(rig.connection._transport.sent) == before
    rig.partitions[0].partition.resign()
    rig.loop.run()
    head_bytes = 9 if version >= 9 else 8
    answer = decode(ProduceResponse, version, memoryview(bytes(rig.connection._transport.sent[before:])), head_bytes)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = partition.current_leader
    assert (leader and (leader.leader_id, leader.leader_epoch)) == ((1, 3) if named else None)
    endpoints = [(at.node_id, at.host, at.port, at.rack) for at in answer.node_endpoints]
    assert endpoints == ([(1, "here", 9092, "r1")] if named else [])
    rig.close()
