"""``GET /v1/tier`` and ``GET /v1/tier/events``: what of every partition is where, once or as it changes.

``POST /v1/tier/verification`` tells the broker how a verification of its bucket went.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice
from typing import Any, Final

from aiohttp import web

from stratalog.broker.http.refusals import changing_refusal, json_body, refused
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.http.streaming import stream
from stratalog.broker.http.tier_watch import TierWatch, TooManyWatchers
from stratalog.broker.http.verification import verification_of
from stratalog.broker.requests.authorizer import CLUSTER_NAME, Operation, ResourceType
from stratalog.wire.errors import Invalid

__all__ = ["tier_routes"]

_ROWS_A_PART: Final = 100
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def tier_routes(services: HttpServices, watch: TierWatch) -> dict[str, Route]:
    """The routes by path."""

    async def snapshot(request: web.Request) -> web.StreamResponse:
        """The summary with its ``rows`` last; ``?topic=T`` leaves out the rows of other topics.

        It is sent as it is made, so that thousands of partitions are never one string.
        """
        topic = request.query.get("topic")
        said, texts = await watch.snapshot(topic)
        headers = {**_HEADERS, "Content-Type": "application/json; charset=utf-8"}
        return await stream(request, _parts(said, texts), services.slices, headers)

    async def events(request: web.Request) -> web.StreamResponse:
        """Server-sent events until one side goes; 503 if too many watch already."""
        async with aclosing(watch.events()) as stream:
            try:
                first = await anext(stream)
            except TooManyWatchers as error:
                return web.json_response({"error": str(error)}, status=503, headers={"Retry-After": "10"})
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            try:
                await response.write(_text(first.name, first.data))
                async for event in stream:
                    await response.write(_text(event.name, event.data))
            except ConnectionError:
                return response
        return response

    return {
        "/v1/tier": snapshot,
        "/v1/tier/events": events,
        "POST /v1/tier/verification": _verified(services, watch),
    }


def _verified(services: HttpServices, watch: TierWatch) -> Route:
    async def verified(request: web.Request) -> web.StreamResponse:
        """Remember it for the page; nothing is decided by it."""
        authorizer = services.authorizer
        refusal = changing_refusal(request, authorizer, Operation.ALTER, CLUSTER_NAME, ResourceType.CLUSTER)
        if refusal is not None:
            return refusal
        body = await json_body(request)
        if isinstance(body, web.Response):
            return body
        try:
            watch.verification = verification_of(body, services.bucket_url, services.clock.wall_ms())
        except Invalid as error:
            return refused(400, str(error))
        return web.json_response(watch.verification._asdict())

    return verified


def _parts(said: dict[str, Any], rows: Iterator[str]) -> Iterator[bytes]:
    yield json.dumps(said)[:-1].encode() + b',"rows":['
    comma = ""
    while some := list(islice(rows, _ROWS_A_PART)):
        yield (comma + ",\n".join(some)).encode()
        comma = ",\n"
    yield b"]}\n"


def _text(name: str, data: str) -> bytes:
    """An event as it is sent; JSON has no line break."""
    return f"event: {name}\ndata: {data}\n\n".encode()
