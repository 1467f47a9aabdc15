"""The figures of a replica, from the events and actions of its machine."""

import pytest

from stratalog.broker.quorum.raft_figures import RaftFigures
from stratalog.metadata.raft.events import Proposed
from stratalog.metadata.raft.messages import Batch, FetchAnswer, FetchRequest
from stratalog.wire.errors import ErrorCode
from tests.metadata.raft.conftest import Driven, follower, node, quorum

__all__ = ["follower", "node", "quorum"]


class Watched(Driven):
    """A machine whose steps are observed."""

    def __init__(self, driven):
        self.figures = RaftFigures()
        self.raft, self.now_ms, self.actions = driven.raft, driven.now_ms, driven.actions
        self.figures.observe(None, self.actions, self.raft, self.now_ms)

    def step(self, event):
        actions = super().step(event)
        self.figures.observe(event, actions, self.raft, self.now_ms)
        return actions


@pytest.fixture
def watched(node):
    """Voter 1 of three."""
    return Watched(node())


def test_an_election_lasts_from_the_first_ask_to_a_leader(watched):
    """Pre-votes are part of it."""
    watched.wait()
    begun_ms = watched.now_ms
    watched.now_ms += 40
    watched.win()
    assert watched.figures.election_ms.average(watched.now_ms) == watched.now_ms - begun_ms == 40
    assert watched.figures.election_ms.maximum(watched.now_ms) == 40


def test_a_leaders_records_are_counted_and_their_commit_is_timed(watched, quorum):
    """By record; those of an epoch that is over are not waited for."""
    watched.lead()
    figures = watched.figures
    assert figures.appended.per_second(watched.now_ms) == 0.0
    watched.step(Proposed("token", watched.raft.role.epoch, 4, b"data"))
    watched.now_ms += 20
    assert figures.commit_ms.average(watched.now_ms) is None
    watched.flush()
    watched.fetch(quorum.key(2))
    assert figures.commit_ms.average(watched.now_ms) == 5.0
    assert figures.appended.per_second(watched.now_ms) == pytest.approx(4 / 30.02)
    watched.step(Proposed("later", watched.raft.role.epoch, 1, b"data"))
    for _ in range(4):
        watched.wait()
    assert not figures._uncommitted


def test_a_followers_records_are_counted(follower):
    """Those of batches that were taken over."""
    driven = follower()
    ((peer, request),) = driven.sent(FetchRequest).items()
    watched = Watched(driven)
    batches = (Batch(0, 1, 1, data=b"a"), Batch(1, 6, 1, data=b"b"))
    watched.answer(peer, request, FetchAnswer(ErrorCode.NONE, 1, 2, high_watermark=0, batches=batches))
    assert watched.figures.fetched.per_second(watched.now_ms) == pytest.approx(6 / 30)


def test_idle_is_what_is_not_work():
    """Half a minute of work in a minute leaves half."""
    figures = RaftFigures()
    assert figures.idle_ratio(0) == 1.0
    figures.busy(3.0, 0)
    assert figures.idle_ratio(30_000) == pytest.approx(0.9)
    figures.busy(100.0, 30_000)
    assert figures.idle_ratio(30_000) == 0.0
