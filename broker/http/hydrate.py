"""``POST /v1/topics/{topic}/partitions/{partition}/hydrate``: bring a range into the chunk cache and keep it there."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from stratalog.broker.archive.hydration import hydrate
from stratalog.broker.http.refusals import changing_refusal, json_body, refused
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.authorizer import Operation
from stratalog.wire.errors import Invalid, KafkaError

__all__ = ["PIN_MS_MAX", "hydrate_routes"]

PIN_MS_MAX: Final = 7 * 86_400_000
_OFFSET_MAX: Final = (1 << 63) - 1


def hydrate_routes(services: HttpServices) -> dict[str, Route]:
    """The route by method and path."""

    async def answer(request: web.Request) -> web.StreamResponse:
        topic = request.match_info["topic"]
        refusal = changing_refusal(request, services.authorizer, Operation.READ, topic)
        if refusal is not None:
            return refusal
        unified = _led(services, topic, request.match_info["partition"])
        if unified is None:
            return refused(404, f"{topic}-{request.match_info['partition']} is not led by this broker")
        body = await json_body(request)
        if isinstance(body, web.Response):
            return body
        try:
            return await _hydrate(services, unified, body)
        except Invalid as error:
            return refused(400, str(error))
        except KafkaError as error:
            return refused(503, str(error))

    return {"POST /v1/topics/{topic}/partitions/{partition}/hydrate": answer}


def _led(services: HttpServices, topic: str, partition: str) -> UnifiedLog | None:
    return next(
        (
            one
            for one in services.led
            if one.topic_partition.topic == topic and str(one.topic_partition.partition) == partition
        ),
        None,
    )


async def _hydrate(services: HttpServices, unified: UnifiedLog, body: dict[str, Any]) -> web.Response:
    """Work for some seconds; the caller goes on from ``next_offset`` until it is ``done``."""
    start, end = _number(body, "from", 0, _OFFSET_MAX), _number(body, "until", 0, _OFFSET_MAX)
    pin_ms = _number(body, "pin_ms", 1000, PIN_MS_MAX)
    chunks = services.tiering.chunks
    found = await hydrate(unified, chunks, start, end, until_ms=chunks.now_ms() + pin_ms)
    return web.json_response(
        {
            "topic": unified.topic_partition.topic,
            "partition": unified.topic_partition.partition,
            "from": found.start,
            "next_offset": found.next_offset,
            "done": found.done,
            "chunks": len(found.chunks),
            "size_bytes": found.size_bytes,
        }
    )


def _number(body: dict[str, Any], name: str, least: int, most: int) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Invalid(f"{name} is a whole number from {least} to {most}, not {value!r}")
    return value
