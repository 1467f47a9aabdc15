"""A client's connection: requests of our own codec in drawn versions, answers in order, nothing retried."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.schema import Message, decode, encode

if TYPE_CHECKING:
    from sim.under.loop import VirtualLoop

__all__ = ["Caller", "Link", "LinkLost"]

_API_VERSIONS_KEY: Final = 18
_LENGTH_BYTES: Final = 4


class LinkLost(Exception):
    """No connection, no answer in time, or the connection ended: the request may have been carried out."""


class Link(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._data = bytearray()
        self._pending: deque[tuple[int, type[Message], int, asyncio.Future[Any]]] = deque()
        self._correlation_id = 0
        self._transport: Any = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker's port has answered."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Every answer still due is lost."""
        self.closed = True
        while self._pending:
            future = self._pending.popleft()[3]
            if not future.done():
                future.set_exception(LinkLost(f"{self._name}: {exc or 'the broker closed the connection'}"))

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def send(self, request: Message, version: int) -> asyncio.Future[Any]:
        """Send a request; a future of its answer, which raises `LinkLost`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(_heard)  # of several answers that are lost together, one tells
        if self.closed:
            future.set_exception(LinkLost(f"{self._name}: not connected"))
            return future
        kind = type(request)
        self._correlation_id += 1
        parts = encode(request, version)
        frame = encode_request(
            kind.api_key, version, self._correlation_id, self._name, parts, flexible=version >= kind.flexible_since
        )
        self._pending.append((self._correlation_id, _response_of(kind), version, future))
        self._loop.trace.note(self._name, f"asks {kind.__name__.removesuffix('Request')} v{version}")
        self._transport.write(b"".join(frame))  # type: ignore[arg-type]
        return future

    def forget(self) -> None:
        """The newest request gets no answer (acks=0)."""
        self._pending.pop()[3].cancel()

    def data_received(self, data: bytes) -> None:
        """More bytes of answers."""
        self._data += data
        while len(self._data) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._data[:_LENGTH_BYTES], "big")
            if len(self._data) < end:
                return
            frame = bytes(self._data[_LENGTH_BYTES:end])
            del self._data[:end]
            self._answered(memoryview(frame))

    def _answered(self, frame: memoryview) -> None:
        correlation_id, kind, version, future = self._pending.popleft()
        flexible = version >= kind.flexible_since and kind.api_key != _API_VERSIONS_KEY
        answered, position = decode_response_header(frame, flexible=flexible)
        if answered != correlation_id:
            raise AssertionError(f"{self._name}: answer {answered} came where {correlation_id} was due")
        answer = decode(kind, version, frame, position)
        self._loop.trace.note(self._name, f"hears {kind.__name__.removesuffix('Response')} {len(frame)} bytes")
        if not future.done():
            future.set_result(answer)


def _heard(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _response_of(request: type[Message]) -> type[Message]:
    found: type[Message] = getattr(
        sys.modules[request.__module__], request.__name__.removesuffix("Request") + "Response"
    )
    return found


class Caller:
    """A client: connects when it has to, speaks each API in a version drawn once."""

    def __init__(self, loop: VirtualLoop, name: str, port: int, dice: random.Random) -> None:
        self.loop = loop
        self.name = name
        self.dice = dice
        self._port = port
        self._link: Link | None = None
        self._ranges: dict[int, tuple[int, int]] = {}
        self._versions: dict[int, int] = {}
        self.version_floors: dict[int, int] = {}
        """The lowest version of an API that this client can work with."""
        self.version_ceilings: dict[int, int] = {}
        self.is_current = True
        """Whether the last answer came from the broker that leads; in a cluster a former leader may not know that it is one."""

    async def link(self) -> Link:
        """The open connection, or a new one. Raises `LinkLost`."""
        if self._link is None or self._link.closed:
            link = Link(self.loop, self.name)
            try:
                await self.loop.network.connect(self._port, link, f"10.0.0.{1 + len(self.name)}")
            except OSError as error:
                raise LinkLost(str(error)) from error
            self._link = link
            version = self.dice.randint(0, ApiVersionsRequest.versions[1])
            request = ApiVersionsRequest(client_software_name=self.name, client_software_version="1")
            answer = await self._answer(link.send(request, version), 10.0)
            self._ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        return self._link

    def version_of(self, kind: type[Message]) -> int:
        """The version in which this client speaks an API."""
        version = self._versions.get(kind.api_key)
        if version is None:
            first, last = self._ranges[kind.api_key]
            floor = max(first, kind.versions[0], self.version_floors.get(kind.api_key, 0))
            ceiling = min(last, kind.versions[1], self.version_ceilings.get(kind.api_key, last))
            version = self.dice.randint(floor, ceiling)
            self._versions[kind.api_key] = version
        return version

    async def send(self, request: Message) -> asyncio.Future[Any]:
        """Send a request, connecting if need be; its answer is waited for with `answer`. Raises `LinkLost`."""
        link = await self.link()
        return link.send(request, self.version_of(type(request)))

    async def call(self, request: Message, timeout: float = 10.0) -> Any:  # noqa: ASYNC109 - virtual seconds
        """Send a request and wait for its answer. Raises `LinkLost`."""
        return await self._answer(await self.send(request), timeout)

    async def answer(self, future: asyncio.Future[Any], timeout: float = 10.0) -> Any:  # noqa: ASYNC109
        """Wait for an answer. Raises `LinkLost`."""
        return await self._answer(future, timeout)

    async def _answer(self, future: asyncio.Future[Any], timeout: float) -> Any:  # noqa: ASYNC109
        try:
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            self.loop.trace.note(self.name, "gives up waiting")
            self.close()
            raise LinkLost(f"{self.name}: no answer in {timeout:g} s") from None

    def close(self) -> None:
        """End the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None
