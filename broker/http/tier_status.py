"""``GET /tier/status?topic=T``: where every partition's offsets and bytes are."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from aiohttp import web

from stratalog.broker.archive.tiering import ArchiveFigures
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.http.server import Route
from stratalog.broker.http.services import HttpServices
from stratalog.broker.replicas.unified_log import UnifiedLog

__all__ = ["tier_status"]


def tier_status(services: HttpServices) -> Route:
    """The route. Without ``topic`` it answers for every topic."""

    def row(unified: UnifiedLog, archive: ArchiveFigures) -> dict[str, Any]:
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

    async def answer(request: web.Request) -> web.StreamResponse:
        topic = request.query.get("topic")
        if topic is not None and topic not in services.image().topics.by_name:
            return web.json_response({"error": f"topic {topic!r} does not exist"}, status=404)
        led = [
            row(unified, services.tiering.describe(unified))
            for unified in services.led
            if topic is None or unified.topic_partition.topic == topic
        ]
        mounted = [
            row(one.unified, _mounted_figures(one.remote))
            for one in services.mounted
            if topic is None or one.unified.topic_partition.topic == topic
        ]
        rows = sorted(led + mounted, key=itemgetter("topic", "partition"))
        return web.json_response({"bucket": services.bucket_url, "topic": topic, "partitions": rows})

    return answer


def _mounted_figures(remote: RemotePartition) -> ArchiveFigures:
    return ArchiveFigures(remote.end_offset, remote.size_bytes, remote.object_count, "mounted")
