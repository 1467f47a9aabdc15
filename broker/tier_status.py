"""``GET /tier/status?topic=T``: where every partition's offsets and bytes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from stratalog.broker.http import Route
from stratalog.broker.unified_log import UnifiedLog

if TYPE_CHECKING:
    from stratalog.broker.node import Node

__all__ = ["tier_status"]


def tier_status(node: Node) -> Route:
    """The route. Without ``topic`` it answers for every topic."""

    def row(unified: UnifiedLog) -> dict[str, Any]:
        log = unified.log
        archive = node.tiering.describe(unified)
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
        rows = [
            row(unified)
            for unified in sorted(node.partitions, key=lambda each: each.topic_partition)
            if topic is None or unified.topic_partition.topic == topic
        ]
        return web.json_response({"bucket": node.config.bucket_url, "topic": topic, "partitions": rows})

    return answer
