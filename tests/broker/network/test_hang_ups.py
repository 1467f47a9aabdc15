"""Sockets that are not read, and whose other ends go."""

import asyncio
import socket

import pytest

from stratalog.broker.network.hang_ups import HangUps, unread_in_kernel


@pytest.fixture
async def hang_ups():
    """On the running loop."""
    made = HangUps(asyncio.get_running_loop())
    yield made
    made.close()


@pytest.fixture
def pair():
    """A TCP connection: the broker's end and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        mine, _ = listening.accept()
    with mine, theirs:
        yield mine, theirs


@pytest.mark.parametrize("how", ["close", "shutdown"])
async def test_the_end_is_noticed_once_without_reading(hang_ups, pair, until, how):
    """Bytes that came before it stay where they are."""
    mine, theirs = pair
    gone = []
    hang_ups.watch(mine.fileno(), lambda: gone.append(1))
    theirs.send(b"abc")
    await asyncio.sleep(0.02)
    assert gone == []
    theirs.close() if how == "close" else theirs.shutdown(socket.SHUT_WR)
    await until(lambda: gone)
    await asyncio.sleep(0.02)
    assert gone == [1]
    assert len(hang_ups) == 0
    assert unread_in_kernel(mine.fileno()) == 3
    assert mine.recv(10) == b"abc"


async def test_a_forgotten_socket_is_not_called(hang_ups, pair):
    """The socket is read again; forgetting it twice changes nothing."""
    mine, theirs = pair
    hang_ups.watch(mine.fileno(), pytest.fail)
    hang_ups.watch(mine.fileno(), pytest.fail)
    hang_ups.forget(mine.fileno())
    hang_ups.forget(mine.fileno())
    theirs.close()
    await asyncio.sleep(0.02)


async def test_the_socket_may_be_read_by_the_loop_at_the_same_time(hang_ups, pair, until):
    """asyncio registers it with an epoll instance of its own."""
    mine, theirs = pair
    loop = asyncio.get_running_loop()
    seen = []
    hang_ups.watch(mine.fileno(), lambda: seen.append("gone"))
    loop.add_reader(mine.fileno(), lambda: seen.append(mine.recv(10)))
    theirs.send(b"abc")
    await until(lambda: seen == [b"abc"])
    loop.remove_reader(mine.fileno())
    theirs.close()
    await until(lambda: seen == [b"abc", "gone"])


async def test_the_end_of_one_may_forget_another(hang_ups):
    """The callback of one socket may close others that ended in the same moment."""
    pairs = [socket.socketpair() for _ in range(3)]
    called = []

    def gone(number):
        called.append(number)
        for mine, _ in pairs:
            hang_ups.forget(mine.fileno())

    for number, (mine, _) in enumerate(pairs):
        hang_ups.watch(mine.fileno(), lambda number=number: gone(number))
    for _, theirs in pairs:
        theirs.close()
    await asyncio.sleep(0.02)
    assert len(called) == 1
    for mine, _ in pairs:
        mine.close()
