"""Nodes with bad input beside their cluster: a sentence that says what, where and what to do, in seconds; nothing is overwritten."""

import shutil
import time
from pathlib import Path

import pytest

from stratalog.broker.node_start import StartFailed
from stratalog.broker.quorum.batches import data_batch
from stratalog.broker.replicas.directory_format import format_node, identity_of
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import FormatOptions
from stratalog.wire.batch import LOG_OVERHEAD_BYTES, iter_headers
from stratalog.wire.errors import Corrupt, Invalid, StratalogError
from stratalog.wire.records.metadata import FeatureLevelRecord, encode_record
from tests.broker.nodes_of_a_cluster import CLUSTER_ID, RunningMember, RunningNodes

pytestmark = pytest.mark.story

OTHER_ID = "4L6g3nShT-eMCtK--X86sw"
TIMES = {"initial.broker.registration.timeout.ms": "2500"}
SECONDS = 20
MARK = "data/.kafka_cleanshutdown"


@pytest.fixture
def nodes(tmp_path):
    """A controller, and two brokers that have been in its cluster and have stopped."""
    made = RunningNodes(tmp_path, {100: "controller", 1: "broker", 2: "broker"}, **TIMES)
    made.start()
    made[1].create("t", 2)
    made.stop()
    yield made
    made.stop()


def data(member):
    return Path(member.directory) / "data"


def metadata(member):
    return data(member) / "__cluster_metadata-0"


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def directory_id(member):
    return (data(member) / "meta.properties").read_text().split("directory.id=")[1].strip()


def contents(member):
    """Every file of a node, without the state that follows its quorum."""
    found = {str(one.relative_to(member.directory)): one for one in Path(member.directory).rglob("*") if one.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if "cluster_metadata" not in name}


def refused(member, kind=StratalogError):
    """The sentence of a start that is refused, which takes seconds and leaves every file as it was."""
    before, begun = contents(member), time.monotonic()
    with pytest.raises(kind) as error:
        member.start(SECONDS)
    member.stop()
    assert time.monotonic() - begun < SECONDS
    after = contents(member)
    before.pop(MARK, None)
    assert {name: after.get(name) for name in before} == before
    return str(error.value)


def append_record(member, value, *, epoch=None, count=1):
    """Another node's record at the end of a stored metadata log."""
    (segment,) = metadata(member).glob("*.log")
    *_, (_, last) = iter_headers(segment.read_bytes())
    at = last.partition_leader_epoch if epoch is None else epoch
    batch = data_batch([value] * count, base_offset=last.next_offset, epoch=at, timestamp_ms=1)
    segment.write_bytes(segment.read_bytes() + batch)
    (data(member) / ".kafka_cleanshutdown").unlink()


def test_a_broker_of_another_cluster_hears_both_ids_and_the_address(nodes, caplog):
    """At once, once, and again when it gives up; also with an empty directory, which knows no leader."""
    nodes.start(100)
    edit(data(nodes[1]) / "meta.properties", CLUSTER_ID, OTHER_ID)
    assert f"this broker to cluster {OTHER_ID}" in refused(nodes[1])
    shutil.rmtree(data(nodes[2]))
    identity = identity_of(nodes[2].config())
    format_node(identity, FormatOptions(cluster_id=OTHER_ID), files=RealFilesystem(), now_ms=1)
    refused(nodes[2])
    at = f"bootstrap server 127.0.0.1:{nodes.ports[100]} belongs to cluster {CLUSTER_ID}, and this node to cluster {OTHER_ID}"
    said = [one for one in caplog.messages if at in one]
    assert len(said) == 2
    assert len(caplog.messages) < 30


def test_a_broker_whose_id_is_in_use_hears_where(nodes):
    """The first one goes on."""
    nodes.start(100, 1)
    twin = RunningMember(f"{nodes[1].directory}-twin", nodes[1].settings)
    shutil.copytree(data(nodes[2]), data(twin))
    edit(data(twin) / "meta.properties", "node.id=2", "node.id=1")
    assert f"registered with node.id=1 at 127.0.0.1:{nodes[1].port}" in refused(twin)
    assert nodes[1].node.cluster.membership.lifecycle.in_contact


def test_a_copied_directory_is_refused_with_its_owner(nodes):
    """Two brokers with one directory id would both have its partitions."""
    nodes.start(100, 2)
    edit(data(nodes[1]) / "meta.properties", directory_id(nodes[1]), directory_id(nodes[2]))
    assert f"broker 2 at 127.0.0.1:{nodes[2].port} is registered with the directory" in refused(nodes[1])


def test_swapped_directories_are_refused_by_name(nodes):
    """Also a controller's directory at a broker."""
    one, two = data(nodes[1]), data(nodes[2])
    one.rename(f"{one}.x")
    two.rename(one)
    Path(f"{one}.x").rename(two)
    assert f"{one} belongs to node 2, this broker has node.id=1" in refused(nodes[1], Invalid)
    shutil.rmtree(one)
    shutil.copytree(data(nodes[100]), one)
    assert f"{one} belongs to node 100" in refused(nodes[1], Invalid)


def test_a_broker_whose_directory_has_another_id_says_which_partitions_wait_for_it(nodes, caplog):
    """They have no leader until the directory is back, and nothing of them is touched."""
    nodes.start(100)
    before = {path: path.read_bytes() for path in data(nodes[1]).glob("t-*/*.log")}
    assert before
    known = directory_id(nodes[1])
    edit(data(nodes[1]) / "meta.properties", known, OTHER_ID)
    nodes[1].start(SECONDS)
    (said,) = [one for one in caplog.messages if "partitions of this broker" in one]
    assert known in said
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize("content", [b"", b"\0garbage", b"[" * 100_000, b'{"data_version":7}'])
@pytest.mark.parametrize("node_id", [1, 100])
def test_a_damaged_quorum_state_says_the_way_back_into_the_cluster(nodes, node_id, content):
    """A broker has no vote and fetches the log anew; a voter must become another one."""
    member = nodes[node_id]
    state = metadata(member) / "quorum-state"
    state.write_bytes(content)
    way_back = "has no vote: move" if node_id == 1 else "remove-controller"
    for _ in range(2):
        sentence = refused(member, Corrupt)
        assert str(state) in sentence
        assert way_back in sentence
        assert state.read_bytes() == content
        assert (data(member) / ".kafka_cleanshutdown").exists()


def test_a_broker_whose_metadata_log_was_moved_away_comes_back_with_its_topics(nodes):
    """That is what the sentences tell it to do."""
    nodes.start(100)
    metadata(nodes[1]).rename(f"{metadata(nodes[1])}-away")
    nodes[1].start(SECONDS)
    nodes[1].wait_until(lambda: [one.topic_partition.topic for one in nodes[1].node.hosted.table] == ["t"])


@pytest.mark.parametrize("node_id", [1, 100])
def test_a_damaged_metadata_segment_is_named(nodes, node_id):
    """With the byte and the way back; the file stays as it is."""
    member = nodes[node_id]
    (segment,) = metadata(member).glob("*.log")
    damaged = bytearray(segment.read_bytes())
    end = 0
    while (
        end <= len(damaged) // 2
    ):  # the last byte of a batch in the middle: its CRC covers it, as it does not all of a header
        end += LOG_OVERHEAD_BYTES + int.from_bytes(damaged[end + 8 : end + 12])
    damaged[end - 1] ^= 0xFF
    segment.write_bytes(damaged)
    sentence = refused(member, Corrupt)
    assert str(metadata(member)) in sentence
    assert "has CRC" in sentence
    assert segment.read_bytes() == damaged


def test_a_damaged_snapshot_of_the_first_voters_is_named(nodes):
    """Without it the controller would not know whom to vote with."""
    path = metadata(nodes[100]) / f"{0:020}-{0:010}.checkpoint"
    path.write_bytes(path.read_bytes()[:50])
    sentence = refused(nodes[100], Corrupt)
    assert f"{path}: snapshot" in sentence
    assert "copy it from another voter" in sentence
    assert len(path.read_bytes()) == 50


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            encode_record(FeatureLevelRecord(name="metadata.version", feature_level=31)),
            "metadata.version 31, and this release",
        ),
        (b"\x01\xc8\x01\0\0", "a metadata record has type 200"),
        (b"\x01\x02\x63\0\0", "a TopicRecord has version 99"),
    ],
)
def test_metadata_of_a_newer_release_ends_the_node_with_a_sentence(nodes, caplog, value, words):
    """A broker that is starting ends, too, and does not wait for its registration."""
    append_record(nodes[100], value)
    nodes.start(100)
    nodes[100].wait_until(nodes[100].node.failed.is_set)
    (said,) = [one for one in caplog.records if words in one.getMessage()]
    assert "update this node" in said.getMessage()
    assert not said.exc_info
    sentence = refused(nodes[1], StartFailed) if "metadata.version" in words else ""
    assert not sentence or "last critical line" in sentence


def test_a_log_ahead_of_its_quorum_is_said(nodes, caplog):
    """The controllers were restored from a copy, and this broker's log was not."""
    nodes[1].settings["initial.broker.registration.timeout.ms"] = "12000"
    append_record(nodes[1], encode_record(FeatureLevelRecord(name="group.version", feature_level=1)), epoch=9)
    nodes.start(100)
    refused(nodes[1])
    (said,) = [one for one in caplog.messages if "ahead of its quorum" in one]
    assert "is in epoch 2 and has never had epoch 9" in said


def test_a_log_of_another_past_in_the_same_epoch_is_cut_and_goes_on(nodes, caplog):
    """A batch of it reaches over the offset at which the leader's log ends: the cut is before that batch."""
    record = encode_record(FeatureLevelRecord(name="group.version", feature_level=1))
    append_record(nodes[1], record, count=30)
    nodes.start(100)
    nodes[1].start(SECONDS)
    assert any("the leader has other batches there" in one for one in caplog.messages)
    nodes[1].wait_until(
        lambda: (
            nodes[1].node.image.brokers.brokers[1].incarnation_id
            == nodes[1].node.cluster.membership.lifecycle.incarnation_id
        )
    )


def test_a_server_that_does_not_answer_is_named_before_a_minute_has_passed(nodes, caplog):
    """A broker that knows no other node yet, and a wrong port."""
    nodes[1].settings |= {
        "initial.broker.registration.timeout.ms": "12000",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
    }
    shutil.rmtree(metadata(nodes[1]))
    assert "no active controller was found" in refused(nodes[1])
    (said,) = [one for one in caplog.messages if "no leader of the metadata quorum for" in one]
    assert "bootstrap server 127.0.0.1:1 does not answer" in said
    assert "Connection refused" in said


def test_a_voter_with_a_replaced_disk_does_not_vote_and_says_so(tmp_path, caplog):
    """Its directory has another id, under which it was never added."""
    made = RunningNodes(tmp_path, dict.fromkeys((100, 101, 102), "controller"))
    try:
        made.start(100, 101, 102)
        made[100].wait_until(lambda: made[100].node.quorum.leader.leader_id >= 0)
        made[102].stop()
        shutil.rmtree(data(made[102]))
        options = FormatOptions(cluster_id=CLUSTER_ID, no_initial_controllers=True)
        format_node(identity_of(made[102].config()), options, files=RealFilesystem(), now_ms=1)
        made[102].start()
        made[102].wait_until(lambda: len(made[102].node.quorum.voters) == 3)
        assert not made[102].node.quorum.is_voter
        made[102].wait_until(lambda: any("this node does not vote" in one for one in caplog.messages))
        for one in (100, 101):
            if made[one].node.quorum.is_active:
                made[one].stop()
                break
        time.sleep(2)
        (left,) = [one for one in (100, 101) if made[one]._thread is not None]
        assert made[left].run(lambda: made[left].node.quorum.leader.leader_id) != left
    finally:
        made.stop()


def test_a_bootstrap_checkpoint_that_cannot_be_read_stops_the_first_start(tmp_path):
    """Else the controller would lead a cluster that never gets its first records."""
    made = RunningNodes(tmp_path, {100: "controller"})
    path = data(made[100]) / "bootstrap.checkpoint"
    path.write_bytes(b"garbage")
    try:
        assert str(path) in refused(made[100], Corrupt)
        assert path.read_bytes() == b"garbage"
    finally:
        made.stop()
