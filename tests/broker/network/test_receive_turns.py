"""The time of a round of the loop, shared by all who have requests."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.network.receive_turns import ROUND_SECONDS, ReceiveTurns


class Loop:
    """A loop whose time passes when a turn says so."""

    def __init__(self):
        self.now = 0.0
        self.soon = []

    def time(self):
        return self.now

    def call_soon(self, callback):
        self.soon.append(callback)

    def round(self):
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


def test_ready_sockets_share_a_round():
    """Ten that are ready together have a tenth each; one alone has all of it."""
    counts = SimpleNamespace(ready_count=10)
    turns = ReceiveTurns(Loop(), counts)
    assert turns.end(5.0) == pytest.approx(5.0 + ROUND_SECONDS / 10)
    counts.ready_count = 0
    assert turns.end(5.0) == 5.0 + ROUND_SECONDS
    assert ReceiveTurns(Loop()).end(5.0) == 5.0 + ROUND_SECONDS


def test_requests_left_over_share_a_round_of_their_own():
    """A round of 30 waiting ones takes the time of a round and no more, and none is passed over."""
    loop = Loop()
    turns = ReceiveTurns(loop, SimpleNamespace(ready_count=1))
    had = []

    def turn(number):
        had.append(number)
        loop.now = max(turns.end(loop.now), loop.now + 0.001)  # one request takes a millisecond
        if len(had) < 90:
            turns.wait(lambda: turn(number))

    for number in range(30):
        turns.wait(lambda number=number: turn(number))
    rounds = []
    while loop.soon:
        began = loop.now
        loop.round()
        rounds.append(loop.now - began)
    assert max(rounds) <= ROUND_SECONDS + 0.001
    assert had[:60] == [*range(30), *range(30)]
    assert len(turns) == 0


def test_a_turn_that_fails_does_not_end_those_of_others():
    """The error goes to the loop; waiting requests have a turn later."""
    loop, had = Loop(), []
    turns = ReceiveTurns(loop)
    turns.wait(lambda: 1 / 0)
    turns.wait(lambda: had.append(1))
    with pytest.raises(ZeroDivisionError):
        loop.round()
    loop.round()
    assert had == [1]


@pytest.mark.story
async def test_many_that_pipeline_and_read_nothing_share_each_round(serve, wire, until):
    """Fifty connections send requests of half a millisecond each, without end: a round of the loop handles few of them."""
    loop = asyncio.get_running_loop()
    handled = [0]

    def next_round():
        handled.append(0)
        loop.call_soon(next_round)

    def slow(context, request):
        began = time.perf_counter()
        handled[-1] += 1
        while time.perf_counter() - began < 0.0005:
            pass
        return wire.EchoResponse(error_code=0)

    edge = await serve(wire.echo_api(slow))
    clients = [await edge.client() for _ in range(50)]
    next_round()
    for client in clients:
        client.writer.write(b"".join(client.frame(wire.EchoRequest(text="")) for _ in range(60)))
    await until(lambda: sum(handled) >= 2000)
    assert max(handled) <= 150
