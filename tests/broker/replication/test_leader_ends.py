"""Where the records of before a time end, as other brokers know it."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.peers.peer_errors import Peer, PeerTimeout
from stratalog.broker.replication.leader_ends import LeaderEnds
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.tier.documents.keys import PartitionId
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.broker.replication.stand_ins import TOPIC_ID, Links, turns

TIME_MS = 1_700_000_000_000


def part(number):
    return PartitionId("t", TOPIC_ID, number)


@pytest.fixture
def links():
    """The ways to all leaders."""
    return Links()


@pytest.fixture
def ends(links):
    """The questions of broker 2: 7 leads two partitions, 8 one, none the fourth, broker 2 itself the fifth."""
    partitions = {number: PartitionImage((leader,), (leader,), leader, 5) for number, leader in enumerate((7, 7, 8))}
    partitions |= {3: PartitionImage((7,), (), -1, 5), 4: PartitionImage((2,), (2,), 2, 5)}
    topics = SimpleNamespace(by_id={TOPIC_ID: SimpleNamespace(partitions=partitions)})
    image = SimpleNamespace(topics=topics)
    return LeaderEnds(links, image=lambda: image, local_id=2, timeout_ms=lambda: 30_000)


def answer(links, broker, offsets, code=ErrorCode.NONE):
    """Answer the newest question to a broker; what it asked for."""
    _, request, future = next(one for one in reversed(links.asked) if one[0] == broker)
    answers = [ListOffsetsPartitionResponse(partition_index=n, offset=at, error_code=code) for n, at in offsets.items()]
    future.set_result(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)]))
    return [(one.partition_index, one.current_leader_epoch, one.timestamp) for one in request.topics[0].partitions]


async def test_logs_that_go_on_behind_their_archives_are_searched_by_time(ends, links):
    """Each leader is asked once for all ends, and once for the offsets of that time; a log without such a record counts whole."""
    asking = asyncio.ensure_future(ends.ends_at(TIME_MS, {part(0): 30, part(1): 30, part(2): 30}))
    await turns()
    assert answer(links, 7, {0: 30, 1: 50}) == [(0, 5, -1), (1, 5, -1)]
    assert answer(links, 8, {2: 60}) == [(2, 5, -1)]
    await turns()
    assert answer(links, 7, {1: 44}) == [(1, 5, TIME_MS)]
    assert answer(links, 8, {2: -1}) == [(2, 5, TIME_MS)]
    assert await asking == {part(0): 30, part(1): 44, part(2): 60}
    assert {request.replica_id for _, request, _ in links.asked} == {2}


async def test_a_leader_that_hangs_is_not_waited_for_as_long_as_one_that_searches(ends, links):
    """It has the ends of its logs in memory; views of other topics are opened behind this one."""
    asking = asyncio.ensure_future(ends.ends_at(TIME_MS, {part(0): 30}))
    await turns()
    answer(links, 7, {0: 50})
    await turns()
    answer(links, 7, {0: 44})
    await asking
    assert links.timeouts_ms == [5_000, 30_000]


@pytest.mark.parametrize("number", [3, 4, 9])
async def test_a_partition_whose_leader_cannot_be_asked(ends, links, number):
    """It has none, this broker has yet to open its log, or it is gone."""
    with pytest.raises(KafkaError) as caught:
        await ends.ends_at(TIME_MS, {part(number): 0})
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert links.asked == []


async def test_an_answer_that_tells_nothing_is_no_end(ends, links):
    """Another broker leads, the answer leaves the partition out, or none comes."""
    for offsets, code in (({0: 9}, ErrorCode.NOT_LEADER_OR_FOLLOWER), ({}, ErrorCode.NONE), (None, None)):
        asking = asyncio.ensure_future(ends.ends_at(TIME_MS, {part(0): 0}))
        await turns()
        if offsets is None:
            links.newest()[2].set_exception(PeerTimeout(Peer(7, "h", 1), "no answer"))
        else:
            answer(links, 7, offsets, code)
        with pytest.raises(KafkaError) as caught:
            await asking
        assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_links_follow_addresses_and_end(ends, links):
    """As those of copies do."""
    ends.follow()
    ends.close()
    assert (links.followed, links.closed) == (1, 1)
