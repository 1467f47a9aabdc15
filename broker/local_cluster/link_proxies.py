"""TCP proxies in front of listeners of nodes, which cut and heal the link between any two nodes.

A link that is cut, both ways or one, loses nothing and tells nothing, as a network that is down: connections stay open and their bytes wait,
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
        self._whole: dict[tuple[int, int], asyncio.Event] = {}
        """By the node that sends and the one that receives: set while bytes pass."""
        self._doors: dict[int, list[_Door]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, node_id: int, port: int) -> int:
        """Stand in front of the listener ``port`` of a node; the port of the proxy."""

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._carry(node_id, port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())

        door = _Door(accepted)
        await door.open()
        self._doors.setdefault(node_id, []).append(door)
        return door.port

    async def let_in(self, node_id: int) -> None:
        """Accept connections to a node, whose process begins."""
        for door in self._doors.get(node_id, ()):
            await door.open()

    async def refuse(self, node_id: int) -> None:
        """Refuse connections to a node, whose process has ended, as its host would."""
        for door in self._doors.get(node_id, ()):
            door.shut()

    async def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """From now on nothing passes between the two nodes; with ``one_way`` nothing from the first to the second."""
        self._way(one, other).clear()
        if not one_way:
            self._way(other, one).clear()

    async def heal(self, one: int | None = None, other: int | None = None) -> None:
        """Let the link between two nodes, or without arguments all links, carry again, in both directions."""
        ways = list(self._whole.values())
        if one is not None and other is not None:
            ways = [self._way(one, other), self._way(other, one)]
        for whole in ways:
            whole.set()

    async def close(self) -> None:
        """End all connections, and listen no more."""
        doors = [door for each in self._doors.values() for door in each]
        for door in doors:
            door.shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for door in doors:
            door.give_up()

    def _way(self, sender: int, receiver: int) -> asyncio.Event:
        way = sender, receiver
        if way not in self._whole:
            self._whole[way] = asyncio.Event()
            self._whole[way].set()
        return self._whole[way]

    async def _carry(self, node_id: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until both sides have ended it."""
        client_port, own_port = (writer.get_extra_info(name)[1] for name in ("peername", "sockname"))
        client = self._node_of(client_port, own_port)
        if client is None:
            to_node = to_client = asyncio.Event()
            to_node.set()
        else:
            to_node, to_client = self._way(client, node_id), self._way(node_id, client)
        await to_node.wait()
        await to_client.wait()
        if not _is_established(writer):
            return
        try:
            to_reader, to_writer = await asyncio.open_connection(HOST, port)
        except OSError:
            return  # the node is away: the client sees its connection end
        try:
            there = asyncio.ensure_future(_pump(reader, to_writer, to_node))
            back = asyncio.ensure_future(_pump(to_reader, writer, to_client))
            try:
                await asyncio.gather(there, back)
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        except OSError:
            await to_node.wait()  # one side broke off: the other one notices when it can
            await to_client.wait()
        finally:
            to_writer.transport.abort()


class _Door:
    """The listening socket of one proxy. The port stays its own while it refuses."""

    def __init__(self, accepted: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]) -> None:
        self._accepted = accepted
        self._holder = _bound(0)  # bound and not listening: the kernel refuses
        self._server: asyncio.Server | None = None
        self.port = int(self._holder.getsockname()[1])

    async def open(self) -> None:
        """Listen."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, sock=_bound(self.port))

    def shut(self) -> None:
        """Refuse; connections that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def give_up(self) -> None:
        """Leave the port to others."""
        self.shut()
        self._holder.close()


def _bound(port: int) -> socket.socket:
    """A socket at a port that several sockets may share; 0: a free one."""
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((HOST, port))
    except BaseException:
        bound.close()
        raise
    return bound


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
