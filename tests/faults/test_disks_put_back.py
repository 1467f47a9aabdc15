"""A disk of a replica is put back as of before a deletion that its leader has forgotten since: no deleted key comes back with it."""

import shutil
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.records import NewRecord
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

NAME = TopicPartition("t", 0)
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0"}


class Bench:
    """Two replicas of a compacted partition, cleaned when a test says so."""

    def __init__(self, directory):
        self.nodes = RunningNodes(
            directory, {1: "controller", 2: "broker", 3: "broker"}, **{"log.cleaner.backoff.ms": "3600000"}
        )

    def start(self):
        self.nodes.start()
        create_topic(self.nodes[2].client(), "t", partition_count=1, replication_factor=2, configs=COMPACTED)
        for node in (self.nodes[2], self.nodes[3]):
            node.wait_until(lambda node=node: self.is_in_sync(node))

    @staticmethod
    def state(node):
        topic = node.node.image.topics.by_name.get("t")
        return None if topic is None else topic.partitions[0]

    def is_in_sync(self, node):
        state = self.state(node)
        return state is not None and len(state.in_sync_replicas) == 2 and node.node.partitions.get(NAME) is not None

    def put(self, node, key, value):
        node.produce("t", NewRecord(value, node.node.clock.wall_ms(), key=key, partition=0))
        node.run(node.partition("t").log.roll)

    def clean(self, node):
        """Until tombstones have gone: two cleanings meet each."""
        for _ in range(3):
            self.put(node, b"other", b"v")
            node.wait_until(lambda: node.partition("t").cleanable_below == node.partition("t").log.log_end_offset)
            node.run(node.node.compaction.look)
            node.wait_until(lambda: node.node.compaction.idle)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.nodes.stop()


@pytest.mark.story
def test_a_deleted_key_does_not_come_back_with_a_disk(bench, tmp_path, caplog):
    """The replica copies the log again as a whole, and leads without the key. It kept what it had."""
    leads = bench.state(bench.nodes[2]).leader
    leader, copy = bench.nodes[leads], bench.nodes[5 - leads]
    bench.put(leader, b"gone", b"v")
    leader.wait_until(lambda: copy.partition("t").log.flushed_offset == 1)
    copy.stop()
    shutil.copytree(Path(copy.directory, "data"), tmp_path / "saved")
    copy.start()
    leader.wait_until(lambda: bench.is_in_sync(leader))
    bench.put(leader, b"gone", None)
    bench.clean(leader)
    assert leader.partition("t").log.forgotten.below == 2
    copy.restart()
    leader.wait_until(lambda: bench.is_in_sync(leader))
    assert "copied again" not in caplog.text, "it was away for a moment"
    copy.stop()
    shutil.rmtree(Path(copy.directory, "data"))
    shutil.copytree(tmp_path / "saved", Path(copy.directory, "data"))
    copy.start()
    leader.wait_until(lambda: bench.is_in_sync(leader))
    assert "t-0 is copied again as a whole" in caplog.text
    assert list(Path(copy.directory, "data").glob("t-0.*-stray/*.log"))
    leader.stop()
    copy.wait_until(lambda: bench.state(copy).leader == 5 - leads)
    assert {record.key for record in copy.read("t")} == {b"other"}
    assert copy.partition("t").log.forgotten.below == 2, "it tells the next one"
