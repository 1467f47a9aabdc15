"""A follower's, and an observer's, way to the leader's log: fetch, append, truncate, or begin with a snapshot."""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.metadata.raft import membership
from stratalog.metadata.raft.actions import BOOTSTRAP, LoadSnapshot, WriteSnapshotChunk
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.events import SnapshotLoaded
from stratalog.metadata.raft.messages import (
    Batch,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    OffsetAndEpoch,
)
from stratalog.metadata.raft.states import Follower, SnapshotFetch
from stratalog.wire.errors import ErrorCode

__all__ = [
    "ask_any",
    "may_fetch",
    "on_fetch_answer",
    "on_fetch_failed",
    "on_fetch_snapshot_answer",
    "on_snapshot_loaded",
    "poll_follower",
    "truncate_to",
]


def ask_any(core: RaftCore) -> None:
    """Fetch from any server: its answer names the leader. It may be the leader itself, which counts the fetch."""
    if core.syncs:
        core.request_flush()
    if core.may_send(BOOTSTRAP) and may_fetch(core):
        core.send(BOOTSTRAP, _fetch(core))


def may_fetch(core: RaftCore) -> bool:
    """Whether a fetch may say where the log ends: what counts for commits, now or later, has to be on disk."""
    return not core.syncs or core.log.flushed_offset >= core.log.end_offset


def _fetch(core: RaftCore) -> FetchRequest:
    """A fetch from the log end."""
    return FetchRequest(
        core.epoch,
        core.me,
        core.log.end_offset,
        core.log.last_epoch,
        core.high_watermark,
        core.timeouts.fetch_wait_ms,
        core.identity.cluster_id,
    )


def poll_follower(core: RaftCore) -> None:
    """Sync, then fetch; without the leader's answers a voter stands, an observer asks the bootstrap servers."""
    role = core.role
    assert isinstance(role, Follower)
    if core.syncs:
        core.request_flush()
    if core.is_loading:
        return
    if core.now_ms >= role.deadline_ms:
        if core.may_stand:
            core.stand()
            return
        # The others may count this node as a voter by a record that it lacks, and need its pre-vote.
        again_ms = core.now_ms + core.timeouts.ask_again_ms
        role = core.role = replace(role, lost=True, has_fetched=False, deadline_ms=again_ms)
    if role.lost and not core.may_stand:
        ask_any(core)
    elif core.may_send(role.leader_id) and not membership.ask_if_due(core) and may_fetch(core):
        fetching = role.snapshot
        if fetching is None:
            core.send(role.leader_id, _fetch(core), role.endpoints)
        else:
            request = FetchSnapshotRequest(
                role.epoch, core.me, fetching.snapshot, fetching.position, core.identity.cluster_id
            )
            core.send(role.leader_id, request, role.endpoints)


def _in_touch(core: RaftCore) -> None:
    """The leader has answered well. An answer from before it gave up may come after the word that it does."""
    role = core.role
    if isinstance(role, Follower) and not role.has_ended:
        deadline = core.follower_deadline_ms(role.leader_id)
        core.role = replace(role, deadline_ms=deadline, has_fetched=True, lost=False)


def on_fetch_failed(core: RaftCore, peer: int, *, refused: bool = False) -> None:
    """A fetch has no answer: an observer asks elsewhere the next time.

    If the host refuses the connection, the leader's process is gone: a voter stands soon, and grants pre-votes. Others that
    still hear the leader grant none, so nothing comes of it if only this node cannot reach it. Once for each leader that
    was heard of: a node that lost the pre-vote waits its time.
    """
    core.back_off(peer)
    role = core.role
    if not isinstance(role, Follower):
        return
    if not core.may_stand:
        core.role = replace(role, lost=peer == role.leader_id)
    elif refused and peer == role.leader_id and role.has_fetched:
        place, _ = core.place_behind(peer)
        stands_ms = core.now_ms + core.timeouts.refused_backoff_ms(place)
        core.role = replace(role, has_fetched=False, deadline_ms=min(role.deadline_ms, stands_ms))


def on_fetch_answer(core: RaftCore, peer: int, request: FetchRequest, answer: FetchAnswer) -> None:
    """Take over what the leader has. The request was sent from the log's end, which no other answer has moved.

    A follower that asks any server may have a snapshot under way by another answer. One that is being loaded takes the place of
    the log: nothing is added to that any more. One that is still being fetched is given up for records, which go on from here.
    """
    if core.heed(answer.epoch, answer.leader_id, answer.endpoints):
        return
    role = core.role
    if answer.error is not ErrorCode.NONE or not isinstance(role, Follower):
        on_fetch_failed(core, peer)
        return
    if core.is_loading or request.offset != core.log.end_offset:
        return
    _in_touch(core)
    if answer.snapshot is not None and answer.diverging is None:
        _begin_snapshot(core, peer, answer.snapshot)
        return
    core.role = replace(core.role, snapshot=None)
    if answer.diverging is not None:
        truncate_to(core, answer.diverging)
    else:
        _append(core, answer.batches)
        core.commit(min(answer.high_watermark, core.log.end_offset))


def _append(core: RaftCore, batches: tuple[Batch, ...]) -> None:
    """Append the batches of epochs up to the leader's own; a later one cannot come from it."""
    legal = []
    for batch in batches:
        if batch.epoch > core.epoch:
            break
        legal.append(batch)
    if legal:
        core.append(tuple(legal))


def truncate_to(core: RaftCore, parting: OffsetAndEpoch) -> None:
    """Drop what the leader's log does not have: behind its end of that epoch, or behind this log's own."""
    own = core.log.end_of(parting.epoch)
    core.truncate(min(own.offset, parting.offset) if own.epoch == parting.epoch else own.offset)


def _begin_snapshot(core: RaftCore, peer: int, snapshot: OffsetAndEpoch) -> None:
    """Fetch a snapshot from its first byte, or go on with it. One that ends below the committed records has nothing to give."""
    role = core.role
    if isinstance(role, Follower) and role.snapshot is not None and role.snapshot.snapshot == snapshot:
        return
    if isinstance(role, Follower) and snapshot.offset > core.high_watermark:
        core.role = replace(role, snapshot=SnapshotFetch(snapshot))
    else:
        core.back_off(peer)


def on_fetch_snapshot_answer(
    core: RaftCore, peer: int, request: FetchSnapshotRequest, answer: FetchSnapshotAnswer
) -> None:
    """Keep bytes of the leader's snapshot. After any error the log is fetched again, which names a newer snapshot."""
    if core.heed(answer.epoch, answer.leader_id, answer.endpoints):
        return
    role = core.role
    if not isinstance(role, Follower) or role.snapshot is None:
        return
    fetching = role.snapshot
    if request.snapshot != fetching.snapshot:
        return  # its bytes are of another file, and may have the position that is asked for now
    fits = (answer.snapshot, answer.position) == (request.snapshot, request.position)
    fits &= bool(answer.data) or request.position >= answer.size  # without bytes it would be asked for ever
    if answer.error is not ErrorCode.NONE or not fits or request.position != fetching.position:
        core.back_off(peer)
        core.role = replace(role, snapshot=None)
        return
    position = fetching.position + len(answer.data)
    core.emit(WriteSnapshotChunk(fetching.snapshot, fetching.position, answer.data))
    core.role = replace(role, snapshot=SnapshotFetch(fetching.snapshot, position))
    _in_touch(core)
    if position >= answer.size:
        core.is_loading = True
        core.emit(LoadSnapshot(fetching.snapshot))


def on_snapshot_loaded(core: RaftCore, event: SnapshotLoaded) -> None:
    """Go on behind the snapshot, which is on disk in place of the log."""
    core.log = core.log.restarted_at(event.snapshot, event.voters, event.kraft_version)
    core.is_loading = False
    core.truncations += 1
    core.sync_asked = core.log.flushed_offset
    core.store()
    core.commit(event.snapshot.offset)
    role = core.role
    if isinstance(role, Follower):
        core.role = replace(role, snapshot=None)
        _in_touch(core)
