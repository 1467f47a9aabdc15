"""A follower's own place among the voters: it tells the leader what it is, or asks to be one (KIP-853, KIP-1186).

Each request is made again every ``controller.quorum.fetch.timeout.ms`` until the log says what it wants, so a lost
answer needs no care. Kafka's ``pollFollowerAsVoter`` and ``pollFollowerAsObserver`` do the same.
"""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChange,
    VoterChangeAnswer,
)
from stratalog.metadata.raft.states import Follower
from stratalog.metadata.raft.voter_set import Voter
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import ZERO_UUID

__all__ = ["ask_if_due", "on_change_answer"]


def ask_if_due(core: RaftCore) -> bool:
    """Send the leader what this node wants of the voters, if it is time; whether something was sent."""
    role = core.role
    assert isinstance(role, Follower)
    if core.now_ms < role.change_due_ms:
        return False
    core.role = replace(role, change_due_ms=core.now_ms + core.timeouts.fetch_ms)
    request = _wanted_change(core, role)
    if request is not None:
        core.send(role.leader_id, request, role.endpoints)
    return request is not None


def _wanted_change(core: RaftCore, role: Follower) -> VoterChange | None:
    """The change that would make the voters name this node as it is; None if they do, or need not."""
    identity, level = core.identity, core.log.kraft_version
    listed, mine = core.voters.voter(core.me.id), Voter(core.me, identity.endpoints, identity.kraft_versions)
    if core.me.directory_id == ZERO_UUID or not identity.endpoints:
        return None
    if core.is_voter and listed is not None:
        is_known = role.has_told if level == 0 else listed.is_same(mine)
        return None if is_known else UpdateVoterRequest(role.epoch, mine, identity.cluster_id)
    if level == 0 or not (identity.auto_join and identity.can_become_voter):
        return None
    if listed is not None:
        return RemoveVoterRequest(listed.key, identity.cluster_id)
    return AddVoterRequest(mine, ack_when_committed=False, cluster_id=identity.cluster_id)


def on_change_answer(core: RaftCore, request: VoterChange, answer: VoterChangeAnswer) -> None:
    """Note that the leader has heard. Answers to Add and Remove name no epoch, and an error is asked again later."""
    if answer.epoch >= 0 and core.heed(answer.epoch, answer.leader_id, answer.endpoints):
        return
    role = core.role
    is_heard = answer.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)
    if isinstance(request, UpdateVoterRequest) and isinstance(role, Follower) and is_heard:
        core.role = replace(role, has_told=True, deadline_ms=core.now_ms + core.timeouts.fetch_ms)
