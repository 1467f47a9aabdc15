"""DescribeGroups (key 15): state and members of classic groups.

- 1: throttle time. 2: throttling comes after the answer (KIP-219). 3: authorized operations (KIP-430).
- 4: instance ids (KIP-345). 5: flexible. 6: GROUP_ID_NOT_FOUND instead of a dead group, and messages (KIP-1043).
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.schema import Bool, Int16, Int32, Message, Struct, field

__all__ = ["DescribeGroupsRequest", "DescribeGroupsResponse", "DescribedGroup", "DescribedGroupMember"]

_NOT_ASKED: Final = -(1 << 31)


class DescribeGroupsRequest(Message, api_key=15, versions=(0, 6), flexible=5):
    """Which groups."""

    groups: list[str]
    include_authorized_operations: Bool = field(since=3)


class DescribedGroupMember(Struct):
    """A member; its subscription and assignment only while the group is stable."""

    member_id: str
    group_instance_id: str | None = field(None, since=4)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Struct):
    """A group. ``protocol_data`` is the name of its protocol while it is stable."""

    error_code: Int16 = field()
    error_message: str | None = field(None, since=6)
    group_id: str
    group_state: str = field()
    protocol_type: str = field()
    protocol_data: str = field()
    members: list[DescribedGroupMember] = field()
    authorized_operations: Int32 = field(_NOT_ASKED, since=3)


class DescribeGroupsResponse(Message, api_key=15, versions=(0, 6), flexible=5):
    """The groups in the order asked for."""

    throttle_time_ms: Int32 = field(since=1)
    groups: list[DescribedGroup]
