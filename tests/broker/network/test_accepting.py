"""Accepting connections, also while the process has no descriptors left."""

import asyncio
import errno
import logging
import socket
import ssl

import pytest

from stratalog.broker.network import accepting
from stratalog.broker.network.accepting import AcceptingServer, listen


class Greeting(asyncio.Protocol):
    """Says one word and closes."""

    def connection_made(self, transport):
        transport.write(b"hello")
        transport.close()


@pytest.fixture
async def listening():
    """A function that takes a port and serves there; everything is closed afterwards."""
    made = []

    async def make(**options):
        server = await listen(asyncio.get_running_loop(), Greeting, "127.0.0.1", 0, backlog=100, **options)
        made.append(server)
        await server.start_serving()
        return server, server.sockets[0].getsockname()

    yield make
    for one in made:
        one.close()


async def greeted(address):
    """The bytes that a client gets."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


async def test_many_at_once_are_accepted(listening):
    """More than one turn of the loop takes."""
    server, address = await listening()
    assert isinstance(server, AcceptingServer)
    assert await asyncio.gather(*(greeted(address) for _ in range(50))) == [b"hello"] * 50


async def test_without_descriptors_accepting_pauses_and_says_so_once(listening, monkeypatch, caplog, until):
    """Clients wait in the kernel's queue, and are served when there are descriptors again."""
    monkeypatch.setattr(accepting, "PAUSE_SECONDS", 0.02)
    server, address = await listening()
    (real,) = server.sockets

    class NoneLeft:
        """A socket that cannot accept."""

        def accept(self):
            raise OSError(errno.EMFILE, "Too many open files")

        def __getattr__(self, name):
            return getattr(real, name)

    server._loop.remove_reader(real.fileno())
    server.sockets = [NoneLeft()]
    server._resume()
    waiting = asyncio.ensure_future(greeted(address))
    await until(lambda: server.pauses >= 4)
    assert not waiting.done()
    server.sockets = [real]
    assert await waiting == b"hello"
    (line,) = [record for record in caplog.records if record.name == "stratalog.broker.network.accepting"]
    assert "no connection can be accepted at port" in line.getMessage()
    assert "ulimit -n" in line.getMessage()
    assert line.exc_info is None


async def test_a_handshake_that_fails_leaves_nothing(listening, caplog, until):
    """Bytes that are no TLS end their connection, and the next one is accepted."""
    caplog.set_level(logging.INFO)
    server, address = await listening(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), handshake_seconds=5.0)
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"no TLS at all\r\n\r\n" * 10)
        assert b"hello" not in await asyncio.wait_for(reader.read(), 5)
        writer.close()
    await until(lambda: not server._arriving)
    assert [record for record in caplog.records if "stratalog" in record.name] == []


@pytest.mark.parametrize(
    ("code", "remedy"), [("EMFILE", "ulimit -n"), ("ENFILE", "fs.file-max"), ("ENOMEM", "short of memory")]
)
async def test_the_line_about_a_pause_names_the_remedy_for_its_cause(listening, caplog, code, remedy):
    """Raising a limit does nothing for a machine without memory."""
    server, _ = await listening()
    server._pause(server.sockets[0], OSError(getattr(errno, code), "no"))
    (line,) = [record for record in caplog.records if record.name == "stratalog.broker.network.accepting"]
    assert remedy in line.getMessage()


async def test_closing_frees_the_port(listening):
    """Also while accepting pauses; connections that are there stay."""
    server, address = await listening()
    server._pause(server.sockets[0], OSError(errno.EMFILE, "Too many open files"))
    server.close()
    with pytest.raises(ConnectionRefusedError):
        await greeted(address)
    with socket.create_server(address):
        pass
