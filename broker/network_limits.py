"""From Kafka's network settings to the limits of the server."""

from __future__ import annotations

from typing import Final

from stratalog.broker.config import BrokerConfig
from stratalog.broker.connection import ConnectionLimits
from stratalog.broker.server import ServerLimits

__all__ = ["server_limits"]

_UNLIMITED: Final = (1 << 31) - 1
_REQUEST_MEMORY_BYTES: Final = 1 << 30
_CONNECTIONS_MAX: Final = 10_000
"""Where Kafka's default says "no limit": below what file descriptors usually allow."""


def server_limits(config: BrokerConfig) -> ServerLimits:
    """What clients may use. Raises nothing: the settings were checked when they were read."""
    rate = config.integer("max.connection.creation.rate")
    memory = config.integer("queued.max.request.bytes")
    return ServerLimits(
        connections_max=min(config.integer("max.connections"), _CONNECTIONS_MAX),
        connections_per_ip_max=config.integer("max.connections.per.ip"),
        per_ip_overrides=_overrides(config.text("max.connections.per.ip.overrides") or ""),
        connection_rate_max=None if rate >= _UNLIMITED else rate,
        idle_ms=config.integer("connections.max.idle.ms"),
        request_memory_bytes=_REQUEST_MEMORY_BYTES if memory <= 0 else memory,
        send_buffer_bytes=_buffer_bytes(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_buffer_bytes(config, "socket.receive.buffer.bytes"),
        backlog=config.integer("socket.listen.backlog.size"),
        connection=ConnectionLimits(frame_bytes_max=config.integer("socket.request.max.bytes")),
    )


def _buffer_bytes(config: BrokerConfig, name: str) -> int | None:
    """A size that somebody asked for. Kafka's default of 100 KiB would only keep the kernel from adapting it."""
    size_bytes = config.integer(name)
    return size_bytes if name in config.static and size_bytes > 0 else None


def _overrides(text: str) -> dict[str, int]:
    pairs = (pair.rpartition(":") for pair in text.split(",") if pair.strip())
    return {host.strip(): int(count) for host, _, count in pairs}
