"""TCP proxies in front of listeners of nodes, which cut and heal the link between any two nodes.

A link that is cut loses nothing and tells nothing, as a network that is down: connections stay open and their bytes wait,
new connections are not answered. When it heals, bytes go on; an attempt to connect that was given up meanwhile never
reaches its node. Everything here belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from stratalog.broker.local_cluster.node_files import HOST

__all__ = ["LinkProxies"]

_CHUNK_BYTES: Final = 1 << 16
_ESTABLISHED: Final = 1
"""The first byte of TCP_INFO: the state of a connection that is open."""


class LinkProxies:
    """The proxies of one cluster.

    ``node_of`` gives the node at the client's end of a connection, from the client's port and the proxy's; None for a
    program that is no node, which is never cut off.
    """

    def __init__(self, node_of: Callable[[int, int], int | None]) -> None:
        self._node_of = node_of
        self._whole: dict[frozenset[int], asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, node_id: int, port: int) -> int:
        """Stand in front of the listener ``port`` of a node; the port of the proxy."""

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._carry(node_id, port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())

        server = await asyncio.start_server(accepted, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def cut(self, one: int, other: int) -> None:
        """From now on nothing passes between the two nodes, in either direction."""
        self._link(one, other).clear()

    async def heal(self, one: int | None = None, other: int | None = None) -> None:
        """Let the link between two nodes, or without arguments all links, carry again."""
        links = list(self._whole.values()) if one is None or other is None else [self._link(one, other)]
        for whole in links:
            whole.set()

    async def close(self) -> None:
        """End all connections, and listen no more."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()

    def _link(self, one: int, other: int) -> asyncio.Event:
        pair = frozenset({one, other})
        if pair not in self._whole:
            self._whole[pair] = asyncio.Event()
            self._whole[pair].set()
        return self._whole[pair]

    async def _carry(self, node_id: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until both sides have ended it."""
        client_port, own_port = (writer.get_extra_info(name)[1] for name in ("peername", "sockname"))
        client = self._node_of(client_port, own_port)
        whole = asyncio.Event() if client is None else self._link(client, node_id)
        if client is None:
            whole.set()
        await whole.wait()
        if not _is_established(writer):
            return
        try:
            to_reader, to_writer = await asyncio.open_connection(HOST, port)
        except OSError:
            return  # the node is away: the client sees its connection end
        try:
            there = asyncio.ensure_future(_pump(reader, to_writer, whole))
            back = asyncio.ensure_future(_pump(to_reader, writer, whole))
            try:
                await asyncio.gather(there, back)
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        except OSError:
            await whole.wait()  # one side broke off: the other one notices when it can
        finally:
            to_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, whole: asyncio.Event) -> None:
    """Carry bytes one way up to their end, while the link is whole."""
    while data := await reader.read(_CHUNK_BYTES):
        await whole.wait()
        writer.write(data)
        await writer.drain()
    await whole.wait()
    with suppress(OSError):  # the other side has gone, too
        writer.write_eof()


def _is_established(writer: asyncio.StreamWriter) -> bool:
    """Whether the client still has the connection open."""
    info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    return bool(info[0] == _ESTABLISHED)
