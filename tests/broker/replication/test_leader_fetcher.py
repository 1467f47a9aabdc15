"""The driver of one leader's fetches: requests out, records to the roles."""

import asyncio
import time

import pytest

from stratalog.broker.peers.peer_errors import Peer, PeerUnavailable
from stratalog.broker.replicas.log_position import LogPosition
from stratalog.broker.replication.leader_fetcher import LeaderFetcher
from stratalog.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from stratalog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.broker.replication.stand_ins import TOPIC_ID, Links, Role, turns
from tests.broker.replication.test_fetching import LIMITS


@pytest.fixture
def links():
    """The way to broker 7."""
    return Links()


def fetcher_of(links, *, broker_epoch=lambda: 40, monotonic=time.monotonic):
    return LeaderFetcher(
        7,
        links,
        local_id=2,
        limits=lambda: LIMITS,
        broker_epoch=broker_epoch,
        timeout_ms=1000,
        monotonic=monotonic,
        draw=lambda: 0.0,
    )


@pytest.fixture
def fetcher(links):
    """The copies from broker 7."""
    return fetcher_of(links)


def answer(*records, number=0):
    partitions = [PartitionData(partition_index=number, high_watermark=0, records=one) for one in records]
    return FetchResponse(session_id=9, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)])


async def test_records_go_to_the_role_and_the_next_fetch_goes_on_behind_them(fetcher, links):
    """Under the registration of the moment."""
    role = Role()
    fetcher.follow(role.key, role)
    broker_id, request, future = links.newest()
    assert (broker_id, request.replica_state.replica_epoch) == (7, 40)
    future.set_result(answer(b"abc"))
    await turns()
    assert role.answers == [b"abc"]
    assert links.fetches()[-1].topics[0].partitions[0].fetch_offset == 3


def ends(*offsets):
    """The answers to a question for one end of a log."""
    for offset in offsets:
        one = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        yield ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])


async def test_a_copy_that_a_cleaner_has_passed_is_compared_before_its_first_fetch(fetcher, links):
    """Its leader counts it in sync by that, where both end at the same offset."""
    role = Role()
    role.is_overtaken, role.position = True, LogPosition(30, 5, 30)
    fetcher.follow(role.key, role)
    for told in ends(30, 90):
        await turns()
        assert links.fetches() == []
        links.newest()[2].set_result(told)
    await turns()
    assert (role.moved, links.fetches()[-1].topics[0].partitions[0].fetch_offset) == ((30, 90), 30)


async def test_a_copy_that_its_leader_goes_on_with_begins_to_fetch_at_once(fetcher, links):
    """Its log stays as it is, and there is no pause."""
    role = Role()
    role.is_overtaken = True
    fetcher.follow(role.key, role)
    for told in ends(0, 90):
        await turns()
        links.newest()[2].set_result(told)
    await turns()
    assert len(links.fetches()) == 1


async def test_a_comparison_whose_leader_is_away_is_tried_again_without_a_word(fetcher, links, caplog, monkeypatch):
    """Thousands of partitions may wait for one that is restarted: fetches tell of it once."""
    monkeypatch.setattr("stratalog.broker.replication.leader_fetcher._SETTLE_SECONDS", 0.001)
    role = Role()
    role.is_overtaken = True
    fetcher.follow(role.key, role)
    for _ in range(3):
        await turns()
        links.newest()[2].set_exception(PeerUnavailable(Peer(7, "h", 1), "it is gone"))
        count = len(links.asked)
        while len(links.asked) == count:
            await turns()
    assert (links.fetches(), caplog.messages) == ([], [])
    for told in ends(0, 90):
        await turns()
        links.newest()[2].set_result(told)
    await turns()
    assert len(links.fetches()) == 1


async def test_an_answer_to_a_role_that_has_ended_is_dropped(fetcher, links):
    """The next epoch's role begins with a fetch of its own."""
    first, second = Role(), Role(epoch=6)
    fetcher.follow(first.key, first)
    fetcher.follow(second.key, second)
    links.newest()[2].set_result(answer(b"old"))
    await turns()
    assert first.answers == second.answers == []
    assert links.fetches()[-1].topics[0].partitions[0].current_leader_epoch == 6


async def test_a_leader_that_does_not_answer_is_logged_once_and_tried_again(fetcher, links, caplog):
    """A new session begins."""
    role = Role()
    fetcher.follow(role.key, role)
    for _ in range(2):
        links.newest()[2].set_exception(PeerUnavailable(Peer(7, "h", 1), "it is gone"))
        count = len(links.asked)
        while len(links.asked) == count:
            await turns()
    assert [request.session_epoch for request in links.fetches()] == [0, 0, 0]
    assert len([line for line in caplog.messages if "not copied from broker 7" in line]) == 1


async def test_a_released_partition_is_asked_for_no_more(fetcher, links):
    """And a closed fetcher asks for nothing."""
    role = Role()
    fetcher.follow(role.key, role)
    fetcher.release(role.key)
    links.newest()[2].set_result(answer(b"late"))
    await turns()
    assert (role.answers, len(fetcher), len(links.asked)) == ([], 0, 1)
    fetcher.close()
    fetcher.follow(role.key, role)
    assert len(links.asked) == 1


async def test_a_long_answer_is_taken_in_slices(links):
    """Hundreds of logs that are cut after a crash hold up no heartbeat; the next fetch leaves when all are done."""
    now = [0.0]

    def monotonic():
        now[0] += 0.006
        return now[0]

    one = fetcher_of(links, monotonic=monotonic)
    roles = [Role(number) for number in range(3)]
    for role in roles:
        one.follow(role.key, role)
    links.newest()[2].set_result(answer())
    await turns()
    partitions = [PartitionData(partition_index=number, high_watermark=0, records=b"abc") for number in range(3)]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    asked = len(links.asked)
    links.newest()[2].set_result(FetchResponse(session_id=9, responses=topics))
    taken = []
    while len(links.asked) == asked:
        await turns(1)
        taken.append(sum(len(role.answers) for role in roles))
    assert {1, 3} <= set(taken)
    assert taken == sorted(taken)
    assert {wanted.fetch_offset for wanted in links.fetches()[-1].topics[0].partitions} == {3}


async def test_the_rest_of_an_answer_is_dropped_when_it_is_closed(fetcher, links):
    """A node that stops takes no more records."""
    first, second = Role(0), Role(1)
    for role in (first, second):
        fetcher.follow(role.key, role)
    links.newest()[2].set_result(answer())
    await turns()
    first.take = lambda _data, _outcome: fetcher.close()
    partitions = [PartitionData(partition_index=number, high_watermark=0, records=b"abc") for number in range(2)]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    links.newest()[2].set_result(FetchResponse(session_id=9, responses=topics))
    await turns()
    assert second.answers == []


async def test_the_rest_of_an_answer_comes_before_all_else(fetcher, links):
    """It is counted once, and the role that takes it has no other answer in between."""
    counted, order = [], []
    fetcher._count = lambda key, size_bytes: counted.append((key[1], size_bytes))
    first, second = Role(0), Role(1)
    for role in (first, second):
        fetcher.follow(role.key, role)
    links.newest()[2].set_result(answer())
    await turns()
    take = first.take

    def take_in_parts(data, outcome):
        order.append(bytes(data.records))
        if data.records == b"abc":
            data.records = b"c"
            return data
        return take(data, outcome)

    first.take = take_in_parts
    second.take = lambda data, _outcome: order.append("second")
    partitions = [PartitionData(partition_index=number, high_watermark=0, records=b"abc") for number in range(2)]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    links.newest()[2].set_result(FetchResponse(session_id=9, responses=topics))
    await turns()
    assert order == [b"abc", b"c", "second"]
    assert counted == [(0, 3), (1, 3)]


async def test_the_rest_of_a_cut_waits_behind_the_records_of_others(fetcher, links):
    """It may last for seconds, and each partition that takes something holds up its own requests only."""
    order = []
    first, second = Role(0), Role(1)
    for role in (first, second):
        fetcher.follow(role.key, role)
    links.newest()[2].set_result(answer())
    await turns()
    take = first.take

    def cut_in_parts(data, outcome):
        order.append("cut")
        return data if len(order) < 3 else take(data, outcome)

    first.take = cut_in_parts
    second.take = lambda data, outcome: order.append("second")
    end = EpochEndOffset(epoch=4, end_offset=1)
    parted = PartitionData(partition_index=0, high_watermark=0, diverging_epoch=end, records=b"")
    partitions = [parted, PartitionData(partition_index=1, high_watermark=0, records=b"abc")]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    links.newest()[2].set_result(FetchResponse(session_id=9, responses=topics))
    await turns()
    assert order == ["cut", "second", "cut"]


@pytest.mark.parametrize("is_released", [True, False])
async def test_records_that_came_for_a_role_are_given_to_no_later_one_of_its_leader_epoch(fetcher, links, is_released):
    """The log may end elsewhere by then: records behind its end would pass for what lies behind a gap of the leader's cleaner."""
    first, second, later = Role(0), Role(1), Role(1)
    for role in (first, second):
        fetcher.follow(role.key, role)
    links.newest()[2].set_result(answer())
    await turns()
    take = first.take

    def take_and_follow_anew(data, outcome):
        if is_released:
            fetcher.release(second.key)
        fetcher.follow(later.key, later)
        return take(data, outcome)

    first.take = take_and_follow_anew
    partitions = [PartitionData(partition_index=number, high_watermark=0, records=b"abc") for number in range(2)]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
    links.newest()[2].set_result(FetchResponse(session_id=9, responses=topics))
    await turns()
    assert (first.answers, second.answers, later.answers) == ([b"abc"], [], [])
    asked = {wanted.partition: wanted.fetch_offset for wanted in links.fetches()[-1].topics[0].partitions}
    assert asked == {0: 3, 1: 0}


async def test_an_answer_that_comes_before_a_role_has_settled_is_dropped(fetcher, links):
    """It was asked for by the role before, from where that one's log ended."""
    first, later = Role(), Role()
    fetcher.follow(first.key, first)
    later.settle = lambda _outcome: None
    fetcher.follow(later.key, later)
    links.newest()[2].set_result(answer(b"old"))
    await turns()
    assert later.answers == []


async def test_a_role_whose_log_found_no_room_before_it_began_begins_later(fetcher, links, monkeypatch):
    """An earlier role had left records that are not on the disk: the copy waits for them once more, and begins then."""
    monkeypatch.setattr("stratalog.broker.replication.leader_fetcher._SETTLE_SECONDS", 0.01)
    role, settled = Role(), []

    def settle(outcome):
        settled.append(1)
        (outcome.refused if len(settled) == 1 else outcome.taken)(role, role.position)

    role.settle = settle
    fetcher.follow(role.key, role)
    assert links.asked == []
    await asyncio.sleep(0.1)
    assert len(settled) == 2
    assert links.fetches()[-1].topics[0].partitions[0].fetch_offset == 0
    other = Role(1)
    other.settle = lambda outcome: outcome.refused(other, other.position)
    fetcher.follow(other.key, other)
    fetcher.release(other.key)
    await asyncio.sleep(0.03)
    assert len(fetcher) == 1
