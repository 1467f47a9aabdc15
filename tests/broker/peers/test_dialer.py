"""Connections by name, made without holding the loop."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.broker.peers.dialer import TcpDialer


@pytest.fixture
def executor():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(port, host="127.0.0.1"):
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def test_a_name_is_looked_up_in_a_thread(executor, listening):
    """The connection goes to where the name leads, without Nagle's delay."""
    threads, port = [], listening.getsockname()[1]

    def look_up(host, asked_port, **_options):
        threads.append((threading.current_thread(), host, asked_port))
        return [address(port)]

    transport = await TcpDialer(executor, look_up).dial(asyncio.Protocol, "a-node", 9092, 0)
    assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    transport.close()
    ((thread, *asked),) = threads
    assert asked == ["a-node", 9092]
    assert thread is not threading.main_thread()


async def test_a_resolver_that_hangs_holds_one_thread_and_no_loop(executor, listening):
    """Attempts that were given up share their look-up with the next ones."""
    go_on, count, port = threading.Event(), [], listening.getsockname()[1]

    def look_up(*_args, **_options):
        count.append(1)
        go_on.wait(30)
        return [address(port)]

    dialer = TcpDialer(executor, look_up)
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(dialer.dial(asyncio.Protocol, "n", 1, 0), 0.005)
    waiting = asyncio.create_task(dialer.dial(asyncio.Protocol, "n", 1, 0))
    await asyncio.sleep(0)
    go_on.set()
    (await waiting).close()
    assert len(count) == 1


async def test_addresses_are_tried_in_turn(executor, listening):
    """One that refuses is passed over, whichever comes first."""
    port = listening.getsockname()[1]
    dialer = TcpDialer(executor, lambda *_args, **_options: [address(closed_port()), address(port)])
    for number in (0, 1, 2, 7):
        transport = await dialer.dial(asyncio.Protocol, "n", 1, number)
        assert transport.get_extra_info("peername")[1] == port
        transport.close()


async def test_a_host_has_refused_only_if_each_of_its_addresses_has(executor):
    """One that fails in another way may be where the node is."""
    broken = (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", "/nowhere/at/all")
    for addresses in ([address(closed_port()), broken], [broken, address(closed_port())]):
        dialer = TcpDialer(executor, lambda *_args, found=addresses, **_options: found)
        with pytest.raises(FileNotFoundError):
            await dialer.dial(asyncio.Protocol, "n", 1, 0)
    both = TcpDialer(executor, lambda *_args, **_options: [address(closed_port()), address(closed_port())])
    with pytest.raises(ConnectionRefusedError):
        await both.dial(asyncio.Protocol, "n", 1, 0)


async def test_an_attempt_that_fails_says_why(executor):
    """A name without an address, a name that is none, a port where no node listens."""
    nowhere = TcpDialer(executor, lambda *_args, **_options: [])
    with pytest.raises(OSError, match="n has no address"):
        await nowhere.dial(asyncio.Protocol, "n", 1, 0)
    with pytest.raises(OSError, match="is no name of a host"):
        await TcpDialer(executor).dial(asyncio.Protocol, "x" * 100 + ".invalid", 9092, 0)
    with pytest.raises(ConnectionRefusedError):
        await TcpDialer(executor).dial(asyncio.Protocol, "127.0.0.1", closed_port(), 0)


async def test_a_look_up_that_fails_is_made_again(executor, listening):
    """The failure is no memory of the name."""
    results = [OSError("away"), [address(listening.getsockname()[1])]]

    def look_up(*_args, **_options):
        result = results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result

    dialer = TcpDialer(executor, look_up)
    with pytest.raises(OSError, match="away"):
        await dialer.dial(asyncio.Protocol, "n", 1, 0)
    (await dialer.dial(asyncio.Protocol, "n", 1, 0)).close()
