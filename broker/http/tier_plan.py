"""``GET /v1/tier/plan[?topic=T]``: what the archive side of this broker would do now, and why."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web

from stratalog.broker.archive.plan_report import planned_steps
from stratalog.broker.http.refusals import refused
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices

__all__ = ["plan_routes"]

_PARTITIONS_A_TURN: Final = 20
"""Between so many the loop turns: producers come first."""


def plan_routes(services: HttpServices) -> dict[str, Route]:
    """The route by path."""

    async def answer(request: web.Request) -> web.StreamResponse:
        topic = request.query.get("topic")
        if topic is not None and topic not in services.image().topics.by_name:
            return refused(404, f"topic {topic!r} does not exist")
        return web.json_response(
            {"bucket": services.bucket_url, "topic": topic, "steps": await _steps(services, topic)}
        )

    return {"/v1/tier/plan": answer}


async def _steps(services: HttpServices, topic: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    led = sorted(services.led, key=lambda each: each.topic_partition)
    chosen = [one for one in led if topic in {None, one.topic_partition.topic}]
    for number, unified in enumerate(chosen, start=1):
        watched = services.tiering.watched(unified)
        if watched is not None:
            archive, state = watched
            try:
                steps = planned_steps(unified, archive, state, services.clock.wall_ms())
            except OSError as error:
                unified.partition.directory.report(error)
                continue
            found += [step.fields() for step in steps]
        if number % _PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)
    return found
