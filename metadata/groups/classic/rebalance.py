"""How a classic group turns from one generation to the next.

A rebalance asks every member to join again and waits for those that are slow, at most for the longest rebalance
time-out among them. The first one of an empty group is put off instead, so that members which start together meet in one
generation (KIP-134).
"""

from __future__ import annotations

from stratalog.metadata.coordination import Action, Now, Reply, Write
from stratalog.metadata.groups.classic.core import NEVER_MS, ClassicCore
from stratalog.metadata.groups.classic.state import ClassicState
from stratalog.wire.errors import ErrorCode

__all__ = [
    "complete_join",
    "complete_join_if_all_joined",
    "join_time_is_up",
    "prepare_rebalance",
    "rebalance_or_complete",
]


def rebalance_or_complete(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """The membership has changed: begin a rebalance, or if one is under way see whether it can be completed."""
    if core.phase is ClassicState.PREPARING_REBALANCE:
        complete_join_if_all_joined(core, now, actions)
    else:
        prepare_rebalance(core, now, actions)


def prepare_rebalance(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """Begin a rebalance; members learn of it by their heartbeats, those that wait for assignments at once."""
    if core.phase is ClassicState.COMPLETING_REBALANCE:
        for member in core.members.by_id.values():
            core.members.assign(member, b"")
            if member.sync_token is not None:
                core.refuse_sync(member, actions, ErrorCode.REBALANCE_IN_PROGRESS)
                core.begin_session(member, now)
    core.pending_sync.clear()
    core.sync_ends_ms = NEVER_MS
    core.is_initial = core.phase is ClassicState.EMPTY
    core.transition(ClassicState.PREPARING_REBALANCE, now)
    if core.is_initial:
        core.newcomer = False
        core.initial_delay_ms = core.settings.initial_rebalance_delay_ms
        core.initial_remaining_ms = max(core.members.rebalance_timeout_ms - core.initial_delay_ms, 0)
        core.wait_for_joins(now, core.initial_delay_ms)
    elif core.all_joined:
        complete_join(core, now, actions)
    else:
        core.wait_for_joins(now, core.members.rebalance_timeout_ms)


def complete_join_if_all_joined(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """Complete the join phase if no member is missing; an initial one waits for its time all the same."""
    if core.phase is ClassicState.PREPARING_REBALANCE and core.all_joined and not core.is_initial:
        complete_join(core, now, actions)


def join_time_is_up(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """The time for joining is over; that of an initial rebalance is extended once more for every newcomer."""
    if core.is_initial and core.newcomer and core.initial_remaining_ms:
        core.newcomer = False
        elapsed_ms = core.initial_delay_ms
        core.initial_delay_ms = min(core.settings.initial_rebalance_delay_ms, core.initial_remaining_ms)
        core.initial_remaining_ms = max(core.initial_remaining_ms - elapsed_ms, 0)
        core.wait_for_joins(now, core.initial_delay_ms)
    else:
        complete_join(core, now, actions)


def complete_join(core: ClassicCore, now: Now, actions: list[Action]) -> None:
    """Begin the next generation with those that have joined, and with static members whose sessions have not ended."""
    core.join_ends_ms = NEVER_MS
    members = core.members
    for member in [one for one in members.by_id.values() if one.join_token is None and one.instance_id is None]:
        core.remove(member, actions, ErrorCode.UNKNOWN_MEMBER_ID)
    if members.by_id and not members.elect_joined_leader():
        core.wait_for_joins(now, members.rebalance_timeout_ms)
        return
    core.is_initial = False
    core.next_generation(now)
    if core.phase is ClassicState.EMPTY:
        actions.append(Write([core.record()]))
        return
    for member in members.by_id.values():
        member.is_new = False
        token = members.take_join(member)
        if token is not None:
            actions.append(Reply(token, core.joined(member.member_id)))
        core.begin_session(member, now)
        core.pending_sync.add(member.member_id)
    core.wait_for_syncs(now)
