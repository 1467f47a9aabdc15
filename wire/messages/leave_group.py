"""LeaveGroup (key 13): members leave a classic group at once, instead of by their session time-out.

- 0 to 2: one member by its id. 1: throttle time. 2: throttling comes after the answer (KIP-219).
- 3: many members, static ones by their instance id (KIP-345). 4: flexible. 5: the reason of each (KIP-800).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = ["LeaveGroupRequest", "LeaveGroupResponse", "MemberIdentity", "MemberResponse"]


class MemberIdentity(Struct):
    """A member that leaves; with an instance id the member id may be empty."""

    member_id: str
    group_instance_id: str | None = field(None)
    reason: str | None = field(None, since=5)


class LeaveGroupRequest(Message, api_key=13, versions=(0, 5), flexible=4):
    """The members that leave."""

    group_id: str
    member_id: str = field(until=2)
    members: list[MemberIdentity] = field(since=3)


class MemberResponse(Struct):
    """The outcome for one member."""

    member_id: str
    group_instance_id: str | None
    error_code: Int16 = field()


class LeaveGroupResponse(Message, api_key=13, versions=(0, 5), flexible=4):
    """The outcome for each member; in versions 0 to 2 ``error_code`` is that of the one member."""

    throttle_time_ms: Int32 = field(since=1)
    error_code: Int16 = field()
    members: list[MemberResponse] = field(since=3)
