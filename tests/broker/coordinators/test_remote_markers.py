"""Tests of broker/coordinators/remote_markers.py: requests, answers, and markers that are sent anew."""

import asyncio
import time

import pytest

from stratalog.broker.coordinators.partition_markers import TransactionMarker
from stratalog.broker.coordinators.remote_markers import RemoteMarkers
from stratalog.broker.peers.peer_errors import Peer, PeerUnsupported
from stratalog.metadata.coordination import Producer
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from stratalog.wire.schema import decode, encode
from stratalog.wire.topic import TopicPartition
from tests.broker.coordinators.far_brokers import FarLinks, image_of

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
COMMIT = TransactionMarker(Producer(7, 3), True, 5, 2)


class Bench:
    """Broker 1; others lead."""

    def __init__(self):
        self.links = FarLinks()
        self.image = image_of({"t": [2, 2], "u": [3], "here": [1], "leaderless": [-1]})
        self.remote = RemoteMarkers(
            self.links,
            node_id=1,
            image=lambda: self.image,
            monotonic=time.monotonic,
            draw=lambda: 0.0,
            timeout_ms=lambda: 1000,
        )
        self.told = []

    def write(self, partition, marker=COMMIT, name=None, wanted=lambda: True):
        name = name or partition
        self.remote.write(partition, marker, lambda error: self.told.append((name, error and error.code)), wanted)


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    made.remote.close()


def taken(request, **codes):
    """The answer of a broker that has appended everything; ``codes`` by topic say otherwise."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=one, error_code=codes.get(topic.name, 0))
                            for one in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def told(bench, *expected):
    async with asyncio.timeout(5):
        while len(bench.told) < len(expected):  # noqa: ASYNC110 - a list
            await asyncio.sleep(0.001)
    assert sorted(bench.told) == sorted(expected)


async def test_markers_of_many_transactions_go_in_one_request(bench):
    """An entry for each end of a transaction, in every version of the message."""
    abort = TransactionMarker(Producer(8, 0), False, 6, 0)
    bench.write(T0)
    bench.write(T1)
    bench.write(T0, abort)
    bench.write(U0)
    asked = {broker_id: (request, answer) for broker_id, request, answer in [await bench.links.take() for _ in "ab"]}
    request, answer = asked[2]
    fields = [
        (one.producer_id, one.producer_epoch, one.transaction_result, one.coordinator_epoch, one.transaction_version)
        for one in request.markers
    ]
    assert fields == [(7, 3, True, 5, 2), (8, 0, False, 6, 0)]
    assert [(one.name, one.partition_indexes) for one in request.markers[0].topics] == [("t", [0, 1])]
    for version, kept in ((1, 0), (2, 2)):
        again = decode(type(request), version, b"".join(encode(request, version)))
        assert again.markers[0].transaction_version == kept
    answer.set_result(taken(request))
    await told(bench, (T0, None), (T1, None), (T0, None))
    asked[3][1].set_result(taken(asked[3][0]))
    await told(bench, (T0, None), (T1, None), (T0, None), (U0, None))
    assert len(bench.remote) == 0


async def test_a_lost_connection_costs_a_moment(bench, caplog):
    """The same markers go again. A broker of an old version is asked again, too, which is logged."""
    bench.write(T0)
    _, request, answer = await bench.links.take()
    bench.links.lose(answer)
    _, again, answer = await bench.links.take()
    assert again == request
    answer.set_exception(PeerUnsupported(Peer(2, "far", 9092), "it serves no version"))
    _, again, answer = await bench.links.take()
    assert "markers of transactions cannot be sent" in caplog.text
    answer.set_result(taken(again))
    await told(bench, (T0, None))


async def test_outcomes_that_stay_end_the_marker_and_others_tried_again(bench, caplog):
    """NOT_LEADER_OR_FOLLOWER, upon which it rests; an unknown code; a newer epoch, which stays."""
    bench.write(T0)
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9999, ErrorCode.INVALID_PRODUCER_EPOCH):
        _, request, answer = await bench.links.take()
        answer.set_result(taken(request, t=int(code)))
    await told(bench, (T0, ErrorCode.INVALID_PRODUCER_EPOCH))
    assert "t-0: broker 2 does not take markers (NOT_LEADER_OR_FOLLOWER)" in caplog.text


async def test_a_coordinator_is_fenced_unless_nothing_is_open_there(bench):
    """With nothing open the outcome is that of a newer epoch: the transaction has ended there."""
    for nothing_open, code in (
        (False, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (True, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        bench.told.clear()
        bench.write(T0)
        _, request, answer = await bench.links.take()
        outcome = taken(request, t=int(ErrorCode.TRANSACTION_COORDINATOR_FENCED))
        outcome.markers[0].topics[0].partitions[0].nothing_open = nothing_open
        answer.set_result(outcome)
        await told(bench, (T0, code))


async def test_a_partition_without_a_leader_waits_for_one(bench):
    """Led here, or deleted: its writer hears of it."""
    leaderless = TopicPartition("leaderless", 0)
    assert bench.remote.elsewhere(leaderless)
    assert not bench.remote.elsewhere(TopicPartition("here", 0))
    bench.write(leaderless)
    bench.write(T0)
    await bench.links.take()
    bench.image = image_of({"leaderless": [1]})
    bench.remote.follow()
    await told(bench, (leaderless, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert bench.links.followed == 1


async def test_a_marker_that_is_sent_anew_takes_the_place_of_the_one_before(bench):
    """Its shard was loaded anew: what was sent counts for it, what was not sent is forgotten."""
    bench.write(T0, name="before")
    bench.write(T0, name="anew")
    _, request, answer = await bench.links.take()
    bench.write(T0, name="once more")
    answer.set_result(taken(request))
    await told(bench, ("once more", None))
    assert len(bench.remote) == 0


async def test_another_marker_waits_for_the_one_in_flight(bench):
    """It has the same producer and partition: one of a later coordinator, for example."""
    later = TransactionMarker(Producer(7, 3), True, 6, 2)
    bench.write(T0, name="before")
    _, request, answer = await bench.links.take()
    bench.write(T0, later, name="after")
    await asyncio.sleep(0.01)
    assert not bench.links.asked
    answer.set_result(taken(request))
    _, request, answer = await bench.links.take()
    assert request.markers[0].coordinator_epoch == 6
    answer.set_result(taken(request))
    await told(bench, ("before", None), ("after", None))


async def test_markers_of_a_dropped_shard_are_not_sent(bench):
    """They are forgotten when their turn comes."""
    bench.write(T0, wanted=lambda: False)
    bench.write(T1)
    _, request, answer = await bench.links.take()
    assert request.markers[0].topics[0].partition_indexes == [1]
    answer.set_result(taken(request))
    await told(bench, (T1, None))
    bench.write(T0, wanted=lambda: False)
    await asyncio.sleep(0.01)
    assert len(bench.remote) == 0


async def test_no_outcome_is_heard_after_the_end(bench):
    """The links fail what is in flight."""
    bench.write(T0)
    _, _, answer = await bench.links.take()
    bench.remote.close()
    bench.links.lose(answer)
    await asyncio.sleep(0.01)
    assert bench.links.closed
    assert (bench.told, bench.links.asked) == ([], [])
