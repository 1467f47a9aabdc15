import asyncio
import gc
import selectors
import socket
import time
from functools import partial
from pathlib import Path

import pytest

from stratalog.broker.runtime import event_loop
from stratalog.broker.runtime.event_loop import BrokerLoop, ReadySockets, ready_sockets_of, run
from stratalog.broker.runtime.tick import Tick


@pytest.fixture
def pair():
    """Two connected sockets that do not block."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.setblocking(False)
        theirs.setblocking(False)
        yield mine, theirs


def descriptors():
    """How many files and sockets this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def unexpected():
    """A reader of asyncio's that must not be called."""
    raise AssertionError


async def turns(count=3):
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_owner_is_called_in_the_stead_of_the_reader(pair):
    """A known socket with a reader is its owner's matter as long as that one says so."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    told = []
    loop.add_reader(mine.fileno(), unexpected)
    ready_sockets_of(loop).tell(mine.fileno(), lambda: told.append(mine.recv(10)) or True)
    theirs.send(b"one")
    await turns()
    assert told == [b"one"]
    loop.remove_reader(mine.fileno())


async def test_bytes_the_owner_does_not_take_go_to_the_reader(pair):
    """False leaves the event to asyncio, in the same turn; so does forgetting the socket."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    calls = []
    loop.add_reader(mine.fileno(), lambda: calls.append(mine.recv(10)))
    sockets = ready_sockets_of(loop)
    sockets.tell(mine.fileno(), lambda: bool(calls.append("left")))
    theirs.send(b"one")
    await turns()
    assert calls == ["left", b"one"]
    sockets.forget(mine.fileno())
    theirs.send(b"two")
    await turns()
    assert calls == ["left", b"one", b"two"]
    loop.remove_reader(mine.fileno())


async def test_without_a_reader_no_owner_is_called(pair):
    """A connection that is paused, and so has no reader, is not told of its bytes."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    told = []
    ready_sockets_of(loop).tell(mine.fileno(), lambda: told.append(mine.recv(10)) or True)
    theirs.send(b"one")
    await turns()
    assert told == []
    loop.add_reader(mine.fileno(), unexpected)
    await turns()
    assert told == [b"one"]
    loop.remove_reader(mine.fileno())


async def test_a_socket_ended_by_an_earlier_owner_is_not_called(pair):
    """If two are ready together and end each other, only the first one hears of it."""
    loop = asyncio.get_running_loop()
    heard = []
    for one, other in (pair, pair[::-1]):
        end = partial(event_loop.remove_reader, loop, other.fileno())
        event_loop.add_reader(loop, one.fileno(), lambda one=one, end=end: (heard.append(one), end()))
        one.send(b"x")
    await turns()
    assert len(set(heard)) == 1
    event_loop.remove_reader(loop, heard[0].fileno())


async def test_a_socket_may_be_written_through_asyncio(pair):
    """Writers are asyncio's, beside an owner of the same socket, too."""
    mine, _ = pair
    loop = asyncio.get_running_loop()
    writable = asyncio.Event()
    ready_sockets_of(loop).tell(mine.fileno(), lambda: False)
    loop.add_writer(mine.fileno(), writable.set)
    await asyncio.wait_for(writable.wait(), 5)
    loop.remove_writer(mine.fileno())


async def test_work_deferred_by_an_owner_runs_behind_the_owners_and_before_the_readers(pair):
    """The tick of a turn is run in it: no turn more before an answer leaves."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    tick = Tick(loop)
    order = []

    def ready(one):
        one.recv(10)
        loop.call_soon(order.append, "next")
        tick.defer(lambda: order.append("deferred"))
        order.append("told")
        return True

    for one in pair:
        loop.add_reader(one.fileno(), unexpected)
        ready_sockets_of(loop).tell(one.fileno(), lambda one=one: ready(one))
    mine.send(b"x")
    theirs.send(b"x")
    await turns(2)
    assert order == ["told", "told", "deferred", "deferred", "next", "next"]
    tick.defer(lambda: order.append("by the loop"))
    assert order[-1] == "next"
    await turns(1)
    assert order[-1] == "by the loop"
    for one in pair:
        loop.remove_reader(one.fileno())


async def test_a_failing_callback_is_reported_to_the_loop(pair):
    """`add_reader` guards what it is given as asyncio does, and its undoing ends both."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    failures = []
    loop.set_exception_handler(lambda _, context: failures.append((mine.recv(10), context["exception"])))
    event_loop.add_reader(loop, mine.fileno(), lambda: 1 / 0)
    theirs.send(b"x")
    await turns()
    ((data, error),) = failures
    assert data == b"x"
    assert isinstance(error, ZeroDivisionError)
    event_loop.remove_reader(loop, mine.fileno())
    theirs.send(b"y")
    await turns()
    assert len(failures) == 1


class Resting:
    """Sockets of the loop that ask for rest each time they are called, and a record of those calls."""

    def __init__(self, sockets, *ones):
        self.sockets, self.ones, self.told, self.asks = sockets, ones, [], True
        loop = asyncio.get_running_loop()
        for number, one in enumerate(ones):
            loop.add_reader(one.fileno(), unexpected)
            sockets.tell(one.fileno(), partial(self.ready, number))

    def ready(self, number):
        self.told.append((number, self.ones[number].recv(10)))
        if self.asks:
            self.sockets.rest(self.ones[number].fileno())
        return True

    async def told_of(self, count):
        """All calls so far, when there are so many."""
        async with asyncio.timeout(5):
            while len(self.told) < count:  # noqa: ASYNC110 - the selector has nothing to wait for
                await asyncio.sleep(0.001)
        return self.told

    def end(self):
        for one in self.ones:
            event_loop.remove_reader(asyncio.get_running_loop(), one.fileno())


async def test_a_resting_socket_is_called_until_it_asks_no_more(pair):
    """At rest or not, every byte is reported once; a socket that does not ask again wakes the loop itself."""
    mine, theirs = pair
    sockets = ready_sockets_of(asyncio.get_running_loop())
    rig = Resting(sockets, mine)
    for count in range(1, 8):
        theirs.send(b"%d" % count)
        await rig.told_of(count)
        assert mine.fileno() in sockets._resting
    rig.asks = False
    theirs.send(b"8")
    assert await rig.told_of(8) == [(0, b"%d" % count) for count in range(1, 9)]
    assert mine.fileno() not in sockets._resting
    theirs.send(b"9")
    await turns()
    assert rig.told[-1] == (0, b"9")
    rig.end()


async def test_two_resting_sockets_are_called_together(pair):
    """A socket that comes while others were just called waits for the
    next look, and is called before what waits for it.
    """
    sockets = ready_sockets_of(asyncio.get_running_loop())
    rig = Resting(sockets, *pair)
    for number in range(6):
        pair[number % 2].send(b"x")
        await rig.told_of(number + 1)
    for one in pair:
        one.send(b"together")
    assert sorted((await rig.told_of(8))[6:]) == [(0, b"together"), (1, b"together")]
    rig.end()
    assert not sockets._resting


async def test_a_resting_socket_can_be_looked_at_at_the_end_of_a_turn(pair):
    """The bytes read there leave something to do in the same turn, and the rest goes on."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    sockets, tick = ready_sockets_of(loop), Tick(loop)
    rig = Resting(sockets, mine)
    theirs.send(b"1")
    await rig.told_of(1)
    sockets._resting._let_wake(wakes=False)  # as while it is busy
    sockets._resting.due = loop.time() + 3600
    order = []

    def ready():
        order.append(("told", mine.recv(10)))
        sockets.rest(mine.fileno())
        tick.defer(lambda: order.append("answered"))
        return True

    sockets.tell(mine.fileno(), ready)
    another, trigger = socket.socketpair()
    with another, trigger:

        def append():
            another.recv(10)
            tick.defer(lambda: order.append("written"))
            tick.defer(partial(sockets.look, mine.fileno()))
            return True

        loop.add_reader(another.fileno(), unexpected)
        sockets.tell(another.fileno(), append)
        theirs.send(b"3")
        trigger.send(b"x")
        await turns()
        assert order == ["written", ("told", b"3"), "answered"]
        assert mine.fileno() in sockets._resting
        event_loop.remove_reader(loop, another.fileno())
    rig.end()


async def test_a_silent_socket_rests_no_longer_after_a_look(pair):
    """So it is called as soon as it sends; a socket that is awake or gone is not looked at."""
    mine, theirs = pair
    sockets = ready_sockets_of(asyncio.get_running_loop())
    rig = Resting(sockets, mine)
    theirs.send(b"1")
    await rig.told_of(1)
    looks = []
    sockets.tell(mine.fileno(), lambda: bool(looks.append(1)) or True)
    for _ in range(2):
        sockets.look(mine.fileno())
        assert looks == [1]
        assert mine.fileno() not in sockets._resting
    sockets.tell(mine.fileno(), partial(rig.ready, 0))
    theirs.send(b"2")
    await turns()
    assert rig.told[-1] == (0, b"2")
    rig.end()
    sockets.look(mine.fileno())
    assert len(rig.told) == 2


@pytest.mark.parametrize("change", ["pause", "write", "leave"])
async def test_rest_ends_when_asyncio_changes_the_registration(pair, change):
    """A paused socket is not called; one that is written to, or leaves the event to asyncio, is heard by asyncio."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    sockets = ready_sockets_of(loop)
    rig = Resting(sockets, mine)
    theirs.send(b"1")
    await rig.told_of(1)
    assert mine.fileno() in sockets._resting
    read, written = [], asyncio.Event()
    if change == "pause":
        loop.remove_reader(mine.fileno())
        theirs.send(b"2")
        await turns()
        assert len(rig.told) == 1
        loop.add_reader(mine.fileno(), unexpected)
    elif change == "write":
        loop.add_writer(mine.fileno(), written.set)
        sockets.tell(mine.fileno(), lambda: False)
        await asyncio.wait_for(written.wait(), 5)
        loop.remove_writer(mine.fileno())
    else:
        sockets.tell(mine.fileno(), lambda: False)
        loop.add_reader(mine.fileno(), lambda: read.append(mine.recv(10)))
        theirs.send(b"2")
        async with asyncio.timeout(5):
            while not read:  # noqa: ASYNC110 - the selector has nothing to wait for
                await asyncio.sleep(0.001)
    if change == "pause":
        assert (await rig.told_of(2))[1] == (0, b"2")
    else:
        assert mine.fileno() not in sockets._resting
    rig.end()


async def test_timers_are_not_early():
    """Waits in milliseconds are rounded up."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(0.0123)
    assert loop.time() - began >= 0.0123


@pytest.mark.story
async def test_connections_are_called_and_end(serve, wire, monkeypatch):
    """A broker's connection is read without its transport, is answered, and gives its socket back at the end."""
    gc.collect()
    before = descriptors()
    edge = await serve(wire.echo_api())
    client = await edge.client()
    assert (await client.ask(wire.EchoRequest(text="x"), wire.EchoResponse)).text == "x"
    (connection,) = edge.server.connections
    sockets = ready_sockets_of(asyncio.get_running_loop())
    assert len(sockets._known) == 2  # with those that rest
    monkeypatch.setattr(type(connection), "get_buffer", unexpected)
    assert (await client.ask(wire.EchoRequest(text="y"), wire.EchoResponse)).text == "y"
    client.writer.close()
    await client.writer.wait_closed()
    while edge.server.connections:  # noqa: ASYNC110 - the server has nothing to wait for
        await asyncio.sleep(0.001)
    assert len(sockets._known) == 1
    await edge.server.close()
    assert descriptors() <= before


async def test_a_connection_that_fails_is_closed(serve, wire, monkeypatch):
    """A mistake in the handling of what was received costs the connection, not the loop."""
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    edge = await serve(wire.echo_api())
    client = await edge.client()
    await client.ask(wire.EchoRequest(text="x"), wire.EchoResponse)
    (connection,) = edge.server.connections
    monkeypatch.setattr(type(connection), "_handle_frames", lambda *_: 1 / 0)
    await client.send(client.frame(wire.EchoRequest(text="y")))
    assert await client.reader.read() == b""
    assert isinstance(told[0], ZeroDivisionError)


def test_run_returns_what_the_coroutine_does():
    """The front door: a loop of this kind, closed afterwards."""

    async def main():
        return asyncio.get_running_loop()

    loop = run(main())
    assert isinstance(loop, BrokerLoop)
    assert loop.is_closed()


async def test_other_loops_do_without():
    """On a loop that is not ours no socket is called, and asyncio calls."""
    loop = asyncio.SelectorEventLoop()
    try:
        assert ready_sockets_of(loop) is None
    finally:
        loop.close()


async def test_the_time_without_a_ready_socket_is_counted():
    """Turns that did not wait add nothing; a wait of 5 ms adds its time."""
    sockets = ready_sockets_of(asyncio.get_running_loop())
    idle_seconds = sockets.idle_seconds
    await turns(10)
    assert sockets.idle_seconds == idle_seconds
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(0.005)
    assert 0 < sockets.idle_seconds - idle_seconds <= asyncio.get_running_loop().time() - began


def test_many_ready_sockets_are_called_in_rounds():
    """A round ends when its time is over; the sockets left come in the next ones, none twice before all had a turn."""
    sockets = ReadySockets()
    pairs = [socket.socketpair() for _ in range(60)]
    told = []

    def ready(number):
        told.append(number)
        time.sleep(0.002)
        return True

    for number, (mine, theirs) in enumerate(pairs):
        sockets.register(mine, selectors.EVENT_READ)
        sockets.tell(mine.fileno(), lambda number=number: ready(number))
        theirs.send(b"x")
    sockets.select(1.0)
    assert len(told) <= 15
    for _ in range(60):
        if len(told) < 60:
            sockets.select(1.0)
    assert len(set(told[:60])) == 60
    sockets.close()
    for mine, theirs in pairs:
        mine.close()
        theirs.close()
