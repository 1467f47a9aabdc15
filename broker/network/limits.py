"""From Kafka's network settings to the limits of the server."""

from __future__ import annotations

import resource
from typing import Final

from stratalog.broker.network.connection_counts import ServerLimits
from stratalog.broker.network.connection_services import ConnectionLimits
from stratalog.broker.settings.config import BrokerConfig
from stratalog.metadata.settings.catalogue.validators import address_counts

__all__ = ["allow_descriptors", "segments_open_max", "server_limits"]

_UNLIMITED: Final = (1 << 31) - 1
_REQUEST_MEMORY_BYTES: Final = 1 << 30
_CONNECTIONS_MAX: Final = 10_000
"""Where Kafka's default says "no limit"."""

_PER_IP_SHARE: Final = 4
_PER_IP_LEAST: Final = 64
"""An address gets one in so many of all connections where max.connections.per.ip is not set, and at least so many."""
_RESERVED_SHARE: Final = 16
"""One in so many connections is for addresses that have few, where max.connections is not set."""
_BACKLOG_NAME: Final = "socket.listen.backlog.size"
_BACKLOG: Final = 1024
"""Where it is not set. With Kafka's 50 a burst of clients waits for a second, until their kernels ask again."""

_SEGMENTS_MIN: Final = 512
_SEGMENTS_MAX: Final = 1 << 16
_DESCRIPTORS_KEPT: Final = 256
"""For chunks, checkpoints, workers. Without them a log cannot even roll."""
_DESCRIPTORS_PER_CONNECTION: Final = 2


def server_limits(config: BrokerConfig) -> ServerLimits:
    """The limits of clients. Raises nothing: the settings were checked when they were read."""
    rate = config.integer("max.connection.creation.rate")
    memory = config.integer("queued.max.request.bytes")
    memory_per_ip = config.integer("stratalog.request.memory.per.ip.bytes")
    most = min(config.integer("max.connections"), _CONNECTIONS_MAX, _connections_possible())
    return ServerLimits(
        connections_max=most,
        connections_reserved=0 if config.integer("max.connections") < _UNLIMITED else most // _RESERVED_SHARE,
        connections_per_ip_max=_per_ip_max(config, most),
        per_ip_overrides=address_counts(config.text("max.connections.per.ip.overrides") or ""),
        connection_rate_max=None if rate >= _UNLIMITED else rate,
        idle_ms=config.integer("connections.max.idle.ms"),
        request_memory_bytes=_REQUEST_MEMORY_BYTES if memory <= 0 else memory,
        request_memory_per_ip_bytes=None if memory_per_ip <= 0 else memory_per_ip,
        send_buffer_bytes=_buffer_bytes(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_buffer_bytes(config, "socket.receive.buffer.bytes"),
        backlog=config.integer(_BACKLOG_NAME) if _BACKLOG_NAME in config.static else _BACKLOG,
        connection=ConnectionLimits(
            frame_bytes_max=config.integer("socket.request.max.bytes"),
            unauthenticated_frame_bytes_max=config.integer("stratalog.unauthenticated.request.bytes.max"),
            elements_max=config.integer("stratalog.request.elements.max"),
            tags_max=config.integer("stratalog.request.tags.max"),
        ),
    )


def allow_descriptors() -> int:
    """Take as many file descriptors as this process may have by itself; returns their number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def segments_open_max() -> int:
    """How many segments may be held open: a third of all descriptors.

    A partition that is written to while its file is not among them opens it anew for every write.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _SEGMENTS_MAX
    return min(max(soft // 3, _SEGMENTS_MIN), _SEGMENTS_MAX)


def _connections_possible() -> int:
    """Connections for which there are descriptors: clients may not take those that the logs need."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    kept = _DESCRIPTORS_KEPT + segments_open_max()
    return max((soft - kept) // _DESCRIPTORS_PER_CONNECTION, soft // 8, 1)


def _per_ip_max(config: BrokerConfig, most: int) -> int:
    """Connections of one address. Kafka's default is no limit: one address could take all that there are."""
    asked = config.integer("max.connections.per.ip")
    if asked < _UNLIMITED or "max.connections.per.ip" in config.static:
        return asked
    return max(most // _PER_IP_SHARE, _PER_IP_LEAST)


def _buffer_bytes(config: BrokerConfig, name: str) -> int | None:
    """A configured size. Kafka's default of 100 KiB would only keep the kernel from adapting it."""
    size_bytes = config.integer(name)
    return size_bytes if name in config.static and size_bytes > 0 else None
