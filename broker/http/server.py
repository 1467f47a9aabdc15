"""The HTTP side of a broker: is it alive, is it ready, and its figures. Without authentication, so loopback only."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import web

from stratalog.broker.http.connections import HttpConnections, HttpProtocol
from stratalog.broker.http.origin import this_host_only
from stratalog.broker.http.refusals import MistakesOfClients, answer_bad_requests, length_required
from stratalog.broker.http.streaming import stream
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import Slices, Steps

__all__ = ["HttpServer", "Route"]

_METRICS: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}

log = logging.getLogger(__name__)
mistakes = MistakesOfClients()
log.addFilter(mistakes)

Route = Callable[[web.Request], Awaitable[web.StreamResponse]]

OPEN_PATHS: Final = frozenset({"/livez", "/readyz"})
"""Answered under every name of the host: a load balancer asks by address or by any name."""


class HttpServer:
    """``/livez``, ``/readyz`` and ``/metrics``.

    ``reasons`` says why the broker is not ready, one sentence each; none means that it is. ``problems`` do not
    keep it from serving; ``/readyz?verbose`` lists them. Long answers are made in ``slices``. ``more`` are further routes by path, or by method and path:
    ``"PATCH /v1/…"``.
    """

    def __init__(
        self,
        metrics: Metrics,
        reasons: Callable[[], Sequence[str]],
        more: Mapping[str, Route] | None = None,
        *,
        slices: Slices,
        problems: Callable[[], Steps[list[str]]] | None = None,
    ) -> None:
        self._metrics = metrics
        self._reasons = reasons
        self._slices = slices
        self._problems = problems
        self._more = dict(more or {})
        self._runner: web.AppRunner | None = None
        self._connections: HttpConnections

    async def prepare(self, connections: HttpConnections) -> Callable[[], HttpProtocol]:
        """Get ready to serve; what makes the protocol of a connection, for the listener.

        ``connections`` hear when a request begins and ends.
        """
        self._connections = connections
        application = web.Application(middlewares=[self._noted, answer_bad_requests, this_host_only(OPEN_PATHS)])
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics_text)
        for target, route in self._more.items():
            method, _, path = target.rpartition(" ")
            application.router.add_route(method or "GET", path, route)
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=log,
            handle_signals=False,
            shutdown_timeout=1.0,
            auto_decompress=False,  # else aiohttp unpacks what no route reads, gigabytes in one turn of the loop
        )
        await runner.setup()
        self._runner = runner
        assert runner.server is not None
        return runner.server

    async def close(self) -> None:
        """End what is being served; who listens stops before."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _noted(self, request: web.Request, handler: Route) -> web.StreamResponse:
        """Requests in progress are not idle."""
        connection = self._connections.of(request.protocol)
        if connection is None:
            return await handler(request)
        connection.request_began(request.content.is_eof)
        try:
            if "Transfer-Encoding" in request.headers:
                connection.drop_rest()
                return length_required()
            return await handler(request)
        finally:
            connection.request_ended()

    async def _livez(self, _request: web.Request) -> web.Response:
        """The loop turns: that this is answered at all is the answer."""
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        reasons = self._reasons()
        lines = list(reasons) or ["ok"]
        if "verbose" in request.query and self._problems is not None:
            lines += [f"problem: {problem}" for problem in await self._slices.run(self._problems())]
        return web.Response(status=503 if reasons else 200, text="".join(f"{line}\n" for line in lines))

    async def _metrics_text(self, request: web.Request) -> web.StreamResponse:
        return await stream(request, self._metrics.exposition(), self._slices, _METRICS)
