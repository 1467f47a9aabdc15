"""The figures of the metadata log have Kafka's names."""

from types import SimpleNamespace

import pytest

from stratalog.broker.control.raft_metrics import add_applied_metrics, add_raft_metrics, state_name, vote_of
from stratalog.broker.quorum.raft_figures import RaftFigures
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.raft.messages import BeginQuorumEpochRequest, VoteRequest
from tests.metadata.raft.conftest import follower, node, quorum

__all__ = ["follower", "node", "quorum"]

CLOCK = SimpleNamespace(monotonic=lambda: 10.0, wall_ms=lambda: 5_000)


def shown(metrics, start):
    lines = metrics.render().decode().splitlines()
    rows = [line.removeprefix(start).split() for line in lines if line.startswith(start)]
    return {name: float(value) for name, value in rows}


@pytest.fixture
def figures_of():
    """Gives the figures of a machine in /metrics."""

    def show(driven, node_id=1):
        figures = RaftFigures()
        if driven is not None:
            figures.observe(None, [], driven.raft, 0)
        metrics = Metrics()
        add_raft_metrics(metrics, SimpleNamespace(node_id=node_id, figures=figures), CLOCK)
        return shown(metrics, "kafka_server_raftmetrics_")

    return show


def test_a_leader_shows_the_whole_quorum(node, quorum, figures_of):
    """Voters, observers, the high watermark, whether a change of the voters is under way."""
    leader = node().lead()
    leader.fetch(quorum.key(7))
    assert figures_of(leader) == {
        'current_state{current_state="leader"}': 1,
        "current_leader": 1,
        "current_vote": 1,
        "current_epoch": 1,
        "high_watermark": 3,
        "log_end_offset": 3,
        "log_end_epoch": 1,
        "number_unknown_voter_connections": 0,
        "number_of_voters": 3,
        "number_of_observers": 1,
        "uncommitted_voter_change": 0,
        "fetch_records_rate": 0,
        "append_records_rate": 0,
        "poll_idle_ratio_avg": 1,
    }


def test_a_follower_shows_what_it_knows(follower, figures_of):
    """Observers and changes are the leader's."""
    found = figures_of(follower(1, 1))
    assert found['current_state{current_state="follower"}'] == 1
    assert (found["current_leader"], found["current_vote"], found["log_end_offset"]) == (2, -1, 2)
    assert not {"number_of_observers", "uncommitted_voter_change", "commit_latency_avg"} & found.keys()


def test_before_it_begins_there_is_no_state(figures_of):
    """Rates are 0."""
    assert figures_of(None) == {"fetch_records_rate": 0, "append_records_rate": 0, "poll_idle_ratio_avg": 1}


def test_states_and_votes_have_kafkas_words(node, quorum):
    """A node that follows without a vote is an observer."""
    one = node()
    assert (state_name(one.raft), vote_of(one.raft, 1)) == ("unattached", -1)
    one.wait()
    assert (state_name(one.raft), vote_of(one.raft, 1)) == ("prospective", -1)
    voter = node()
    voter.get(VoteRequest(3, quorum.key(2), quorum.key(1), 0, 0, False, quorum.cluster_id))
    assert (state_name(voter.raft), vote_of(voter.raft, 1)) == ("unattached-voted", 2)
    observer = node(7)
    observer.get(BeginQuorumEpochRequest(1, 2, quorum.key(7), quorum.endpoints(2)))
    assert state_name(observer.raft) == "observer"


def test_a_broker_shows_its_image():
    """The age is that of the last record, and 0 before there is one."""
    applied = SimpleNamespace(image=EMPTY_IMAGE, load_errors=0, apply_errors=0)
    metrics = Metrics()
    add_applied_metrics(metrics, applied, CLOCK)
    start = "kafka_server_brokermetadatametrics_"
    assert shown(metrics, start)["last_applied_record_lag_ms"] == 0
    applied.image = EMPTY_IMAGE.apply([], Provenance(41, 3, 4_200))
    applied.load_errors, applied.apply_errors = 2, 1
    assert shown(metrics, start) == {
        "last_applied_record_offset": 41,
        "last_applied_record_timestamp": 4200,
        "last_applied_record_lag_ms": 800,
        "metadata_load_error_count": 2,
        "metadata_apply_error_count": 1,
    }
