"""A leader's answers to those who copy its log: Fetch and FetchSnapshot (KIP-595, KIP-630, KIP-1166)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stratalog.metadata.raft import leadership
from stratalog.metadata.raft.actions import ReplyWithSnapshot
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.messages import FetchAnswer, FetchRequest, FetchSnapshotAnswer, FetchSnapshotRequest
from stratalog.metadata.raft.replica_progress import OBSERVERS_MAX
from stratalog.metadata.raft.states import Leader, ParkedFetch
from stratalog.wire.errors import ErrorCode

__all__ = ["count_fetch", "leader_problem", "on_fetch", "on_fetch_snapshot"]


def leader_problem(core: RaftCore, cluster_id: str | None, epoch: int) -> ErrorCode:
    """Why a request that only the leader of its epoch may answer is refused, in Kafka's order; NONE if it is not."""
    if core.is_foreign(cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > core.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(core.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def on_fetch(core: RaftCore, token: Any, request: FetchRequest) -> None:
    """Answer with news, or park. The offset of a fetch is what its replica has: only here are replicas counted."""
    error = leader_problem(core, request.cluster_id, request.epoch)
    if error is ErrorCode.NONE and (not 0 <= request.last_epoch <= request.epoch or request.offset < 0):
        error = ErrorCode.INVALID_REQUEST
    if error is not ErrorCode.NONE:
        core.reply(token, core.fetch_error(error))
        return
    leadership.heard_from(core, request.replica)
    snapshot = core.log.snapshot_for(request.offset, request.last_epoch)
    diverging = None if snapshot else core.log.where_parts(request.offset, request.last_epoch)
    if snapshot is not None or diverging is not None:
        role = core.role
        assert isinstance(role, Leader)
        core.reply(
            token,
            FetchAnswer(
                ErrorCode.NONE,
                role.epoch,
                role.leader_id,
                core.identity.endpoints,
                role.high_watermark,
                diverging=diverging,
                snapshot=snapshot,
            ),
        )
        return
    count_fetch(core, request)
    leadership.advance(core)
    _answer_or_park(core, token, request)


def count_fetch(core: RaftCore, request: FetchRequest) -> None:
    """Note how far the replica is. The log below its offset is this leader's: that was compared before."""
    role = core.role
    assert isinstance(role, Leader)
    progress = role.progress.fetched(request.replica, request.offset, core.log.end_offset, core.now_ms)
    core.role = replace(role, progress=progress.bounded(core.voters))


def _answer_or_park(core: RaftCore, token: Any, request: FetchRequest) -> None:
    """Answer at once with records, with a higher high watermark, or if the asker does not wait."""
    role = core.role
    if not isinstance(role, Leader):  # the fetch has committed the leader's own removal
        core.reply(token, core.fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    leadership.answer_parked(core, tuple(each for each in role.parked if each.request.replica == request.replica))
    role = core.role
    assert isinstance(role, Leader)
    waits_ms = min(request.max_wait_ms, core.timeouts.fetch_wait_ms)
    parked = ParkedFetch(token, request, core.now_ms + waits_ms)
    core.role = replace(role, parked=(*role.parked, parked))
    has_news = core.log.end_offset > request.offset or role.high_watermark > request.high_watermark
    if has_news or waits_ms <= 0:
        leadership.answer_parked(core, (parked,))
    else:
        leadership.answer_parked(core, _surplus(core))


def _surplus(core: RaftCore) -> tuple[ParkedFetch, ...]:
    """The oldest parked fetches of observers above `OBSERVERS_MAX`: each holds memory here.

    They are answered without news and come again. Voters are few, and wait.
    """
    role = core.role
    assert isinstance(role, Leader)
    if len(role.parked) <= OBSERVERS_MAX:
        return ()
    waiting = [each for each in role.parked if not core.voters.has(each.request.replica)]
    return tuple(waiting[: max(0, len(waiting) - OBSERVERS_MAX)])


def on_fetch_snapshot(core: RaftCore, token: Any, request: FetchSnapshotRequest) -> None:
    """Answer with bytes of a snapshot; the driver has them."""
    error = leader_problem(core, request.cluster_id, request.epoch)
    if error is ErrorCode.NONE and request.snapshot not in core.log.snapshots:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    answer = FetchSnapshotAnswer(
        error, core.epoch, core.role.leader_id, core.leader_endpoints, request.snapshot, position=request.position
    )
    if error is not ErrorCode.NONE:
        core.reply(token, answer)
        return
    leadership.heard_from(core, request.replica)
    core.emit(ReplyWithSnapshot(token, answer, request.snapshot, request.position))
