"""``GET /tier/status?topic=T``: where every partition's offsets and bytes are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from aiohttp import web

from stratalog.broker.archive.tiering import ArchiveFigures
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.http.streaming import stream
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP

__all__ = ["tier_status"]

_HEADERS: Final = {"Content-Type": "application/json; charset=utf-8"}


def tier_status(services: HttpServices) -> Route:
    """The route. Without ``topic`` it answers for every topic."""

    async def answer(request: web.Request) -> web.StreamResponse:
        topic = request.query.get("topic")
        if topic is not None and topic not in services.image().topics.by_name:
            return web.json_response({"error": f"topic {topic!r} does not exist"}, status=404)
        return await stream(request, _parts(services, topic), services.slices, _HEADERS)

    return answer


def _parts(services: HttpServices, topic: str | None) -> Iterator[bytes | None]:
    """The answer as JSON, a row at a time, by topic and partition."""
    shown: defaultdict[str, list[tuple[int, UnifiedLog, RemotePartition | None]]] = defaultdict(list)
    led = ((unified, None) for unified in services.led)
    mounted = ((one.unified, one.remote) for one in services.mounted)
    for number, (unified, remote) in enumerate(list(chain(led, mounted))):
        if number % LOOKS_A_STEP == 0:
            yield None
        name, partition = unified.topic_partition
        if topic is None or topic == name:
            shown[name].append((partition, unified, remote))
    yield json.dumps({"bucket": services.bucket_url, "topic": topic})[:-1].encode() + b', "partitions": ['
    comma = ""
    for name in sorted(shown):
        for _, unified, remote in sorted(shown[name], key=itemgetter(0)):
            figures = services.tiering.describe(unified) if remote is None else _mounted_figures(remote)
            yield (comma + json.dumps(_row(unified, figures))).encode()
            comma = ", "
    yield b"]}\n"


def _row(unified: UnifiedLog, archive: ArchiveFigures) -> dict[str, Any]:
    log = unified.log
    return {
        "topic": unified.topic_partition.topic,
        "partition": unified.topic_partition.partition,
        "log_start": log.log_start_offset,
        "local_start": log.local_log_start_offset,
        "remote_end": archive.end_offset,
        "log_end": log.log_end_offset,
        "local_bytes": log.size_bytes,
        "remote_bytes": archive.size_bytes,
        "objects": archive.object_count,
        "state": archive.state,
    }


def _mounted_figures(remote: RemotePartition) -> ArchiveFigures:
    return ArchiveFigures(remote.end_offset, remote.size_bytes, remote.object_count, "mounted")
