"""``GET /v1/tier/plan[?topic=T]``: what the archive side of this broker would do now, and why."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web

from stratalog.broker.archive.plan_report import planned_steps
from stratalog.broker.http.refusals import refused
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.http.streaming import stream
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP

__all__ = ["plan_routes"]

_HEADERS: Final = {"Content-Type": "application/json; charset=utf-8"}


def plan_routes(services: HttpServices) -> dict[str, Route]:
    """The route by path."""

    async def answer(request: web.Request) -> web.StreamResponse:
        topic = request.query.get("topic")
        if topic is not None and topic not in services.image().topics.by_name:
            return refused(404, f"topic {topic!r} does not exist")
        return await stream(request, _parts(services, topic), services.slices, _HEADERS)

    return {"/v1/tier/plan": answer}


def _parts(services: HttpServices, topic: str | None) -> Iterator[bytes | None]:
    """The answer as JSON, the steps of one partition at a time, by topic and partition."""
    by_topic: defaultdict[str, list[UnifiedLog]] = defaultdict(list)
    for number, unified in enumerate(list(services.led)):
        if number % LOOKS_A_STEP == 0:
            yield None
        by_topic[unified.topic_partition.topic].append(unified)
    yield json.dumps({"bucket": services.bucket_url, "topic": topic})[:-1].encode() + b', "steps": ['
    comma = ""
    for name in sorted(by_topic) if topic is None else [topic]:
        for unified in sorted(by_topic[name], key=lambda one: one.topic_partition.partition):
            for step in _steps(services, unified):
                yield (comma + json.dumps(step)).encode()
                comma = ", "
            yield None
    yield b"]}\n"


def _steps(services: HttpServices, unified: UnifiedLog) -> list[dict[str, Any]]:
    watched = services.tiering.watched(unified)
    if watched is None:
        return []
    archive, state = watched
    try:
        return [step.fields() for step in planned_steps(unified, archive, state, services.clock.wall_ms())]
    except OSError as error:
        unified.partition.directory.report(error)
        return []
