"""All disks of a cluster went back in time, its metadata with them: its leaders ask the controller for epochs of the time after."""

import shutil
from pathlib import Path

import pytest

from stratalog.wire.errors import KafkaError
from tests.broker.nodes_of_a_cluster import RunningNodes
from tests.faults.test_topic_deletion_in_a_cluster import QUICK, archived_topic, wait

pytestmark = pytest.mark.story


@pytest.fixture
def nodes(tmp_path):
    """A controller that is no broker, and two brokers with one bucket."""
    made = RunningNodes(tmp_path, {100: "controller", 1: "broker", 2: "broker"}, **QUICK)
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    for member in made.members.values():
        Path(member.directory, "bucket").symlink_to(bucket)
    yield made
    made.stop()


def is_led(leader):
    try:
        unified = leader.partition("t")
    except KafkaError:  # its leadership of before has ended, and the next one has not begun
        return False
    return unified is not None and unified.partition.leader is not None


def begun(nodes, number):
    """The log of the topic, once a started broker leads it."""
    nodes.start()
    nodes[number].wait_until(lambda: is_led(nodes[number]))
    return nodes[number].partition("t")


def archive(leader, unified, value):
    """Write records, and wait until all but those of the active segment are in the archive alone."""
    for _ in range(10):
        leader.produce("t", value)
    wait(lambda: unified.log.local_log_start_offset == unified.log.active_base_offset)


def test_a_cluster_that_went_back_serves_what_its_archive_has(nodes):
    """The archive's leader epoch is above that of the metadata, and the leader is not the controller."""
    nodes.start()
    leader, _ = archived_topic(nodes)
    number = leader.node.node_id
    nodes.stop()
    for member in nodes.members.values():
        shutil.copytree(member.directory, f"{member.directory}.copy", symlinks=True)
    for _ in range(2):  # the time that will be missing
        unified = begun(nodes, number)
        archive(nodes[number], unified, b"y" * 500)
        archived, known = unified.log.active_base_offset, unified.partition.leader_epoch
        nodes.stop()
    for member in nodes.members.values():
        shutil.rmtree(member.directory)
        shutil.move(f"{member.directory}.copy", member.directory)
    unified, leader = begun(nodes, number), nodes[number]
    wait(lambda: not unified.partition.held_back and leader.node.tiering.watched(unified)[1] != "checking")
    assert unified.partition.leader_epoch > known
    assert unified.log.log_end_offset >= archived
    archive(leader, unified, b"z" * 500)
    assert leader.node.tiering.watched(unified)[1] == "held"
