"""Heartbeat (key 12): a member of a classic group is alive; the answer tells whether the group rebalances.

- 1: throttle time. 2: throttling comes after the answer (KIP-219). 3: static members (KIP-345). 4: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, field

__all__ = ["HeartbeatRequest", "HeartbeatResponse"]


class HeartbeatRequest(Message, api_key=12, versions=(0, 4), flexible=4):
    """The member that is alive, and its generation."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = field(None, since=3)


class HeartbeatResponse(Message, api_key=12, versions=(0, 4), flexible=4):
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: Int32 = field(since=1)
    error_code: Int16 = field()
