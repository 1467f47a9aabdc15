"""A broker starts while the disk of one of its log directories is dead: it serves the others, and begins nothing anew that may lie there."""

import errno
import shutil
from functools import partial
from pathlib import Path

import pytest

from stratalog.broker.replicas.log_opening import LogOpening
from stratalog.client.admin import create_topic
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

PARTITIONS = 4
NAME = TopicPartition("t", 0)


def kill_disk(path: Path) -> Path:
    """A file lies where the directory was; where it is kept."""
    kept = path.with_name(f"{path.name}.kept")
    shutil.move(path, kept)
    path.write_bytes(b"")
    return kept


def mend_disk(path: Path, kept: Path) -> None:
    """Put the directory back."""
    path.unlink()
    shutil.move(kept, path)


def places(node, topic):
    """The partitions of a topic by directory."""
    found = {}
    for number in range(PARTITIONS):
        path = node.partition(topic, number).partition.directory.path
        found.setdefault(Path(path).name, []).append(number)
    return found


@pytest.mark.story
def test_the_other_directories_are_served(start_node, tmp_path, caplog, monkeypatch):
    """With all that they have, and new topics; what the dead one has is there again with it."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    node.create("t", PARTITIONS)
    for number in range(PARTITIONS):
        node.produce("t", b"%d" % number, partition=number)
    of = places(node, "t")
    node.stop()
    kept = kill_disk(tmp_path / "two")
    node.start()
    assert f"log directory {tmp_path}/two cannot be used" in caplog.text
    assert [node.values("t", number) for number in of["one"]] == [[b"%d" % number] for number in of["one"]]
    for number in of["two"]:
        assert node.node.partitions.get(TopicPartition("t", number)) is None
        with monkeypatch.context() as short:
            short.setattr(node, "client", partial(node.client, timeout_seconds=1.0))
            with pytest.raises(KafkaError):
                node.produce("t", b"refused", partition=number)
    node.create("new", PARTITIONS)
    assert set(places(node, "new")) == {"one"}
    node.produce("new", b"new")
    described = {one.log_dir: one.error_code for one in node.client().call(DescribeLogDirsRequest(topics=None)).results}
    assert described[f"{tmp_path}/two"] == ErrorCode.KAFKA_STORAGE_ERROR
    assert described[f"{tmp_path}/one"] == ErrorCode.NONE
    node.stop()
    mend_disk(tmp_path / "two", kept)
    node.start()
    assert [node.values("t", number) for number in range(PARTITIONS)] == [[b"%d" % one] for one in range(PARTITIONS)]
    assert places(node, "t") == of
    assert node.values("new") == [b"new"]


@pytest.mark.parametrize("operation", ["unlink", "sync"])
def test_a_directory_that_cannot_be_read_is_offline(start_node, watched_files, tmp_path, operation):
    """Its lock is free: another process may look at it."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two", files=watched_files)
    node.stop()
    watched_files.fail(operation, f"{tmp_path}/two", errno.EIO)
    node.start()
    one, two = node.node.directories.all
    assert (one.writer.offline, two.writer.offline.errno, two.lock) == (None, errno.EIO, None)


def test_the_directory_of_the_metadata_is_needed(start_node, tmp_path):
    """And one that holds topics."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two", metadata_log_dir=f"{tmp_path}/metadata")
    node.stop()
    kept = kill_disk(tmp_path / "metadata")
    with pytest.raises(Invalid, match="metadata cannot be made"):
        node.start()
    mend_disk(tmp_path / "metadata", kept)
    for name in ("one", "two"):
        kill_disk(tmp_path / name)
    with pytest.raises(Invalid, match="one cannot be made"):
        node.start()


class Two:
    """Two brokers with two log directories each; a topic with two replicas whose partitions lie in all of them."""

    def __init__(self, directory):
        self.directory = directory
        self.nodes = RunningNodes(directory, {1: "controller", 2: "broker", 3: "broker"})
        for broker in (2, 3):
            settings = self.nodes[broker].settings
            settings["log.dirs"] = ",".join(str(self.path(broker, name)) for name in ("one", "two"))
            settings["metadata.log.dir"] = str(self.path(broker, "data"))
            self.nodes.format(broker, ignore_formatted=True)

    def path(self, broker, name):
        return self.directory / str(broker) / name

    def start(self):
        self.nodes.start()
        configs = {"min.insync.replicas": "1"}
        create_topic(self.nodes[2].client(), "t", partition_count=PARTITIONS, replication_factor=2, configs=configs)
        self.until(2, lambda state: len(state.in_sync_replicas) == 2)

    def until(self, broker, holds, numbers=range(PARTITIONS)):
        node = self.nodes[broker]
        node.wait_until(lambda: "t" in node.node.image.topics.by_name)
        node.wait_until(
            lambda: all(holds(node.node.image.topics.by_name["t"].partitions[number]) for number in numbers)
        )

    def write(self, value):
        for number in range(PARTITIONS):
            leader = self.nodes[2].node.image.topics.by_name["t"].partitions[number].leader
            # It may hear of the topic later than the other one.
            self.until(leader, lambda state: state.leader >= 0, [number])
            self.nodes[leader].produce("t", value, partition=number)


@pytest.fixture
def two(tmp_path):
    made = Two(tmp_path)
    try:
        made.start()
        made.write(b"first")
        yield made
    finally:
        made.nodes.stop()


def test_replicas_in_a_dead_directory_are_led_elsewhere(two):
    """And follow again when the disk is back; no other directory gets a copy of them meanwhile."""
    of = places(two.nodes[3], "t")
    two.nodes[3].stop()
    kept = kill_disk(two.path(3, "two"))
    two.nodes.start(3)
    two.until(2, lambda state: state.in_sync_replicas == (2,), of["two"])
    two.until(2, lambda state: len(state.in_sync_replicas) == 2, of["one"])
    two.write(b"second")
    assert not [one for number in of["two"] for one in (two.path(3, "one") / f"t-{number}",) if one.exists()]
    two.nodes[3].stop()
    mend_disk(two.path(3, "two"), kept)
    two.nodes.start(3)
    two.until(2, lambda state: len(state.in_sync_replicas) == 2)
    assert [two.nodes[3].partition("t", number).log.log_end_offset for number in range(PARTITIONS)] == [2] * PARTITIONS
    assert places(two.nodes[3], "t") == of


@pytest.mark.story
def test_the_last_replica_in_sync_waits_for_its_disk(two):
    """The other one lacks a record, and does not lead; with the disk it is all there."""
    of = places(two.nodes[3], "t")
    two.nodes[2].stop()
    two.until(3, lambda state: state.in_sync_replicas == (3,))
    for number in range(PARTITIONS):
        two.nodes[3].produce("t", b"alone", partition=number)
    two.nodes[3].stop()
    kept = kill_disk(two.path(3, "two"))
    two.nodes.start(3, 2)
    two.until(2, lambda state: state.leader == 3 and len(state.in_sync_replicas) == 2, of["one"])
    two.until(2, lambda state: state.leader == NO_LEADER, of["two"])
    assert {two.nodes[2].partition("t", number).log.log_end_offset for number in of["two"]} == {1}
    two.nodes[3].stop()
    mend_disk(two.path(3, "two"), kept)
    two.nodes.start(3)
    two.until(2, lambda state: state.leader in {2, 3} and len(state.in_sync_replicas) == 2)
    for number in range(PARTITIONS):
        leader = two.nodes[2].node.image.topics.by_name["t"].partitions[number].leader
        assert two.nodes[leader].values("t", number) == [b"first", b"alone"]


def reassign(two, numbers, *replicas):
    """Have these brokers hold the partitions, and wait until they do."""
    partitions = [ReassignablePartition(partition_index=number, replicas=list(replicas)) for number in numbers]
    topics = [ReassignableTopic(name="t", partitions=partitions)]
    two.nodes[2].client().call(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=9999))
    two.until(2, lambda state: set(state.replicas) == set(state.in_sync_replicas) == set(replicas), numbers)


@pytest.mark.story
@pytest.mark.parametrize("first", ["one", "two"])
def test_a_replica_that_was_begun_anew_is_not_replaced_by_the_log_of_before(two, first):
    """The metadata name the directory that counts, whichever comes first in log.dirs; the other log is kept aside."""
    node, of = two.nodes[3], places(two.nodes[3], "t")["two"]
    node.stop()
    kept = kill_disk(two.path(3, "two"))
    two.nodes.start(3)
    two.until(2, lambda state: state.in_sync_replicas == (2,), of)
    reassign(two, of, 2)
    reassign(two, of, 2, 3)
    two.write(b"second")
    reassign(two, of, 3)
    node.wait_until(lambda: all(node.node.partitions.get(TopicPartition("t", number)) is not None for number in of))
    for number in of:
        node.produce("t", b"third", partition=number)
    node.stop()
    mend_disk(two.path(3, "two"), kept)
    other = {"one": "two", "two": "one"}[first]
    node.settings["log.dirs"] = f"{two.path(3, first)},{two.path(3, other)}"
    two.nodes.start(3)
    two.until(2, lambda state: state.leader == 3, of)
    assert [node.values("t", number) for number in of] == [[b"first", b"second", b"third"]] * len(of)
    assert set(of) <= set(places(node, "t")["one"])
    assert len(list(two.path(3, "two").glob("t-*-stray"))) == len(of)


def test_two_logs_without_a_place_are_not_served(start_node, tmp_path, caplog):
    """On a node of one nothing says which of them went on: both stay, and the error names them."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    node.create("t")
    node.produce("t", b"v")
    path = Path(node.partition("t").log.directory)
    node.stop()
    other = {"one": "two", "two": "one"}[path.parent.name]
    shutil.copytree(path, tmp_path / other / "t-0")
    node.start()
    assert node.node.partitions.get(NAME) is None
    assert "the metadata name none of them" in caplog.text
    node.stop()
    shutil.rmtree(tmp_path / other / "t-0")
    node.start()
    assert node.values("t") == [b"v"]


def test_a_partition_without_a_place_is_not_begun_after_the_start_either(start_node, tmp_path):
    """It has no leader for a while, and is looked at later."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    node.create("t", PARTITIONS)
    of = places(node, "t")["two"]
    node.stop()
    kill_disk(tmp_path / "two")
    node.start()
    hosted, config = node.node.hosted, node.node.hosted.settings(node.node.image, "t")
    opening = LogOpening(node.node.directories, hosted.table, node.node.clock, segments_open_max=9)
    node.run(lambda: opening.started(hosted.placing.is_placed_here, hosted.placing.anywhere))
    topic_id = node.node.image.topics.by_name["t"].topic_id
    for number in of:
        name = TopicPartition("t", number)
        assert node.run(lambda name=name: opening.open(name, topic_id, config, leader_epoch_max=1)) is None
    new = TopicPartition("new", 0)
    assert node.run(lambda: opening.open(new, b"n" * 16, config, leader_epoch_max=1)) is not None


def test_the_last_directory_with_topics_ends_the_process(start_node, tmp_path):
    """One is dead from the start, the other fails later; that of the metadata alone serves no client."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two", metadata_log_dir=f"{tmp_path}/metadata")
    node.stop()
    kill_disk(tmp_path / "one")
    node.start()
    two = next(one for one in node.node.directories.all if one.path == f"{tmp_path}/two")
    node.run(lambda: two.writer.report(OSError(errno.EIO, "broken")))
    assert node.node.failed.is_set()


def test_a_directory_that_names_itself_is_offline(start_node, tmp_path):
    """A loop of symbolic links."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    node.stop()
    shutil.rmtree(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "two")
    node.start()
    assert [one.writer.offline is None for one in node.node.directories.all] == [True, False]
