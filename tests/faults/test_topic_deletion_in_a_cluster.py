"""Tiered topics that are deleted in a cluster: their archives go, also with the leader down and the controller elsewhere."""

import time
from pathlib import Path

import pytest

from stratalog.client.admin import delete_topics
from tests.broker.nodes_of_a_cluster import RunningNodes

pytestmark = pytest.mark.story

QUICK = {
    "stratalog.trash.check.interval.ms": "50",
    "stratalog.trash.grace.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "remote.log.storage.system.enable": "true",
}
SECONDS = 120


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


def archived_topic(nodes):
    """A topic of one partition with an archive; the broker that leads it, and the other one."""
    nodes[1].create("t", 1, remote_storage_enable="true", internal_segment_bytes="2000", local_retention_bytes="0")
    for one in (nodes[1], nodes[2]):
        one.wait_until(lambda one=one: "t" in one.node.image.topics.by_name)
    state = nodes[1].node.image.topics.by_name["t"].partitions[0]
    leader, other = nodes[state.leader], nodes[3 - state.leader]
    for _ in range(20):
        leader.produce("t", b"x" * 500)
    log = leader.partition("t").log  # an upload that the deletion interrupts leaves an object for a quarter of an hour
    wait(lambda: log.local_log_start_offset == log.active_base_offset > 3)
    return leader, other


def objects(nodes):
    """Objects of topic t in the bucket."""
    bucket = Path(nodes[1].directory).parent / "bucket"
    return [one for one in bucket.rglob("*") if one.is_file() and "/t-" in str(one)]


def wait(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.05)


def test_the_archive_goes_when_a_controller_elsewhere_has_decided(nodes):
    """By the broker that led the topic."""
    nodes.start()
    leader, _ = archived_topic(nodes)
    assert objects(nodes)
    delete_topics(leader.client(), ["t"])
    wait(lambda: not objects(nodes))


def test_the_archive_goes_while_its_leader_is_down(nodes):
    """Another broker removes it, also over a restart between the deletion and the removal."""
    nodes.start()
    leader, other = archived_topic(nodes)
    leader.stop()
    other.wait_until(lambda: other.node.image.brokers.brokers[leader.node.node_id].is_fenced)
    delete_topics(other.client(), ["t"])
    other.restart()
    wait(lambda: not objects(nodes))
