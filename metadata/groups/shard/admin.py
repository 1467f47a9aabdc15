"""The administrators' requests: list, describe and delete groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.metadata.groups.group import Group
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from stratalog.wire.messages.list_groups import ListedGroup

__all__ = ["describe", "listed"]

_NOT_FOUND_SINCE: Final = 6


def listed(groups: Iterable[Group], states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
    """The groups in one of these states and of one of these types, in lower case; an empty set is no condition."""
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.type.value,
        )
        for group in groups
        if (not states or group.state.lower() in states) and (not types or group.type.value in types)
    ]


def describe(group_id: str, group: Group | None, api_version: int) -> DescribedGroup:
    """A classic group with its members; one that is not there, or is of the other kind, is dead or not found."""
    if not isinstance(group, ClassicGroup):
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if api_version >= _NOT_FOUND_SINCE:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            fault = "not found" if group is None else "is not a classic group"
            described.error_message = f"Group {group_id} {fault}."
        return described
    stable = group.phase is ClassicState.STABLE
    protocol = (group.protocol_name or "") if stable else ""
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.protocols[protocol] if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.by_id.values()
        ],
    )
