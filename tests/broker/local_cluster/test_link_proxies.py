"""Proxies that cut links, with clients that say which node they are."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from stratalog.broker.local_cluster.link_proxies import LinkProxies


class Echo:
    """Node 2: a listener that answers each line with the same, and notes what came."""

    def __init__(self) -> None:
        self.lines = []
        self.connections = 0
        self.open = 0

    async def serve(self, reader, writer) -> None:
        self.connections += 1
        self.open += 1
        with suppress(OSError):
            while line := await reader.readline():
                self.lines.append(line)
                writer.write(line)
                await writer.drain()
        self.open -= 1
        writer.close()


@pytest.fixture
async def link():
    """An object with the echoing node, its proxies, and ``connect`` for a client that is node 1, or none."""
    echo, of_port, writers = Echo(), {}, []
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxies = LinkProxies(lambda port, _: of_port.get(port))
    port = await proxies.open(2, server.sockets[0].getsockname()[1])

    class Link:
        def __init__(self) -> None:
            self.echo, self.proxies, self.server, self.port = echo, proxies, server, port

        async def connect(self, node_id: int | None = 1):
            import socket

            sock = socket.socket()
            sock.bind(("127.0.0.1", 0))
            of_port[sock.getsockname()[1]] = node_id
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=sock)
            writers.append(writer)
            return reader, writer

    yield Link()
    for writer in writers:
        writer.close()
    await proxies.close()
    server.close()


async def silent(reader) -> bool:
    """Whether nothing comes, neither bytes nor an end."""
    try:
        await asyncio.wait_for(reader.read(1), 0.2)
    except TimeoutError:
        return True
    return False


async def ask(stream, text: bytes) -> bytes:
    reader, writer = stream
    writer.write(text + b"\n")
    return (await asyncio.wait_for(reader.readline(), 10)).rstrip()


async def test_bytes_pass_both_ways_while_the_link_is_whole(link):
    """More than a buffer holds, and the end."""
    stream = await link.connect()
    assert await ask(stream, b"x" * 60_000) == b"x" * 60_000
    stream[1].write_eof()
    assert await asyncio.wait_for(stream[0].read(), 10) == b""
    assert link.echo.open == 0


async def test_a_cut_link_holds_bytes_back_and_a_healed_one_delivers_them(link):
    """The connection stays, and no byte passes or is lost meanwhile."""
    stream = await link.connect()
    assert await ask(stream, b"before") == b"before"
    await link.proxies.cut(2, 1)
    stream[1].write(b"during\n")
    assert await silent(stream[0])
    assert link.echo.lines == [b"before\n"]
    await link.proxies.heal(1, 2)
    assert await asyncio.wait_for(stream[0].readline(), 10) == b"during\n"


async def test_a_new_connection_over_a_cut_link_arrives_when_it_heals(link):
    """One that was given up meanwhile never does."""
    await link.proxies.cut(1, 2)
    given_up, waits = await link.connect(), await link.connect()
    given_up[1].write(b"stale\n")
    waits[1].write(b"fresh\n")
    assert await silent(waits[0])
    given_up[1].close()
    await given_up[1].wait_closed()
    assert link.echo.connections == 0
    await link.proxies.heal()
    assert await asyncio.wait_for(waits[0].readline(), 10) == b"fresh\n"
    assert (link.echo.connections, link.echo.lines) == (1, [b"fresh\n"])


async def test_the_end_of_a_connection_is_not_told_over_a_cut_link(link):
    """The node goes on waiting, as behind a network that is down."""
    stream = await link.connect()
    await ask(stream, b"one")
    await link.proxies.cut(1, 2)
    stream[1].close()
    await asyncio.sleep(0.2)
    assert link.echo.open == 1
    await link.proxies.heal(1, 2)
    async with asyncio.timeout(10):
        while link.echo.open:  # noqa: ASYNC110 - another task brings it about
            await asyncio.sleep(0.01)


async def test_other_links_and_programs_that_are_no_nodes_are_not_cut(link):
    """Node 3 and a client of the cluster still reach node 2."""
    await link.proxies.cut(1, 2)
    assert await ask(await link.connect(3), b"three") == b"three"
    assert await ask(await link.connect(None), b"none") == b"none"


async def test_a_node_that_is_away_ends_the_connection(link):
    """The proxy listens for ever, but pretends nothing."""
    link.server.close()
    await link.server.wait_closed()
    reader, _ = await link.connect()
    with suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_a_node_that_has_ended_is_refused_at_its_port_until_it_begins_again(link):
    """As by a host whose process is gone; the proxy keeps the port."""
    _, before = await link.connect()
    await link.proxies.refuse(2)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", link.port)
    await link.proxies.let_in(2)
    await link.proxies.let_in(2)
    reader, writer = await link.connect()
    writer.write(b"again\n")
    assert await asyncio.wait_for(reader.readline(), 5) == b"again\n"
    assert not before.is_closing()
