"""``GET /tier/status?topic=T``: where every partition's offsets and bytes are."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from aiohttp import web

from stratalog.broker.http import Route
from stratalog.broker.remote_reader import RemotePartition
from stratalog.broker.tiering import ArchiveFigures
from stratalog.broker.unified_log import UnifiedLog

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["tier_status"]


def tier_status(node: Node) -> Route:
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
        if topic is not None and topic not in node.image.topics.by_name:
            return web.json_response({"error": f"topic {topic!r} does not exist"}, status=404)
        led = [
            row(unified, node.tiering.describe(unified))
            for unified in node.partitions
            if topic is None or unified.topic_partition.topic == topic
        ]
        mounted = [
            row(one.unified, _mounted_figures(one.remote))
            for one in node.mount
            if topic is None or one.unified.topic_partition.topic == topic
        ]
        rows = sorted(led + mounted, key=itemgetter("topic", "partition"))
        return web.json_response({"bucket": node.config.bucket_url, "topic": topic, "partitions": rows})

    return answer


def _mounted_figures(remote: RemotePartition) -> ArchiveFigures:
    return ArchiveFigures(remote.end_offset, remote.size_bytes, remote.object_count, "mounted")
