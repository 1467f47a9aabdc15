"""DeleteGroups (key 42): delete empty groups and their offsets (KIP-229).

- 1: throttling comes after the answer (KIP-219). 2: flexible.
"""

from __future__ import annotations

from stratalog.wire.schema import Int16, Int32, Message, Struct, field

__all__ = ["DeletableGroupResult", "DeleteGroupsRequest", "DeleteGroupsResponse"]


class DeleteGroupsRequest(Message, api_key=42, versions=(0, 2), flexible=2):
    """Which groups."""

    groups_names: list[str]


class DeletableGroupResult(Struct):
    """The outcome for one group."""

    group_id: str
    error_code: Int16 = field()


class DeleteGroupsResponse(Message, api_key=42, versions=(0, 2), flexible=2):
    """The outcome for each group."""

    throttle_time_ms: Int32 = field()
    results: list[DeletableGroupResult]
