"""ListGroups (key 16): the groups that a broker coordinates.

- 1: throttle time. 2: throttling comes after the answer (KIP-219). 3: flexible. 4: by states (KIP-518).
- 5: by types (KIP-848).
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = ["ListGroupsRequest", "ListGroupsResponse", "ListedGroup"]


class ListGroupsRequest(Message, api_key=16, versions=(0, 5), flexible=3):
    """Which groups: an empty filter is none."""

    states_filter: list[str] = field(since=4)
    types_filter: list[str] = field(since=5)


class ListedGroup(Struct):
    """One group."""

    group_id: str
    protocol_type: str
    group_state: str = field(since=4)
    group_type: str = field(since=5)


class ListGroupsResponse(Message, api_key=16, versions=(0, 5), flexible=3):
    """The groups; COORDINATOR_LOAD_IN_PROGRESS while some may be missing."""

    throttle_time_ms: Int32 = field(since=1)
    error_code: Int16 = field()
    groups: list[ListedGroup]
