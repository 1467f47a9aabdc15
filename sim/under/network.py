"""A network in memory: listening ports, connections with drawn latencies, bytes cut into pieces anywhere, resets."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Self

from sim.under.process import Process, current_process

__all__ = ["Network", "SimServer", "SimTransport"]

_QUANTUM: Final = 0.0001
_SYN_SECONDS: Final = 3.0
_BUFFER_BYTES_MAX: Final = 64 << 10
"""Bytes that one end may have on the way before its protocol is asked to pause."""


class Network:
    """Every port and connection of the simulation.

    ``slow``: now and then a piece takes up to this many seconds. ``cut``: how likely a piece is cut in two.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random) -> None:
        self._loop = loop
        self.dice = dice
        self.slow = 0.2
        self.cut = 0.2
        self.break_in = 0
        """So many answers from now on, a connection is reset in the stead of the last one; 0 is never."""
        self.servers: dict[int, SimServer] = {}
        self.open: dict[SimTransport, None] = {}
        self.is_cut: Callable[[Process, Process], bool] = lambda _source, _target: False
        """Whether nothing passes from one process to another. Bytes that a connection loses by it are lost for good."""
        self._next_port = 40_000

    def new_port(self) -> int:
        """A port that was never used."""
        self._next_port += 1
        return self._next_port

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], port: int, *, start: bool) -> SimServer:
        """Bind a port. Raises `OSError` if it is taken."""
        port = port or self.new_port()
        if port in self.servers:
            raise OSError(98, f"port {port} is in use")
        server = SimServer(self, factory, port, current_process())
        server.serving = start
        self.servers[port] = server
        server.process.on_death.append(server.close)
        return server

    async def connect(self, port: int, protocol: asyncio.Protocol, host: str) -> SimTransport:
        """Open a connection from ``host``. Raises `ConnectionRefusedError`."""
        await asyncio.sleep(self.latency())
        server = self.servers.get(port)
        if server is None or not server.serving:
            raise ConnectionRefusedError(111, f"no server listens on port {port}")
        process = current_process()
        if self.is_cut(process, server.process) or self.is_cut(server.process, process):
            await asyncio.sleep(_SYN_SECONDS)
            raise TimeoutError(f"port {port} does not answer")
        mine = SimTransport(self, protocol, process, ("127.0.0.1", port))
        theirs = SimTransport(self, None, server.process, (host, self.new_port()))
        mine.peer, theirs.peer = theirs, mine
        for one in (mine, theirs):
            self.open[one] = None
            one.process.on_death.append(one.died)
        protocol.connection_made(mine)
        self._loop.call_soon(self._accept, server, theirs, context=server.process.context)
        return mine

    def _accept(self, server: SimServer, transport: SimTransport) -> None:
        if transport.closing:
            return
        if not server.serving:
            transport.abort()
            return
        transport.protocol = server.factory()
        transport.protocol.connection_made(transport)
        transport.pump()

    def latency(self) -> float:
        """Seconds that the next piece takes."""
        dice = self.dice
        if dice.random() < 0.02:
            return dice.uniform(0, self.slow)
        return _QUANTUM * dice.randint(1, 8)

    def heal(self) -> None:
        """Connections that have lost something in a cut are reset now that both ends hear of each other again."""
        for transport in list(self.open):
            if (
                transport in self.open
                and transport.has_lost
                and not self.is_cut(transport.process, transport.peer.process)
            ):
                transport.reset()

    def reset_some(self, probability: float) -> int:
        """Break connections, each with this probability; how many."""
        broken = 0
        for transport in list(self.open):
            if transport in self.open and self.dice.random() < probability / 2:
                transport.reset()
                broken += 1
        return broken


class _Address:
    """The part of a listening socket that asyncio shows."""

    def __init__(self, port: int) -> None:
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self._port

    def setsockopt(self, *_: object) -> None:
        """Buffers in memory have the size they have."""

    def dup(self) -> _Address:
        """The same."""
        return self

    def listen(self, _: int) -> None:
        """No connection waits to be accepted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class SimServer:
    """A listening port."""

    def __init__(
        self, network: Network, factory: Callable[[], asyncio.BaseProtocol], port: int, process: Process
    ) -> None:
        self._network = network
        self.factory = factory
        self.port = port
        self.process = process
        self.serving = False
        self.sockets = [_Address(port)]

    async def start_serving(self) -> None:
        """Accept from now on."""
        self.serving = True

    def is_serving(self) -> bool:
        """Whether it accepts."""
        return self.serving

    def close(self) -> None:
        """Accept no more; connections stay."""
        self.serving = False
        if self._network.servers.get(self.port) is self:
            del self._network.servers[self.port]

    async def wait_closed(self) -> None:
        """It is closed as soon as `close` was called."""


class SimTransport(asyncio.Transport):
    """One end of a connection. Bytes arrive in order, in pieces, after drawn times."""

    peer: SimTransport

    def __init__(self, network: Network, protocol: Any, process: Process, peername: tuple[str, int]) -> None:
        super().__init__()
        self._network = network
        self._loop = network._loop
        self.protocol: Any = protocol
        self.process = process
        self.closing = False
        self.accepted = protocol is None
        """This is the end of the server."""
        self._peername = peername
        self._inbox: deque[bytes] = deque()
        self._on_the_way = 0
        self._arrives_at = 0.0
        self._reading = True
        self._asked_to_pause = False
        self._ends_after: Exception | bool | None = None
        self.has_lost = False
        """A cut has swallowed something that this end has sent; nothing that comes after it can arrive."""

    # -- what protocols call -----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """No socket to send files on: the broker sends as it does through TLS, by reading and writing."""
        return {"peername": self._peername, "ssl_object": self}.get(name, default)

    def is_closing(self) -> bool:
        """Whether this end is closed."""
        return self.closing

    def write(self, data: Any) -> None:
        """Send a copy of ``data``."""
        if self.closing:
            return
        network = self._network
        if network.break_in and self.accepted:
            network.break_in -= 1
            if not network.break_in:
                self.reset()
                return
        piece = bytes(data)
        dice = network.dice
        if len(piece) > 1 and dice.random() < network.cut:
            cut = dice.randrange(1, len(piece))
            self._send(piece[:cut])
            piece = piece[cut:]
        self._send(piece)
        if self._on_the_way > _BUFFER_BYTES_MAX and not self._asked_to_pause:
            self._asked_to_pause = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """The bytes that this end has not got rid of: those above what the network takes."""
        return max(0, self._on_the_way - _BUFFER_BYTES_MAX)

    def close(self) -> None:
        """Send what was written, then end."""
        if not self.closing:
            self.closing = True
            self._end_peer(None)
            self._loop.call_soon(self._lost, None, context=self.process.context)

    def abort(self) -> None:
        """End now; the other end gets a reset."""
        if not self.closing:
            self.closing = True
            self._end_peer(ConnectionResetError(104, "connection reset by peer"))
            self._loop.call_soon(self._lost, None, context=self.process.context)

    def pause_reading(self) -> None:
        """Arriving bytes wait."""
        self._reading = False

    def resume_reading(self) -> None:
        """Arrived bytes are delivered."""
        self._reading = True
        self._loop.call_soon(self.pump, context=self.process.context)

    def is_reading(self) -> bool:
        """Whether bytes are delivered."""
        return self._reading

    # -- what the network does -----------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Both ends hear of a reset."""
        for one in (self, self.peer):
            if not one.closing:
                one.closing = True
                error = ConnectionResetError(104, "connection reset by peer")
                self._loop.call_later(self._network.latency(), one._lost, error, context=one.process.context)

    def died(self) -> None:
        """The process of this end is gone; what it sent may still arrive, then the other end hears of it."""
        self._network.open.pop(self, None)
        if not self.closing:
            self.closing = True
            self._end_peer(ConnectionResetError(104, "connection reset by peer"))

    def _send(self, piece: bytes) -> None:
        peer = self.peer
        self._on_the_way += len(piece)
        if self._loses():
            return
        peer._arrives_at = max(peer._arrives_at, self._loop.time() + self._network.latency())
        self._loop.call_at(self._arrival(peer), peer._arrived, piece, context=peer.process.context)

    def _arrival(self, peer: SimTransport) -> float:
        """Later than whatever was sent before: pieces of one connection never overtake each other."""
        peer._arrives_at += _QUANTUM / 100
        return peer._arrives_at

    def _loses(self) -> bool:
        self.has_lost = self.has_lost or self._network.is_cut(self.process, self.peer.process)
        return self.has_lost

    def _end_peer(self, error: Exception | None) -> None:
        peer = self.peer
        if self._loses():
            return
        peer._arrives_at = max(peer._arrives_at, self._loop.time() + self._network.latency())
        self._loop.call_at(self._arrival(peer), peer._ended, error, context=peer.process.context)

    def _arrived(self, piece: bytes) -> None:
        self._inbox.append(piece)
        self.pump()

    def _ended(self, error: Exception | None) -> None:
        self._ends_after = True if error is None else error
        self.pump()

    def pump(self) -> None:
        """Give the protocol what has arrived."""
        while self._inbox and self._reading and not self.closing and self.protocol is not None:
            piece = self._inbox.popleft()
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                buffer = self.protocol.get_buffer(-1)
                count = min(len(buffer), len(piece))
                buffer[:count] = piece[:count]
                if count < len(piece):
                    self._inbox.appendleft(piece[count:])
                self.protocol.buffer_updated(count)
            else:
                count = len(piece)
                self.protocol.data_received(piece)
            self.peer._taken(count)
        if self._ends_after is not None and not self.closing and (not self._inbox or self._ends_after is not True):
            self.closing = True
            error = None if self._ends_after is True else self._ends_after
            self._end_peer(None)
            self._lost(error)  # type: ignore[arg-type]

    def _taken(self, count: int) -> None:
        self._on_the_way -= count
        if self._asked_to_pause and self._on_the_way <= _BUFFER_BYTES_MAX // 2 and self.process.alive:
            self._asked_to_pause = False
            if not self.closing:
                self._loop.call_soon(self.protocol.resume_writing, context=self.process.context)

    def _lost(self, error: Exception | None) -> None:
        self._network.open.pop(self, None)
        self.process.forget(self.died)
        if self.protocol is not None:
            self.protocol.connection_lost(error)
