"""Partitions that are far behind beside others of the same leader that are in sync."""

from math import inf

import pytest

from stratalog.broker.replication.fetching_events import Followed, Refused, Released, Take, Taken
from stratalog.wire.messages.fetch import EpochEndOffset
from tests.broker.replication.test_fetching import (
    LIMITS,
    SESSION,
    answer,
    at,
    data,
    following,
    forgotten,
    key,
    named,
    request_of,
)


def lagging(*numbers, lags=(0,)):
    """A machine that has found some of its partitions far behind, and the request that asks for more of all."""
    one, _ = following(*numbers)
    one.step(
        answer(*(data(number, records=b"x", high_watermark=100 if number in lags else 10) for number in numbers)), 1
    )
    for number in numbers:
        actions = one.step(Taken(key(number), 5, at(10)), 1)
    return one, request_of(actions)


def test_records_of_others_do_not_wait_for_a_partition_that_lags():
    """Its megabytes are written and synced outside of the session; then it is asked for again, as far as it is durable."""
    one, _ = lagging(0, 1)
    taken = one.step(answer(data(0, records=b"much", high_watermark=100), data(1, records=b"y", high_watermark=11)), 2)
    assert [action.key for action in taken] == [key(0), key(1)]
    request = request_of(one.step(Taken(key(1), 5, at(11)), 3))
    assert (forgotten(request), named(request)) == ([0], {1: 11})
    assert request.max_wait_ms <= 10  # it is waited for no longer than its sync takes
    assert one.step(Taken(key(0), 5, at(60)), 4) == []
    request = request_of(one.step(answer(), 5))
    assert (forgotten(request), named(request), request.max_wait_ms) == ([], {0: 60}, LIMITS.wait_ms)


def test_a_log_that_is_cut_holds_up_no_other_partition():
    """It may be long: the other copies stay in sync meanwhile. It is in no request until it has been cut."""
    one, _ = following(0, 1)
    actions = one.step(answer(data(0, diverging=EpochEndOffset(epoch=2, end_offset=4))), 1)
    assert isinstance(actions[0], Take)
    request = request_of(actions)
    assert (named(request), forgotten(request)) == ({}, [0])
    assert one.step(Taken(key(0), 5, at(4)), 4) == []  # one request at a time
    assert named(request_of(one.step(answer(), 5))) == {0: 4}


def test_records_of_others_do_not_wait_for_a_log_start_to_be_written_down():
    """DeleteRecords at the leader; the follower's checkpoint has the log starts of all its partitions."""
    one, _ = following(0, 1)
    moved = data(0, high_watermark=10)
    moved.log_start_offset = 4
    one.step(answer(moved, data(1, records=b"y")), 2)
    request = request_of(one.step(Taken(key(1), 5, at(1)), 3))
    assert (forgotten(request), named(request)) == ([0], {1: 1})
    assert one.step(Taken(key(0), 5, at(10, start=4)), 4) == []
    (wanted,) = request_of(one.step(answer(), 5)).topics[0].partitions
    assert (wanted.partition, wanted.log_start_offset) == (0, 4)


def test_requests_are_few_while_a_partition_takes_long():
    """A full disk keeps a log start from being written down for hours."""
    one, _ = lagging(0, 1)
    one.step(answer(data(0, records=b"much", high_watermark=100)), 1000)
    waits, now = [], 1000
    for _ in range(8):
        now += max(waits, default=0)
        waits.append(request_of(one.step(answer(), now)).max_wait_ms)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (10, LIMITS.wait_ms)


def test_a_partition_that_lags_alone_keeps_its_session():
    """There is nothing else to ask for meanwhile."""
    one, before = lagging(0)
    assert [type(action) for action in one.step(answer(data(0, records=b"much", high_watermark=100)), 2)] == [Take]
    assert one.wake_at_ms == inf
    request = request_of(one.step(Taken(key(0), 5, at(60)), 3))
    assert (request.session_id, request.session_epoch) == (SESSION, before.session_epoch + 1)
    assert (forgotten(request), named(request)) == ([], {0: 60})


def test_no_more_is_asked_for_than_two_answers_at_a_time():
    """Many that lag would fill the memory of a follower with a slow disk."""
    one, _ = lagging(0, 1, 2, lags=(0, 1))
    much = bytes(LIMITS.max_bytes // 2)
    taken = one.step(answer(*(data(number, records=much, high_watermark=100) for number in (0, 1))), 2)
    assert [type(action) for action in taken] == [Take, Take]
    assert forgotten(request_of(one.step(Taken(key(1), 5, at(60)), 3))) == [0]


@pytest.mark.parametrize("event", [Refused(key(0), 5, at(10)), Released(key(0)), Followed(key(0), 6, at(10))])
def test_a_partition_that_lags_may_be_refused_or_leave_meanwhile(event):
    """The others go on, and nothing is counted of it any more."""
    one, _ = lagging(0, 1)
    one.step(answer(data(0, records=bytes(LIMITS.max_bytes), high_watermark=100)), 2)
    request = request_of(one.step(event, 3))
    assert request.session_epoch > 1
    assert one.step(Taken(key(0), 5, at(60)), 4) == []
    assert request_of(one.step(answer(), 2000)).max_wait_ms == LIMITS.wait_ms
