"""JoinGroup (key 11): enter a classic group, or enter its next generation.

- 1: rebalance time-out beside the session time-out. 2: throttle time. 3: throttling comes after the answer (KIP-219).
- 4: a member without an id is given one and asks again (KIP-394). 5: static members (KIP-345). 6: flexible.
- 7: the protocol type is answered (KIP-559). 8: the reason of a member (KIP-800). 9: the answer may have the leader
  skip the assignment (KIP-814).
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, field

__all__ = ["JoinGroupRequest", "JoinGroupRequestProtocol", "JoinGroupResponse", "JoinGroupResponseMember"]


class JoinGroupRequestProtocol(Struct):
    """A protocol that the member can run, with its opaque subscription for it. The first is the one it likes best."""

    name: str
    metadata: bytes


class JoinGroupRequest(Message, api_key=11, versions=(0, 9), flexible=6):
    """The member that joins. Without ``rebalance_timeout_ms`` (-1) it is the session time-out."""

    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(-1, since=1)
    member_id: str
    group_instance_id: str | None = field(None, since=5)
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None = field(None, since=8)


class JoinGroupResponseMember(Struct):
    """A member, for the leader only: its subscription to the chosen protocol."""

    member_id: str
    group_instance_id: str | None = field(None, since=5)
    metadata: bytes


class JoinGroupResponse(Message, api_key=11, versions=(0, 9), flexible=6):
    """The generation that begins. The member whose id is ``leader`` is given all members and computes assignments."""

    throttle_time_ms: Int32 = field(since=2)
    error_code: Int16 = field()
    generation_id: Int32 = field(-1)
    protocol_type: str | None = field(None, since=7)
    protocol_name: str | None = field("", nullable_since=7)
    leader: str = field()
    skip_assignment: Bool = field(since=9)
    member_id: str = field()
    members: list[JoinGroupResponseMember] = field()
