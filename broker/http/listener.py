"""The HTTP port of a broker: taken when it starts, served a moment later.

Its server is a third of all that a broker imports, and no Kafka client needs it. So a start takes the port, before it
changes anything. When Kafka's clients are already let in, those who connect wait instead of failing, and the rest is imported by a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from stratalog.broker.http.connections import HttpConnections, HttpLimits, HttpProtocol
from stratalog.broker.network.accepting import Listening, listen
from stratalog.broker.network.listening import naming_setting
from stratalog.broker.workers.spawner import spawner_of

if TYPE_CHECKING:
    from stratalog.broker.http.server import HttpServer

__all__ = ["HttpListener"]

_MODULE = "stratalog.broker.http.routes"
_SETTING = "stratalog.http.listener (--http)"
_BACKLOG = 128

log = logging.getLogger(__name__)


class HttpListener:
    """A port that is there at once, and its server when that is imported."""

    def __init__(
        self, make: Callable[[], HttpServer], failed: Callable[[], None], limits: HttpLimits | None = None
    ) -> None:
        """``make`` makes the server when its modules are imported. ``failed`` is called if there will be none."""
        self._make = make
        self._failed = failed
        self.connections = HttpConnections(asyncio.get_running_loop(), limits or HttpLimits())
        self._listening: Listening | None = None
        self._opening: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None
        self._new_protocol: Callable[[], HttpProtocol] | None = None

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the port, where connections are refused so far; the address, with the port that was chosen for 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        with naming_setting(_SETTING, host, port):
            self._listening = await listen(loop, self._connected, host or None, port, backlog=_BACKLOG)
        host, port = self._listening.sockets[0].getsockname()[:2]
        return host, port

    def serve(self) -> None:
        """Have connections wait, and begin to serve them, in the background. Raises OSError if others listen by now."""
        assert self._listening is not None
        for bound in self._listening.sockets:
            with bound.dup() as same, naming_setting(_SETTING, *bound.getsockname()[:2]):
                same.listen(_BACKLOG)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def opened(self) -> None:
        """Wait until it serves, or has failed to."""
        if self._opening is not None:
            await self._opening

    async def close(self) -> None:
        """Stop listening."""
        await self.opened()
        if self._listening is not None:
            self._listening.close()
        if self._server is not None:
            await self._server.close()
        self.connections.close()

    def _connected(self) -> asyncio.BaseProtocol:
        assert self._new_protocol is not None
        return self.connections.guarded(self._new_protocol())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        thread = spawner_of(loop).threads(1, "http")
        try:
            await loop.run_in_executor(thread, import_module, _MODULE)
            self._server = self._make()
            self._new_protocol = await self._server.prepare(self.connections)
            assert self._listening is not None
            await self._listening.start_serving()
        except Exception:
            log.exception("HTTP cannot be served")
            self._failed()
        finally:
            thread.shutdown(wait=False)
