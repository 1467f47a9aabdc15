"""The place of a node in the quorum, from its settings and its directories."""

from functools import partial
from types import SimpleNamespace

import pytest

from stratalog.broker.joinable import joinable
from stratalog.broker.quorum.batches import control_batch, data_batch
from stratalog.broker.quorum.metadata_log import METADATA_LOG_CONFIG, log_view_steps
from stratalog.broker.quorum.opening import (
    QuorumPlace,
    _check_only_voter,
    _look,
    _view,
    _way_back,
    quorum_timeouts,
    static_voters,
)
from stratalog.broker.quorum.publishing import Publisher
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.quorum.wire.metadata_topic import METADATA_PARTITION, METADATA_TOPIC_ID
from stratalog.broker.settings.config import load_config
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.initial_voters import InitialVoter, quorum_of
from stratalog.metadata.image.snapshot import SnapshotId, snapshot_name
from stratalog.metadata.quorum.checkpoint import STATIC_QUORUM, build_checkpoint
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.messages import Batch, OffsetAndEpoch, Voters
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import Invalid

MINE = b"d" * 16
BOTH = (
    "process.roles=broker,controller",
    "listeners=PLAINTEXT://:9092,CONTROLLER://a:9093",
    "controller.listener.names=CONTROLLER",
)


def place(*assignments, endpoints=()):
    """The place of node 1 with these settings."""
    roles = joinable(load_config(assignments=["node.id=1", "log.dirs=/d", *assignments]), lambda: "here").roles
    home = SimpleNamespace(directory_id=MINE, path="/data")
    return QuorumPlace(home=home, roles=roles, cluster_id="c", endpoints=endpoints)


def test_a_node_whose_settings_name_no_other_votes_for_itself():
    """Also with its own address as the one bootstrap server; another address is another node."""
    at = (Endpoint("CONTROLLER", "a", 9093),)
    assert static_voters(place()).ids == {1}
    assert static_voters(place(*BOTH, "controller.quorum.bootstrap.servers=a:9093", endpoints=at)).ids == {1}
    for itself in ("localhost:9093", "127.0.0.1:9093", "here:9093"):
        more = ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", f"controller.quorum.bootstrap.servers={itself}")
        assert static_voters(place(*BOTH, *more, endpoints=at)).ids == {1}
    elsewhere = place(*BOTH, "controller.quorum.bootstrap.servers=b:9093", endpoints=at)
    assert not elsewhere.is_alone
    assert not static_voters(elsewhere).voters


def test_listed_voters_are_known_by_id_and_address_before_any_record_names_them():
    """Their directories are not."""
    voters = static_voters(place(*BOTH, "controller.quorum.voters=2@b:9093,1@a:9093"))
    assert [(one.key.id, one.key.directory_id, one.endpoints) for one in voters] == [
        (1, bytes(16), (Endpoint("CONTROLLER", "a", 9093),)),
        (2, bytes(16), (Endpoint("CONTROLLER", "b", 9093),)),
    ]


def test_a_log_of_other_voters_is_refused():
    """A node that elects itself would be a second leader in a quorum of several."""

    def quorum(*voters):
        return quorum_of([InitialVoter(one, "a", 9093, directory) for one, directory in voters], "CONTROLLER")

    for allowed in (STATIC_QUORUM, quorum(), quorum((1, MINE))):
        _check_only_voter(place(), allowed)
    with pytest.raises(Invalid, match="/data belongs to a quorum with the voters 2, 3 beside this node"):
        _check_only_voter(place(), quorum((1, MINE), (3, MINE), (2, MINE)))
    with pytest.raises(Invalid, match="names the directory ZWVlZWVlZWVlZWVlZWVlZQ as that of node 1"):
        _check_only_voter(place(), quorum((1, b"e" * 16)))


def test_times_are_those_of_the_settings():
    """By Kafka's names."""
    names = ("election.timeout.ms", "election.backoff.max.ms", "fetch.timeout.ms", "retry.backoff.ms")
    given = [f"controller.quorum.{name}={number}" for number, name in enumerate(names, 11)]
    times = quorum_timeouts(place(*given).roles.quorum)
    assert (times.election_ms, times.election_backoff_max_ms, times.fetch_ms, times.retry_backoff_ms) == (
        11,
        12,
        13,
        14,
    )


def test_a_voter_behind_an_unreadable_snapshot_has_the_voters_of_its_log(tmp_path):
    """Those of the older snapshot count no more: alone in their set, a voter that has read it would elect itself."""
    files, directory = RealFilesystem(), tmp_path / "__cluster_metadata-0"
    log = LogDirectory(str(tmp_path), files).open_log(
        METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, now_ms=0, refuse_damage=True
    )
    writer = SimpleNamespace(add=lambda _owner: None, offline=None)
    replica = MetadataReplica(log, directory=writer, files=files, threads=None)
    three = VoterSet(tuple(Voter(ReplicaKey(node_id, bytes([node_id]) * 16)) for node_id in (1, 2, 3)))
    replica.write([control_batch(Batch(0, 1, 1, (Voters(three),)), timestamp_ms=1)], epoch=1, now_ms=1)
    alone = quorum_of([InitialVoter(1, "a", 9093, MINE)], "CONTROLLER")
    for snapshot in (SnapshotId(0, 0), SnapshotId(1, 1)):
        content = build_checkpoint((), alone, last_contained_timestamp_ms=1, timestamp_ms=1)
        directory.joinpath(snapshot_name(snapshot)).write_bytes(content[: -snapshot.epoch or None])
    publisher = Publisher(replica, files, on_failed=lambda _error: None)
    view = _view(partial(_look, replica, files, publisher, VoterSet()), replica)
    assert view.voters == three
    assert view.snapshots == (OffsetAndEpoch(0, 0),)
    log.abandon()


def test_the_log_is_read_in_small_steps(tmp_path):
    """While the node runs: each of a thousand batches is checked, and clients have their turns between."""
    files = RealFilesystem()
    log = LogDirectory(str(tmp_path), files).open_log(
        METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, now_ms=0, refuse_damage=True
    )
    for offset in range(8):
        content = data_batch([bytes(1 << 15)], base_offset=offset, epoch=1, timestamp_ms=1)
        log.append_as_follower(memoryview(content), leader_epoch=1, now_ms=1)
    log.write_queued()
    steps = list(log_view_steps(log, files, STATIC_QUORUM, 0, VoterSet()))
    assert len(steps) >= 4
    log.abandon()


@pytest.mark.parametrize(
    ("settings", "state", "said"),
    [
        ("controller.quorum.voters=2@b:9093,1@a:9093", None, "static voter"),
        (
            "controller.quorum.voters=2@b:9093,1@a:9093",
            QuorumState(leader_epoch=1, data_version=1),
            "remove-controller",
        ),
        ("controller.quorum.bootstrap.servers=b:9093,a:9093", None, "remove-controller"),
        ("controller.quorum.bootstrap.servers=b:9093,a:9093", QuorumState(leader_epoch=1), "static voter"),
    ],
)
def test_the_way_back_from_damage_is_that_of_the_kind_of_voter(tmp_path, settings, state, said):
    """The settings say which it is until the quorum was changed: then its own file does."""
    if state is not None:
        (tmp_path / "quorum-state").write_bytes(state.to_bytes())
    home = SimpleNamespace(files=SimpleNamespace(partition_path=lambda _partition: str(tmp_path)))
    roles = load_config(assignments=["node.id=1", "log.dirs=/d", *BOTH, settings]).roles
    sentence = _way_back(QuorumPlace(home=home, roles=roles, cluster_id="c", endpoints=()), RealFilesystem())
    assert said in sentence
    assert ("static voter" in sentence) is (said == "static voter")
