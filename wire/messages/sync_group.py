"""SyncGroup (key 14): the leader hands in the assignments of a generation, every member fetches its own.

- 1: throttle time. 2: throttling comes after the answer (KIP-219). 3: static members (KIP-345). 4: flexible.
- 5: both sides name protocol type and protocol, so that a mismatch is noticed (KIP-559).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = ["SyncGroupRequest", "SyncGroupRequestAssignment", "SyncGroupResponse"]


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member, opaque to the broker."""

    member_id: str
    assignment: bytes


class SyncGroupRequest(Message, api_key=14, versions=(0, 5), flexible=4):
    """A member asks for its assignment; only the leader brings any."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = field(None, since=3)
    protocol_type: str | None = field(None, since=5)
    protocol_name: str | None = field(None, since=5)
    assignments: list[SyncGroupRequestAssignment] = field()


class SyncGroupResponse(Message, api_key=14, versions=(0, 5), flexible=4):
    """The member's assignment."""

    throttle_time_ms: Int32 = field(since=1)
    error_code: Int16 = field()
    protocol_type: str | None = field(None, since=5)
    protocol_name: str | None = field(None, since=5)
    assignment: bytes = field()
