"""Nodes of a quorum of three, driven by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.events import Answered, Event, Failed, Flushed, Received, Tick
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, EpochStart, LogView
from stratalog.metadata.raft.messages import BeginQuorumEpochRequest, FetchRequest, VoteAnswer, VoteRequest
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode


class Quorum:
    """Names, keys and logs of a quorum whose voters are 1, 2 and 3."""

    cluster_id = "cluster"

    @staticmethod
    def key(node_id: int, disk: int = 0) -> ReplicaKey:
        return ReplicaKey(node_id, bytes([node_id, disk]) * 8)

    @staticmethod
    def endpoints(node_id: int) -> tuple[Endpoint, ...]:
        return (Endpoint("CONTROLLER", f"node{node_id}", 9093),)

    def voter(self, node_id: int, disk: int = 0) -> Voter:
        return Voter(self.key(node_id, disk), self.endpoints(node_id))

    def voters(self, *ids: int) -> VoterSet:
        return VoterSet(tuple(self.voter(node_id) for node_id in ids or (1, 2, 3)))

    def log(self, *epochs: int, voters: VoterSet | None = None, flushed: int | None = None) -> LogView:
        """A log with one record of each of these epochs."""
        starts = [(epoch, at) for at, epoch in enumerate(epochs) if at == 0 or epochs[at - 1] != epoch]
        return LogView(
            end_offset=len(epochs),
            flushed_offset=len(epochs) if flushed is None else flushed,
            epochs=tuple(EpochStart(*start) for start in starts),
            voter_sets=((BEFORE_THE_LOG, self.voters() if voters is None else voters),),
            kraft_versions=((BEFORE_THE_LOG, 1),),
        )


class Driven:
    """A machine, its time, and the actions of its last step."""

    def __init__(self, raft: Raft) -> None:
        self.raft = raft
        self.now_ms = 0
        self.actions = raft.start(now_ms=0, jitter=0.0)

    def step(self, event: Event) -> list[act.Action]:
        self.actions = self.raft.step(event, now_ms=self.now_ms, jitter=0.0)
        return self.actions

    def wait(self, duration_ms: int | None = None) -> list[act.Action]:
        """Let time pass, by default until the machine's deadline."""
        if duration_ms is None:
            assert self.raft.deadline_ms is not None
            self.now_ms = self.raft.deadline_ms
        else:
            self.now_ms += duration_ms
        return self.step(Tick())

    def get(self, request, token="t") -> list[act.Action]:
        return self.step(Received(token, request))

    def reply(self, request):
        """The answer to a request that is answered at once."""
        self.get(request)
        return self.one(act.Reply).answer

    def all(self, kind: type) -> list:
        return [action for action in self.actions if isinstance(action, kind)]

    def one(self, kind: type):
        (found,) = self.all(kind)
        return found

    def sent(self, kind: type) -> dict:
        """Requests of a kind by peer, of the last step."""
        return {action.peer: action.request for action in self.all(act.Send) if isinstance(action.request, kind)}

    def answer(self, peer: int, request, answer) -> list[act.Action]:
        return self.step(Answered(peer, request, answer))

    def flush(self) -> list[act.Action]:
        """Do the sync that the last step has asked for."""
        asked = self.one(act.Flush)
        return self.step(Flushed(asked.end_offset, asked.truncations))

    def win(self) -> Driven:
        """Have a voter of three elected by 2, or by 1, with a pre-vote and a vote."""
        for _ in range(2):
            if not self.all(act.Send) or not self.sent(VoteRequest):
                self.wait()
            peer, request = next(iter(self.sent(VoteRequest).items()))
            self.answer(peer, request, VoteAnswer(ErrorCode.NONE, request.epoch, granted=True))
        return self

    def lead(self) -> Driven:
        """Elected, with the first record of the epoch committed by another voter's fetch."""
        self.win()
        self.flush()
        role = self.raft.role
        other = next(voter for voter in self.raft.log.voters if voter.key.id != role.leader_id)
        self.fetch(other.key)
        return self

    def fetch(
        self, replica: ReplicaKey, offset: int | None = None, last_epoch: int | None = None, **more
    ) -> list[act.Action]:
        """A fetch of this replica, by default at the end of the leader's log."""
        log = self.raft.log
        return self.get(
            FetchRequest(
                self.raft.role.epoch,
                replica,
                log.end_offset if offset is None else offset,
                log.last_epoch if last_epoch is None else last_epoch,
                **more,
            ),
            token=("fetch", replica.id),
        )

    def fail(self, peer: int, request) -> list[act.Action]:
        return self.step(Failed(peer, request))


@pytest.fixture
def quorum() -> Quorum:
    """Keys and logs of the quorum."""
    return Quorum()


@pytest.fixture
def node(quorum) -> Callable[..., Driven]:
    """Starts a node, by default voter 1 with an empty log and no stored state."""

    def start(
        node_id: int = 1, log: LogView | None = None, stored: QuorumState | None = None, *, disk: int = 0, **identity
    ) -> Driven:
        key = quorum.key(node_id, disk)
        identity = Identity(key, quorum.endpoints(node_id), quorum.cluster_id, **identity)
        log = quorum.log() if log is None else log
        if stored is None and log.last_epoch:
            stored = QuorumState(leader_epoch=log.last_epoch, data_version=1)
        return Driven(Raft(identity, log, stored))

    return start


@pytest.fixture
def follower(quorum, node) -> Callable[..., Driven]:
    """Starts voter 1 as a follower of 2, by default in epoch 1."""

    def start(*epochs: int, epoch: int = 1, **more) -> Driven:
        driven = node(log=quorum.log(*epochs), **more)
        driven.get(BeginQuorumEpochRequest(epoch, 2, quorum.key(1), quorum.endpoints(2)))
        return driven

    return start
