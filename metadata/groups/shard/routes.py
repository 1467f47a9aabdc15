"""Where a shard sends requests that are not simply for a group that exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.classic.leave import leaving, left
from stratalog.metadata.groups.consumer.routes import ROUTES as CONSUMER_ROUTES
from stratalog.metadata.groups.consumer.routes import replay_consumer_record
from stratalog.metadata.groups.consumer.shard_groups import ShardGroups
from stratalog.metadata.groups.group import Group, GroupRequest, GroupType
from stratalog.metadata.groups.group_events import DeleteGroup, DescribeGroup
from stratalog.metadata.groups.offsets.requests import FetchOffsets
from stratalog.metadata.groups.shard.admin import describe
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from stratalog.wire.messages.describe_groups import DescribeGroupsResponse
from stratalog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from stratalog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from stratalog.wire.messages.leave_group import LeaveGroupRequest
from stratalog.wire.messages.offset_commit import OffsetCommitRequest
from stratalog.wire.messages.offset_delete import OffsetDeleteRequest
from stratalog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from stratalog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

__all__ = ["ROUTES", "is_unused", "replay_consumer_record", "serve_member"]


def is_unused(group: Group) -> bool:
    """Whether a group without offsets may be forgotten: it has no members and expects none."""
    try:
        group.check_delete()
    except KafkaError:
        return False
    return not (isinstance(group, ClassicGroup) and group.pending)


# -- members ----------------------------------------------------------------------------------------------------------


def serve_member(shard: ShardGroups, event: GroupRequest, now: Now) -> list[Action]:
    """A request of a member; one whose group is not there learns that it is no member."""
    group = shard.groups.get(event.group_id)
    if group is not None:
        return group.step(event, now)
    request = event.request
    code = ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(request, HeartbeatRequest):
        return [Reply(event.token, HeartbeatResponse(error_code=code))]
    if isinstance(request, SyncGroupRequest):
        return [Reply(event.token, SyncGroupResponse(error_code=code))]
    assert isinstance(request, LeaveGroupRequest), request
    gone = [(one, code) for one in leaving(request, event.api_version)]
    return [Reply(event.token, left(gone, event.api_version))]


def _join(shard: ShardGroups, event: GroupRequest, now: Now) -> list[Action]:
    """JoinGroup makes the group, for a member without an id; it takes the place of an empty one of the other kind."""
    group = shard.groups.get(event.group_id)
    if group is not None and (group.type is GroupType.CLASSIC or group.empty_since_ms is None):
        return group.step(event, now)
    request: JoinGroupRequest = event.request
    if request.member_id:
        response = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
        return [Reply(event.token, response)]
    fresh = ClassicGroup(event.group_id, shard.settings)
    actions = fresh.step(event, now)
    if not fresh.members.by_id and not fresh.pending:
        return actions
    if group is not None:
        actions.insert(0, Write(group.tombstones()))
    shard.put(fresh)
    return actions


# -- offsets ----------------------------------------------------------------------------------------------------------


def _commit(shard: ShardGroups, event: GroupRequest, now: Now) -> list[Action]:
    group = shard.groups.get(event.group_id)
    actions = shard.offsets.commit(group, event, now)
    if group is None:
        shard.keep_offsets(event.group_id)
    return actions


def _commit_in_transaction(shard: ShardGroups, event: GroupRequest, now: Now) -> list[Action]:
    group = shard.groups.get(event.group_id)
    actions = shard.offsets.commit_in_transaction(group, event, now, shard.image)
    if group is None:
        shard.keep_offsets(event.group_id)
    return actions


def _fetch(shard: ShardGroups, event: GroupRequest, _now: Now) -> list[Action]:
    return shard.offsets.fetch(shard.groups.get(event.group_id), event, shard.image)


def _delete_offsets(shard: ShardGroups, event: GroupRequest, _now: Now) -> list[Action]:
    return shard.offsets.delete(shard.groups.get(event.group_id), event)


# -- administrators ---------------------------------------------------------------------------------------------------


def _describe(shard: ShardGroups, event: GroupRequest, _now: Now) -> list[Action]:
    one = describe(event.group_id, shard.groups.get(event.group_id), event.api_version)
    return [Reply(event.token, DescribeGroupsResponse(groups=[one]), durable=True)]


def _delete(shard: ShardGroups, event: GroupRequest, _now: Now) -> list[Action]:
    """Delete a group without members, and its offsets."""
    group = shard.groups.get(event.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {event.group_id} not found.")
    group.check_delete()
    records = [*shard.offsets.delete_group(event.group_id), *group.tombstones()]
    shard.drop(event.group_id)
    done = DeleteGroupsResponse(results=[DeletableGroupResult(group_id=event.group_id)])
    return [Write(records, [Reply(event.token, done)], divisible=True)]


ROUTES: Final[dict[type[Any], Callable[[ShardGroups, GroupRequest, Now], list[Action]]]] = {
    JoinGroupRequest: _join,
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _commit_in_transaction,
    FetchOffsets: _fetch,
    OffsetDeleteRequest: _delete_offsets,
    DescribeGroup: _describe,
    DeleteGroup: _delete,
    **CONSUMER_ROUTES,
}
"""By the class of the request; any other is a member's."""
