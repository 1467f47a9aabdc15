"""Making a connection to a host and a port without holding the event loop: names are looked up in threads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol

__all__ = ["Addresses", "Dialer", "TcpDialer"]

Address = tuple[int, int, int, str, tuple[Any, ...]]

Addresses = Sequence[Address]
"""The result of ``socket.getaddrinfo``."""


class Dialer(Protocol):
    """Connects. A simulation puts another one here."""

    async def dial(
        self, new_protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, number: int
    ) -> asyncio.Transport:
        """A connection whose protocol is ``new_protocol()``.

        Raises `OSError`; that is `ConnectionRefusedError` only if every address has refused.

        The addresses of the host are tried in turn, beginning with that of this ``number``, counted round: an address
        that swallows everything costs one attempt, not all.
        """
        ...


class TcpDialer:
    """Plain TCP.

    One look-up of a host is under way at a time, however many ask: a resolver that hangs takes one thread a name.
    """

    def __init__(
        self,
        executor: Executor,
        look_up: Callable[..., Addresses] = socket.getaddrinfo,
    ) -> None:
        """``look_up`` is called in threads of ``executor``."""
        self._executor = executor
        self._look_up = look_up
        self._looking: dict[tuple[str, int], asyncio.Future[Addresses]] = {}

    async def dial(
        self, new_protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, number: int
    ) -> asyncio.Transport:
        """See `Dialer.dial`."""
        addresses = await self._addresses(host, port)
        if not addresses:
            raise OSError(f"{host} has no address")
        first = number % len(addresses)
        failure: OSError | None = None
        for each in [*addresses[first:], *addresses[:first]]:
            try:
                return await _connect(new_protocol, each)
            except OSError as error:
                if failure is None or not isinstance(error, ConnectionRefusedError):
                    failure = error
        assert failure is not None
        raise failure

    async def _addresses(self, host: str, port: int) -> Addresses:
        key = (host, port)
        looking = self._looking.get(key)
        if looking is None:
            loop = asyncio.get_running_loop()
            looking = loop.run_in_executor(self._executor, self._resolve, host, port)
            self._looking[key] = looking
            looking.add_done_callback(partial(self._looked_up, key))
        # An attempt that is given up does not end the look-up: the next one takes its result.
        return await asyncio.shield(looking)

    def _looked_up(self, key: tuple[str, int], looking: asyncio.Future[Addresses]) -> None:
        del self._looking[key]
        if not looking.cancelled():
            looking.exception()  # seen, also if the attempt that asked has been given up

    def _resolve(self, host: str, port: int) -> Addresses:
        try:
            return self._look_up(host, port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise OSError(f"{host!r} is no name of a host: {error}") from error


async def _connect(new_protocol: Callable[[], asyncio.BaseProtocol], address: Address) -> asyncio.Transport:
    family, kind, protocol, _, where = address
    loop = asyncio.get_running_loop()
    endpoint = socket.socket(family, kind, protocol)
    try:
        endpoint.setblocking(False)
        await loop.sock_connect(endpoint, where)
        transport, _protocol = await loop.create_connection(new_protocol, sock=endpoint)
    except BaseException:
        endpoint.close()
        raise
    return transport
