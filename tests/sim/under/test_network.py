"""Connections in memory: bytes in order and in pieces, ends that break, and processes that die."""

import asyncio

import pytest

from sim.under.process import Process
from stratalog.broker.peers.dialer import TcpDialer


class Talker(asyncio.Protocol):
    """Notes what it hears; answers with ``answer``."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.heard = bytearray()
        self.pieces = 0
        self.lost: object = "open"
        self.paused = False
        self.transport = None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data) -> None:
        self.heard += data
        self.pieces += 1
        if self.answer:
            self.transport.write(self.answer)

    def connection_lost(self, exc) -> None:
        self.lost = exc

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


async def serve(loop, answer: bytes = b"", *, process: Process | None = None) -> list[Talker]:
    """Listen on port 9092; the server's ends, as they come."""
    ends: list[Talker] = []

    def accept():
        ends.append(Talker(answer))
        return ends[-1]

    async def listen():
        await loop.create_server(accept, "127.0.0.1", 9092)

    await (process or Process("server")).spawn(loop, listen())
    return ends


async def connect(loop, answer: bytes = b"") -> Talker:
    """A client's end."""
    talker = Talker(answer)
    await loop.network.connect(9092, talker, "10.0.0.1")
    return talker


def test_bytes_come_in_order_in_pieces_of_any_size(loop, run):
    """Both ways; nothing is lost, nothing overtakes."""

    async def main():
        (ends, client) = await serve(loop), await connect(loop)
        sent = b""
        for number in range(200):
            client.transport.write(b"%d," % number)
            sent += b"%d," % number
        await asyncio.sleep(5)
        assert bytes(ends[0].heard) == sent
        assert ends[0].pieces > 200
        ends[0].transport.write(b"well")
        await asyncio.sleep(1)
        assert client.heard == b"well"

    run(main)


def test_a_connection_without_a_listener_is_refused(loop, run):
    """No port, or one that does not accept yet."""

    async def main():
        with pytest.raises(ConnectionRefusedError):
            await connect(loop)
        server = await loop.create_server(Talker, "127.0.0.1", 9092, start_serving=False)
        with pytest.raises(ConnectionRefusedError):
            await connect(loop)
        await server.start_serving()
        assert (await connect(loop)).transport is not None
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(Talker, "127.0.0.1", 9092)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(loop)

    run(main)


def test_the_end_of_a_connection(loop, run):
    """Closed: what was written arrives first. Aborted: a reset."""

    async def main():
        ends = await serve(loop)
        first, second = await connect(loop), await connect(loop)
        first.transport.write(b"last words")
        first.transport.close()
        second.transport.abort()
        await asyncio.sleep(2)
        assert (ends[0].heard, ends[0].lost, first.lost) == (b"last words", None, None)
        assert isinstance(ends[1].lost, ConnectionResetError)
        assert not loop.network.open

    run(main)


def test_a_dead_process_takes_its_connections_with_it(loop, run):
    """Its clients hear of a reset; its port is free."""

    async def main():
        process = Process("server")
        ends = await serve(loop, process=process)
        client = await connect(loop)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(1)
        assert isinstance(client.lost, ConnectionResetError)
        assert ends[0].lost == "open"
        assert not loop.network.open
        await serve(loop)

    run(main)


def test_an_answer_is_lost_with_its_connection(loop, run):
    """The second one from now on; both ends hear of it."""

    async def main():
        ends = await serve(loop, b"answer.")
        client = await connect(loop)
        loop.network.break_in, loop.network.cut = 2, 0
        client.transport.write(b"one")
        await asyncio.sleep(1)
        client.transport.write(b"two")
        await asyncio.sleep(1)
        assert (ends[0].heard, client.heard) == (b"onetwo", b"answer.")
        assert isinstance(client.lost, ConnectionResetError)
        assert isinstance(ends[0].lost, ConnectionResetError)

    run(main)


def test_a_reader_that_does_not_read_holds_the_writer_up(loop, run):
    """Sent bytes wait until it reads."""

    async def main():
        ends = await serve(loop)
        client = await connect(loop)
        await asyncio.sleep(1)
        client.transport.pause_reading()
        ends[0].transport.write(b"x" * 100_000)
        await asyncio.sleep(1)
        assert ends[0].paused
        assert client.heard == b""
        client.transport.resume_reading()
        await asyncio.sleep(1)
        assert not ends[0].paused
        assert len(client.heard) == 100_000

    run(main)


def test_a_cut_loses_for_good_what_it_swallows(loop, run):
    """The other direction goes on. When the cut is over, the connection that has lost something is reset."""
    server = Process("server")

    async def main():
        ends = await serve(loop, process=server)
        client = await connect(loop)
        await asyncio.sleep(1)
        loop.network.is_cut = lambda source, target: target is server
        client.transport.write(b"lost")
        ends[0].transport.write(b"heard")
        await asyncio.sleep(1)
        assert (bytes(ends[0].heard), bytes(client.heard), client.transport.has_lost) == (b"", b"heard", True)
        loop.network.is_cut = lambda _source, _target: False
        client.transport.write(b"behind")
        await asyncio.sleep(1)
        assert bytes(ends[0].heard) == b""
        loop.network.heal()
        await asyncio.sleep(1)
        assert isinstance(client.lost, ConnectionResetError)
        assert isinstance(ends[0].lost, ConnectionResetError)

    run(main)


def test_no_client_connects_through_a_cut(loop, run):
    """Not even where only the answers do not come; a server's death is not heard of either."""
    server = Process("server")

    async def main():
        await serve(loop, process=server)
        client = await connect(loop)
        loop.network.is_cut = lambda source, _target: source is server
        with pytest.raises(TimeoutError):
            await connect(loop)
        server.kill()
        await asyncio.sleep(1)
        assert client.lost == "open"

    run(main)


def test_nodes_dial_each_other_as_over_real_sockets(loop, run):
    """By the shipped dialer."""

    async def main():
        ends = await serve(loop, b"yes")
        talker = Talker()
        transport = await TcpDialer(loop.spawner.threads(1, "names")).dial(lambda: talker, "127.0.0.1", 9092, 0)
        transport.write(b"there?")
        await asyncio.sleep(1)
        assert (bytes(ends[0].heard), bytes(talker.heard[:3])) == (b"there?", b"yes")
        with pytest.raises(ConnectionRefusedError):
            await TcpDialer(loop.spawner.threads(1, "names")).dial(Talker, "127.0.0.1", 9093, 0)

    run(main)


def test_bytes_that_the_network_does_not_take_wait_at_its_end(loop, run):
    """As a socket's buffer does."""
    server = Process("server")

    async def main():
        await serve(loop, process=server)
        client = await connect(loop)
        loop.network.is_cut = lambda _source, target: target is server
        client.transport.write(bytes(1000))
        assert client.transport.get_write_buffer_size() == 0
        client.transport.write(bytes(64 << 10))
        assert client.transport.get_write_buffer_size() == 1000

    run(main)
