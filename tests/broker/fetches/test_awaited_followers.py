"""Followers that have not yet asked for what is led newly: their requests do not wait long."""

from math import inf
from types import SimpleNamespace

import pytest

from stratalog.broker.fetches.awaited_followers import AwaitedFollowers
from stratalog.broker.fetches.fetch_attempt import FetchAttempt
from stratalog.broker.fetches.replica_read import ReplicaReader
from stratalog.broker.requests.dispatch import PENDING
from stratalog.wire.messages.fetch import FetchRequest, FetchResponse


class Waiting:
    """A request that waits and leaves the list when it is answered."""

    def __init__(self, awaited, broker_id):
        self.awaited, self.broker_id, self.answers = awaited, broker_id, 0
        awaited.begin_wait(broker_id, self)

    def finish(self):
        self.awaited.end_wait(self.broker_id, self)
        self.answers += 1


@pytest.fixture
def now():
    """The time in seconds."""
    return [10.0]


@pytest.fixture
def awaited(now):
    """Those of a broker that has led nothing new lately."""
    return AwaitedFollowers(lambda: now[0])


def test_requests_that_wait_are_answered_when_a_partition_is_led_newly(awaited):
    """The next one can name it. Other followers have nothing to name."""
    first, second, other = Waiting(awaited, 2), Waiting(awaited, 2), Waiting(awaited, 4)
    awaited.expect([2, 3])
    assert (first.answers, second.answers, other.answers) == (1, 1, 0)


def test_later_requests_wait_shortly_for_a_second(awaited, now):
    """The follower may hear of the election after its leader."""
    assert awaited.wait_ms_max(2) == inf
    awaited.expect([2])
    assert (awaited.wait_ms_max(2), awaited.wait_ms_max(3)) == (20, inf)
    now[0] += 0.99
    assert awaited.wait_ms_max(2) == 20
    now[0] += 0.02
    assert awaited.wait_ms_max(2) == inf


def test_a_request_that_was_answered_is_not_answered_again(awaited):
    """And to say twice that it waits no longer does no harm."""
    one = Waiting(awaited, 2)
    one.finish()
    awaited.expect([2])
    awaited.end_wait(2, one)
    assert one.answers == 1


class Attempt(FetchAttempt):
    """A request without news: it waits until it has to be answered."""

    def attempt(self, *, final):
        return FetchResponse(responses=[]) if final else None


def waiting_attempt(awaited):
    """A follower's request that waits, and its context, with how long it waits at most and its answers."""
    told = SimpleNamespace(wait_ms=None, answers=[], timer=None)

    def wait(_keys, wait_ms, _complete, expire):
        told.wait_ms, told.timer = wait_ms, SimpleNamespace(expired=expire, cancel=lambda: None)
        return told.timer

    broker = SimpleNamespace(
        partitions=None,
        purgatory=SimpleNamespace(wait=wait),
        config=SimpleNamespace(integer=lambda _name: 1 << 20),
    )
    context = SimpleNamespace(
        broker=broker,
        dispatcher=SimpleNamespace(guarded=False),
        row=SimpleNamespace(version=18),
        respond=told.answers.append,
    )
    throttle = SimpleNamespace(wait_ms=lambda _now_ms: 0.0)
    reader = ReplicaReader(2, 40, 18, throttle=throttle, monotonic=lambda: 5.0, awaited=awaited)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[])
    attempt = Attempt(context, request, replica=reader)
    assert attempt.start() is PENDING
    return attempt, told


def test_a_fetch_that_waits_is_answered_by_an_election_and_the_next_waits_shortly(awaited):
    """So the follower asks for the new partition at once, and acknowledgements of all replicas do not wait for it."""
    _, told = waiting_attempt(awaited)
    assert (told.wait_ms, told.answers) == (500, [])
    awaited.expect([2])
    awaited.expect([2])
    assert len(told.answers) == 1
    _, told = waiting_attempt(awaited)
    assert (told.wait_ms, told.answers) == (20, [])


def test_a_fetch_that_has_ended_is_answered_by_no_election(awaited):
    """Whether its time was over or its follower has gone."""
    _, told = waiting_attempt(awaited)
    told.timer.expired()
    assert len(told.answers) == 1
    gone, silent = waiting_attempt(awaited)
    gone.abandon()
    awaited.expect([2])
    assert (len(told.answers), silent.answers) == (1, [])
