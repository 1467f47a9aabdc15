import asyncio
import time

import pytest

from stratalog.broker.runtime.purgatory import Purgatory


class Clock:
    """Time that the test moves."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def wall_ms(self):
        return int(self.now * 1000)


class Loop:
    """Remembers timers; ``advance`` fires what is due."""

    def __init__(self, clock):
        self.clock = clock
        self.timers = []

    def call_later(self, delay, callback, *args):
        handle = _Timer(self.clock.now + delay, callback, args)
        self.timers.append(handle)
        return handle

    def advance(self, seconds):
        end = self.clock.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end and not timer.cancelled]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.clock.now = first.when
            first.callback(*first.args)
        self.clock.now = end


class _Timer:
    def __init__(self, when, callback, args):
        self.when, self.callback, self.args, self.cancelled = when, callback, args, False

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def loop():
    """A loop on a clock of its own."""
    return Loop(Clock())


@pytest.fixture
def purgatory(loop):
    """An empty purgatory."""
    return Purgatory(loop, loop.clock)


class Request:
    """Completes once ``ready``; notes what happened to it."""

    def __init__(self, purgatory, keys, timeout_ms=500):
        self.ready = False
        self.tries = 0
        self.ends = []
        self.waiter = purgatory.wait(keys, timeout_ms, self.attempt, lambda: self.ends.append("expired"))

    def attempt(self):
        self.tries += 1
        if self.ready:
            self.ends.append("done")
        return self.ready


def test_a_request_completes_when_one_of_its_keys_changes(purgatory):
    """A check that finds the condition met completes the request once, and it waits under no key any more."""
    request = Request(purgatory, ["a", "b"])
    assert purgatory.check("a") == 0
    request.ready = True
    assert purgatory.check("other") == 0
    assert purgatory.check("b") == 1
    assert purgatory.check("a") == 0
    assert request.ends == ["done"]
    assert request.tries == 2
    assert not purgatory.watched("a")
    assert len(purgatory) == 0


def test_a_request_may_wait_under_one_more_key(purgatory):
    """The need for it may turn out only while it waits; afterwards no key is left."""
    request = Request(purgatory, ["a"])
    request.waiter.watch("b")
    request.waiter.watch("b")
    assert purgatory.check("b") == 0
    assert request.tries == 1
    request.ready = True
    assert purgatory.check("b") == 1
    request.waiter.watch("c")
    assert not any(purgatory.watched(key) for key in "abc")


def test_requests_under_one_key_are_tried_in_the_order_of_their_arrival(purgatory):
    """The oldest is answered first; those that are not ready stay."""
    order = []
    for name in "abc":
        purgatory.wait(["key"], 500, lambda name=name: order.append(name) or name == "b", lambda: None)
    assert purgatory.check("key") == 1
    assert order == ["a", "b", "c"]
    assert len(purgatory) == 2


@pytest.mark.parametrize("timeout_ms", [0, 1, 5, 31, 500, 501, 30_000, 300_000])
def test_deadlines_are_never_early_and_at_most_a_thirty_second_late(purgatory, loop, timeout_ms):
    """A request expires after its time-out, within the promised coarseness of a thirty-second plus 2 ms."""
    for start in (0.0, 0.0137, 0.5):
        loop.advance(start)
        request = Request(purgatory, ["key"], timeout_ms)
        loop.advance(timeout_ms / 1000 - 0.0005)
        assert request.ends == []
        loop.advance(timeout_ms / 1000 / 32 + 0.0025)
        assert request.ends == ["expired"]
    assert purgatory.expired == 3
    assert len(purgatory) == 0


def test_a_completed_request_does_not_expire_and_a_cancelled_one_does_nothing(purgatory, loop):
    """No callback runs for a request that has ended before its deadline."""
    completed, cancelled = Request(purgatory, ["a"]), Request(purgatory, ["a"])
    completed.ready = True
    purgatory.check("a")
    cancelled.waiter.cancel()
    loop.advance(10)
    assert completed.ends == ["done"]
    assert cancelled.ends == []
    assert purgatory.expired == 0


def test_many_requests_share_few_timers(purgatory, loop):
    """Ten thousand requests with one time-out over ten seconds need a timer for each slot, not for each request."""
    for _ in range(10_000):
        loop.clock.now += 0.001
        request = Request(purgatory, ["p"], 30_000)
        request.ready = True
        purgatory.check("p")
    assert len(loop.timers) <= 10_000 // 512 + 2


@pytest.mark.story
def test_memory_of_completed_requests_is_free_before_their_deadline(purgatory):
    """A completed request is referenced from nowhere, though the timer of its slot is still running."""
    import gc
    import weakref

    class Marker:
        pass

    marker = Marker()
    reference = weakref.ref(marker)
    waiter = purgatory.wait(["k"], 30_000, lambda marker=marker: True, lambda: None)
    purgatory.check("k")
    del marker, waiter
    gc.collect()
    assert reference() is None


def test_a_failing_request_is_expired_and_harms_no_other(purgatory, caplog):
    """An exception in one condition is logged, that request is answered as at its deadline, the next ones are tried."""
    ends = []

    def broken():
        raise ZeroDivisionError

    purgatory.wait(["key"], 500, broken, lambda: ends.append("expired"))
    other = Request(purgatory, ["key"])
    other.ready = True
    assert purgatory.check("key") == 2
    assert ends == ["expired"]
    assert other.ends == ["done"]
    assert "ZeroDivisionError" in caplog.text


def test_a_failing_expiry_harms_no_other(purgatory, loop, caplog):
    """An exception while one request expires is logged; those due at the same time expire too."""
    purgatory.wait(["key"], 500, lambda: False, lambda: 1 / 0)
    other = Request(purgatory, ["key"])
    loop.advance(1)
    assert other.ends == ["expired"]
    assert "ZeroDivisionError" in caplog.text


def test_a_request_may_complete_another_while_it_is_tried(purgatory):
    """Completions that cascade are safe: no request is called twice."""
    second = None

    def first():
        second.ready = True
        purgatory.check("b")
        return True

    purgatory.wait(["a", "b"], 500, first, lambda: None)
    second = Request(purgatory, ["a", "b"])
    purgatory.check("a")
    assert second.ends == ["done"]
    assert len(purgatory) == 0


def test_cancel_all_empties_everything(purgatory, loop):
    """A broker that goes down leaves no timer that would answer into closed connections."""
    request = Request(purgatory, ["a"])
    purgatory.cancel_all()
    loop.advance(10)
    assert request.ends == []
    assert len(purgatory) == 0
    assert all(timer.cancelled for timer in loop.timers)


async def test_on_a_real_loop():
    """With asyncio's timers and the machine's clock a deadline passes by itself."""

    class Machine:
        monotonic = staticmethod(time.monotonic)

    purgatory = Purgatory(asyncio.get_running_loop(), Machine())
    expired = asyncio.Event()
    purgatory.wait(["k"], 5, lambda: False, expired.set)
    await asyncio.wait_for(expired.wait(), 10)


def test_a_drained_purgatory_lets_everybody_go():
    """A waiting request is answered at once, a later one in the next turn: a stopping broker waits for no client."""
    clock, ended = Clock(), []
    loop = Loop(clock)
    purgatory = Purgatory(loop, clock)
    purgatory.wait(["k"], 600_000, lambda: False, lambda: ended.append("waiting"))
    purgatory.drain()
    assert ended == ["waiting"]
    purgatory.wait(["k"], 600_000, lambda: False, lambda: ended.append("late"))
    assert ended == ["waiting"]
    loop.advance(0.01)
    assert ended == ["waiting", "late"]
    assert len(purgatory) == 0


def test_a_request_may_wait_under_very_many_keys(purgatory):
    """Each further key is compared with few others: with 2,000 partitions in the archive a fetch took 0.2 s for that alone."""
    compared = []

    class Key(int):
        """Counts how often it is compared with another one."""

        __hash__ = int.__hash__

        def __eq__(self, other):
            compared.append(other)
            return int(self) == int(other)

    waiter = purgatory.wait(map(Key, range(200)), 1000, lambda: False, lambda: None)
    compared.clear()
    for number in range(400):
        waiter.watch(Key(number))
    assert len(compared) < 2000
    waiter.cancel()
    assert not any(map(purgatory.watched, range(400)))
