"""The effects of time on a classic group: sessions end, ids expire, phases of a rebalance are cut off."""

from __future__ import annotations

from stratalog.metadata.coordination import Action, Now
from stratalog.metadata.groups.classic.core import NEVER_MS, ClassicCore
from stratalog.metadata.groups.classic.rebalance import complete_join, join_time_is_up, prepare_rebalance
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.wire.errors import ErrorCode

__all__ = ["time_has_come"]


def time_has_come(core: ClassicCore, now: Now) -> list[Action]:
    """See what is due, and when to look again."""
    actions: list[Action] = []
    if core.join_ends_ms <= now.monotonic_ms:
        join_time_is_up(core, now, actions)
    if core.sync_ends_ms <= now.monotonic_ms:
        _sync_time_is_up(core, now, actions)
    _expire_pending(core, now, actions)
    _expire_sessions(core, now, actions)
    core.wake_ms = _earliest(core)
    return actions


def _sync_time_is_up(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """Members that have never asked for their assignment are gone."""
    core.sync_ends_ms = NEVER_MS
    late = [core.members.by_id[member_id] for member_id in sorted(core.pending_sync)]
    for member in late:
        core.remove(member, actions, ErrorCode.UNKNOWN_MEMBER_ID)
    if late:
        prepare_rebalance(core, now, actions)


def _expire_pending(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """Ids that were given out and never used."""
    expired = [member_id for member_id, ends_ms in core.pending.items() if ends_ms <= now.monotonic_ms]
    for member_id in expired:
        del core.pending[member_id]
    if expired:
        _complete(core, now, actions)


def _expire_sessions(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """Members that have not been heard of for as long as they said."""
    for member in list(core.members.by_id.values()):
        if member.session_ends_ms > now.monotonic_ms or not member.session_runs:
            continue
        if member.member_id not in core.members.by_id:
            continue  # removed by what an earlier one has set off
        core.sessions_expired += 1
        core.remove(member, actions, ErrorCode.UNKNOWN_MEMBER_ID)
        if core.phase is ClassicState.PREPARING_REBALANCE:
            _complete(core, now, actions)
        else:
            prepare_rebalance(core, now, actions)


def _complete(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """A member that was waited for is gone: the rest goes on, also from an initial rebalance."""
    if core.phase is ClassicState.PREPARING_REBALANCE and core.all_joined:
        complete_join(core, now, actions)


def _earliest(core: ClassicCore) -> int:
    moments = [core.join_ends_ms, core.sync_ends_ms, *core.pending.values()]
    moments += [member.session_ends_ms for member in core.members.by_id.values() if member.session_runs]
    return min(moments)
