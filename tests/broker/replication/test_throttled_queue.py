"""Throttled partitions of a follower: which are asked for, when, and what the others notice."""

from math import inf

import pytest

from stratalog.broker.replication.fetching import Fetching
from stratalog.broker.replication.fetching_events import Answered, Ask, Followed, Released, Taken, Ticked
from stratalog.broker.replication.throttled_queue import ThrottledQueue
from stratalog.metadata.quotas.replication_quota import ReplicationQuota
from stratalog.wire.messages.fetch import FetchableTopicResponse, FetchResponse
from tests.broker.replication.test_fetching import (
    LIMITS,
    SESSION,
    TOPIC,
    answer,
    at,
    data,
    forgotten,
    key,
    named,
    request_of,
)

MIB = 1 << 20


class Throttle:
    """A follower's throttle with a rate in bytes a second, and the numbers of throttled partitions."""

    def __init__(self, rate=2_000_000, numbers=()):
        self.rate = rate
        self.numbers = set(numbers)
        self.quota = ReplicationQuota(11, 1.0)

    def is_key_throttled(self, one):
        return one.number in self.numbers

    def allowed_bytes(self, now_ms):
        return self.quota.allowed_bytes(self.rate, now_ms / 1000)

    def wait_ms(self, now_ms):
        return self.quota.wait_seconds(self.rate, now_ms / 1000) * 1000

    def use(self, size_bytes, now_ms):
        self.quota.record(size_bytes, self.rate, now_ms / 1000)


def machine(throttle):
    one = Fetching(2, lambda: LIMITS, lambda: 0.5, throttle)
    one.broker_epoch = 40
    return one


def begun(one, *numbers, now=0):
    """The machine follows these from offset 0; the request that follows an empty answer to the first one."""
    for number in numbers:
        one.step(Followed(key(number), 5, at(0)), now)
    return request_of(one.step(answer(), now))


# -- the queue -------------------------------------------------------------------------------------------------------


def test_as_many_are_let_out_as_the_allowance_has_room_for():
    """In turns: one whose records have come goes to the end."""
    throttle = Throttle(rate=3 * MIB, numbers=range(6))
    queue = ThrottledQueue(throttle)
    assert [queue.holds(key(number)) for number in range(7)] == [True] * 6 + [False]
    assert queue.let_out(MIB, 0) == [key(0), key(1), key(2)]
    assert queue.let_out(MIB, 0) == []
    assert queue.holds(key(0))
    assert queue.let_out(MIB, 0) == [key(3)]
    queue.discard(key(1))
    assert queue.let_out(MIB, 0) == [key(4)]


def test_those_that_are_out_come_back_when_nothing_is_allowed():
    """They wait until the debt is paid, and are looked at again within a second: the rate may be another."""
    throttle = Throttle(rate=1000, numbers=(0, 1))
    queue = ThrottledQueue(throttle)
    queue.holds(key(0))
    assert queue.let_out(MIB, 0) == [key(0)]
    assert queue.take_back(0) == []
    throttle.use(1200, 0)
    assert queue.take_back(0) == [key(0)]
    assert (queue.let_out(MIB, 0), len(queue)) == ([], 1)
    assert queue.look_at_ms == pytest.approx(201, abs=2)
    throttle.use(5000, 0)
    assert (queue.let_out(MIB, 0), queue.look_at_ms) == ([], 1000)
    throttle.rate = 10_000
    assert queue.let_out(MIB, 1000) == [key(0)]


def test_a_partition_that_is_throttled_no_longer_is_let_out():
    """The list of the topic has changed."""
    throttle = Throttle(rate=0, numbers=(0, 1))
    queue = ThrottledQueue(throttle)
    queue.holds(key(0))
    queue.holds(key(1))
    assert queue.let_out(MIB, 0) == []
    throttle.numbers = {1}
    assert queue.let_out(MIB, 500) == []  # it is looked at once a second
    assert queue.let_out(MIB, 1000) == [key(0)]


def test_without_a_throttle_nothing_is_held():
    """A queue of a broker without one costs nothing."""
    queue = ThrottledQueue(None)
    assert (queue.holds(key(0)), queue.take_back(0), queue.let_out(1, 0), len(queue)) == (False, [], [], 0)


def test_partitions_that_are_asked_for_are_known():
    """It may bring no more than was reckoned with."""
    queue = ThrottledQueue(Throttle(rate=1000, numbers=(0, 1)))
    queue.holds(key(0))
    queue.holds(key(1))
    (out,) = queue.let_out(MIB, 0)
    assert (queue.is_out(out), queue.is_out(key(1 - out.number))) == (True, False)


# -- the machine of a leader's fetches -----------------------------------------------------------------------------------


def test_a_throttled_partition_leaves_the_session_while_nothing_is_allowed():
    """The next request goes on with the session, waits no longer than the throttle says, and names the others."""
    throttle = Throttle(rate=1000, numbers=(0,))
    one = machine(throttle)
    begun(one, 0, 1)
    throttle.use(1100, 0)
    one.step(answer(data(0, records=b"x", high_watermark=9), data(1, records=b"y", high_watermark=1)), 0)
    one.step(Taken(key(1), 5, at(1)), 0)
    request = request_of(one.step(Taken(key(0), 5, at(1)), 0))
    assert (named(request), forgotten(request), request.session_id) == ({1: 1}, [0], SESSION)
    assert request.max_wait_ms == pytest.approx(102, abs=2)
    request = request_of(one.step(answer(), 150))
    assert (named(request), forgotten(request), request.max_wait_ms) == ({0: 1}, [], 500)


def test_a_throttled_partition_that_is_in_sync_is_asked_for():
    """It has all that is committed: to hold it up would hold up producers."""
    throttle = Throttle(rate=1000, numbers=(0,))
    one = machine(throttle)
    begun(one, 0)
    throttle.use(50_000, 0)
    one.step(answer(data(0, records=b"x", high_watermark=1)), 0)
    request = request_of(one.step(Taken(key(0), 5, at(1)), 0))
    assert (named(request), request.max_wait_ms) == ({0: 1}, 500)
    one.step(answer(data(0, records=b"x", high_watermark=8)), 0)
    assert one.step(Taken(key(0), 5, at(2)), 0) == []  # now it is behind


def test_alone_it_waits_and_does_not_spin():
    """The next request waits until something is allowed, and has the same session."""
    throttle = Throttle(rate=1000, numbers=(0,))
    one = machine(throttle)
    begun(one, 0)
    throttle.use(1500, 0)
    one.step(answer(data(0, records=b"x", high_watermark=9)), 0)
    assert one.step(Taken(key(0), 5, at(1)), 0) == []
    assert 500 <= one.wake_at_ms <= 503
    assert one.step(Ticked(), 400) == []
    assert one.wake_at_ms > 400
    request = request_of(one.step(Ticked(), 503))
    assert (named(request), request.session_id) == ({0: 1}, SESSION)


def test_a_rate_of_0_is_looked_at_once_a_second():
    """It may be raised."""
    throttle = Throttle(rate=0, numbers=(0,))
    one = machine(throttle)
    assert one.step(Followed(key(0), 5, at(0)), 0) == []
    assert one.wake_at_ms == 1000
    assert one.step(Ticked(), 1000) == []
    assert one.wake_at_ms == 2000
    throttle.rate = 1000
    assert named(request_of(one.step(Ticked(), 2000))) == {0: 0}


def test_a_released_partition_waits_no_longer():
    """The queue looks for none, either."""
    one = machine(Throttle(rate=0, numbers=(0,)))
    one.step(Followed(key(0), 5, at(0)), 0)
    assert one.step(Released(key(0)), 1) == []
    assert one.wake_at_ms == inf


class World:
    """A leader with more than enough records for partitions that are behind, and its follower, in virtual time.

    A partition of ``live`` gets a record every 20 ms, and its follower has all of it.
    """

    def __init__(self, throttle, behind, live, round_trip_ms=3):
        self.throttle = throttle
        self.one = machine(throttle)
        self.behind, self.live = set(behind), set(live)
        self.round_trip_ms = round_trip_ms
        self.now = 0
        self.bytes = dict.fromkeys([*behind, *live], 0)
        self.session = {}
        self.request = None
        self.asked = 0
        self.live_gaps = [0]
        self.live_at = 0
        for number in self.bytes:
            self.note(self.one.step(Followed(key(number), 5, at(0)), 0))

    def note(self, actions):
        for action in actions:
            if not isinstance(action, Ask):
                continue
            self.asked += 1
            self.request = action.request
            if self.request.session_epoch == 0:
                self.session = {}
            for number in forgotten(self.request):
                self.session.pop(number, None)
            self.session.update(named(self.request))

    def run(self, until_ms):
        while self.now < until_ms:
            if self.request is None:
                assert self.one.wake_at_ms < inf
                self.now = max(self.now + 1, int(self.one.wake_at_ms) + 1)
                self.note(self.one.step(Ticked(), self.now))
                continue
            self.answer()

    def answer(self):
        request, self.request = self.request, None
        offsets = dict(self.session)
        sizes = {number: MIB for number in self.session if number in self.behind}
        self.now += self.round_trip_ms
        ready = {number for number in self.session if number in self.live}
        if not sizes:
            self.now += min(request.max_wait_ms, 20) if ready else request.max_wait_ms
        sizes.update(dict.fromkeys(ready if self.now - self.live_at >= 20 else (), 100))
        if any(number in self.live for number in sizes):
            self.live_gaps.append(self.now - self.live_at)
            self.live_at = self.now
        told = [
            data(number, records=b"r", high_watermark=self.session[number] + (1 if number in self.live else 100))
            for number in sizes
        ]
        topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=told)]
        self.note(self.one.step(Answered(FetchResponse(session_id=SESSION, responses=topics)), self.now))
        for number, size in sizes.items():
            self.bytes[number] += size
            if self.throttle.is_key_throttled(key(number)):
                self.throttle.use(size, self.now)
            self.note(self.one.step(Taken(key(number), 5, at(offsets[number] + 1)), self.now))


@pytest.mark.parametrize("rate", [500_000, 2_000_000, 20_000_000])
@pytest.mark.parametrize(("behind", "live"), [(range(1), ()), (range(12), ()), (range(12), range(20, 23))])
def test_copies_that_are_behind_get_the_rate_and_the_others_notice_nothing(rate, behind, live):
    """A minute of virtual time: the rate within a tenth, each in its turn, few requests, and no gap in what is in sync."""
    world = World(Throttle(rate, numbers=behind), behind, live)
    world.run(60_000)
    total = sum(world.bytes[number] for number in behind)
    assert total == pytest.approx(60 * rate, rel=0.1)
    shares = [world.bytes[number] for number in behind]
    assert max(shares) - min(shares) <= 2 * MIB
    assert max(world.live_gaps) <= 60
    assert world.asked <= 2 * total / MIB + (60_000 / 20 if live else 60) + 20


def test_a_partition_that_is_not_throttled_is_copied_as_fast_as_ever():
    """Beside one whose turn comes twice a second."""
    world = World(Throttle(500_000, numbers=(0,)), (0, 1), ())
    world.run(2000)
    assert world.bytes[1] >= 0.9 * MIB * 2000 / 3
    assert world.bytes[0] <= 500_000 * 3 + MIB
