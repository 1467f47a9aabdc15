"""The way from static voters, ``kraft.version`` 0, to voters that change, 1 (KIP-853, Kafka 4.1).

The settings name static voters by id alone; a record names them by directory too, with all their endpoints. Each voter
tells that to the leader by UpdateRaftVoter, once in each epoch, and the leader keeps it in memory.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from stratalog.metadata.raft import leadership, reconfiguration
from stratalog.metadata.raft.actions import Accepted, Refused
from stratalog.metadata.raft.core import RaftCore
from stratalog.metadata.raft.events import UpgradeProposed
from stratalog.metadata.raft.messages import Batch, KRaftVersion, UpdateVoterRequest, Voters
from stratalog.metadata.raft.states import Leader
from stratalog.metadata.raft.voter_set import Voter, VoterSet
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["on_static_update", "on_upgrade", "upgraded_voters"]

_NEWEST: Final = 1


def on_static_update(core: RaftCore, token: Any, request: UpdateVoterRequest) -> None:
    """Keep what a static voter says of itself, or refuse it with Kafka's error."""
    voter = request.voter
    try:
        reconfiguration.check_leads(core, request)
        reconfiguration.check_voter(voter)
        if voter.key.id not in core.voters.ids:
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"node {voter.key.id} is not in controller.quorum.voters")
    except KafkaError as refusal:
        core.reply(token, core.change_answer(refusal.code, refusal.message or ""))
        return
    leadership.heard_from(core, voter.key)
    role = core.role
    assert isinstance(role, Leader)
    others = (each for each in role.told if each.key.id != voter.key.id)
    core.role = replace(role, told=tuple(sorted((*others, voter), key=lambda each: each.key.id)))
    core.reply(token, core.change_answer(ErrorCode.NONE))


def on_upgrade(core: RaftCore, event: UpgradeProposed) -> None:
    """Append the level and the voters as one batch, in the epoch in which the controller has decided it."""
    role, log = core.role, core.log
    if not isinstance(role, Leader) or not role.is_active or role.epoch != event.epoch:
        core.emit(
            Refused(event.token, ErrorCode.NOT_LEADER_OR_FOLLOWER, "only the active controller changes kraft.version")
        )
        return
    if event.level == log.kraft_version:
        end = log.kraft_versions[-1][0] + 1 if log.kraft_versions else 0
        core.emit(Accepted(event.token, end, end))
        return
    try:
        voters = upgraded_voters(core, role, event.level)
    except KafkaError as refusal:
        core.emit(Refused(event.token, refusal.code, refusal.message or ""))
        return
    start = log.end_offset
    if event.validate_only:
        core.emit(Accepted(event.token, role.high_watermark, role.high_watermark))
        return
    control = (KRaftVersion(event.level), Voters(voters))
    core.append((Batch(start, start + len(control), role.epoch, control),))
    core.emit(Accepted(event.token, start, start + len(control)))
    leadership.answer_parked(core, role.parked)


def upgraded_voters(core: RaftCore, role: Leader, level: int) -> VoterSet:
    """The static voters with all that a record has of them. Raises `KafkaError` INVALID_UPDATE_VERSION."""
    has = core.log.kraft_version
    if level < has:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot be lowered from {has} to {level}")
    if level > _NEWEST:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version {level} is not known; the newest is {_NEWEST}"
        )
    mine = Voter(core.me, core.identity.endpoints, core.identity.kraft_versions)
    described = {each.key.id: each for each in (*role.told, mine)}
    silent = sorted(core.voters.ids - described.keys())
    if silent:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"kraft.version cannot be raised to {level}: the leader does not know the directory ids of voters {silent} "
            f"yet. Each running voter tells it {core.timeouts.fetch_ms} ms after an election; try again then",
        )
    voters = VoterSet(tuple(described[node_id] for node_id in sorted(core.voters.ids)))
    older = [voter.key.id for voter in voters if not voter.can_run(level)]
    if older:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"kraft.version cannot be raised to {level}: voters {older} cannot run it. Upgrade them first",
        )
    return voters
