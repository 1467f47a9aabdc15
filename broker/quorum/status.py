"""The quorum as its leader sees it, for those who ask how it is."""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.broker.quorum.leadership import UNKNOWN_TIME_MS, LeaderAndEpoch, QuorumStatus, ReplicaStatus
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.states import Leader
from stratalog.metadata.raft.voter_set import ReplicaKey
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["status_of"]


def status_of(raft: Raft, me: ReplicaKey, *, wall_ms: int, now_ms: int) -> QuorumStatus:
    """All replicas, and how far they are. ``now_ms`` is the machine's time, ``wall_ms`` the same moment for people.

    Raises `KafkaError` NOT_LEADER_OR_FOLLOWER where this node does not lead.
    """
    role, voters = raft.role, raft.log.voters
    if not isinstance(role, Leader):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the metadata log")

    def at(machine_ms: int) -> int:
        return UNKNOWN_TIME_MS if machine_ms < 0 else wall_ms - (now_ms - machine_ms)

    own = ReplicaStatus(me, raft.log.end_offset, wall_ms, wall_ms, voters.endpoints_of(me.id))
    rows = []
    for voter in voters:
        if voter.key.matches(me):
            rows.append(replace(own, key=voter.key))
            continue
        known = role.progress.of(voter.key)
        rows.append(
            ReplicaStatus(voter.key, known.end_offset, at(known.fetched_ms), at(known.caught_up_ms), voter.endpoints)
        )
    observers = (
        ReplicaStatus(one.key, one.end_offset, at(one.fetched_ms), at(one.caught_up_ms))
        for one in role.progress.replicas
        if not voters.has(one.key)
    )
    return QuorumStatus(LeaderAndEpoch(*raft.leader), role.high_watermark, tuple(rows), tuple(observers))
