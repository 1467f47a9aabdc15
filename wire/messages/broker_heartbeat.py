"""BrokerHeartbeat (key 63): a registered broker shows that it lives, and asks to serve or to stop (KIP-631).

- 0: the whole of it. 1: directories that have failed (KIP-858).
- 2: directories that take no new partitions (KIP-1066).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Uuid, field

__all__ = [
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
]


class BrokerHeartbeatRequest(Message, api_key=63, versions=(0, 2), flexible=0):
    """A sign of life. ``current_metadata_offset`` is the highest offset of the metadata log that the broker has applied.

    ``cordoned_log_dirs`` is null until the broker has caught up with the metadata log.
    """

    broker_id: Int32
    broker_epoch: Int64 = field(-1)
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: list[Uuid] = field(since=1, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(since=2, tag=1)


class BrokerHeartbeatResponse(Message, api_key=63, versions=(0, 2), flexible=0):
    """The state in which the controller has the broker."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    is_caught_up: Bool = field()
    is_fenced: Bool = field(True)
    should_shut_down: Bool
