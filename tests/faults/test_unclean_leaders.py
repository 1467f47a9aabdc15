"""A leader that was elected uncleanly: its archive has the say over its log, and the cluster hears when it has recovered."""

from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.metadata.image.topics_image import LeaderRecovery
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.store import StoreError
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

pytestmark = pytest.mark.story

NAME = TopicPartition("t", 0)
CONFIGS = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
TIERED = {"remote.storage.enable": "true", "segment.ms": "300"}


class Elected:
    """Two replicas. The second is away while the first goes on alone; then the first is, and the second has to lead."""

    def __init__(self, directory):
        self.bucket = f"file://{directory}/bucket"
        calm = {"broker.session.timeout.ms": "60000", "controller.quorum.fetch.timeout.ms": "60000"}
        settings = {**calm, "log.flush.offset.checkpoint.interval.ms": "100"}
        self.nodes = RunningNodes(directory, {1: "controller", 2: "broker", 3: "broker"}, **settings)
        Path(directory, "bucket").mkdir()
        for one in (2, 3):  # one bucket for both
            Path(directory, str(one), "bucket").symlink_to(Path(directory, "bucket"))
        self.nodes.start()

    def state(self, seen_by):
        return self.nodes[seen_by].node.image.topics.by_name["t"].partitions[0]

    def log(self, node_id):
        return self.nodes[node_id].node.partitions.get(NAME).log

    def begin(self, configs):
        """Make the topic, and write one record to both; the first replica, and the second."""
        create_topic(self.nodes[2].client(), "t", partition_count=1, replication_factor=2, configs=configs)
        for one in (2, 3):
            self.nodes[one].wait_until(lambda one=one: "t" in self.nodes[one].node.image.topics.by_name)
        self.nodes[2].wait_until(lambda: len(self.state(2).in_sync_replicas) == 2)
        first = self.state(2).leader
        self.nodes[first].produce("t", b"both")
        return first, 5 - first

    def archived_end(self, node_id):
        topic = self.nodes[node_id].node.image.topics.by_name["t"]
        with suppress(StoreError):
            return read_manifest(open_store(self.bucket), PartitionId("t", topic.topic_id, 0)).manifest.remote_end
        return 0

    def alone(self, node_id, values):
        """A replica without the other one takes these records, and archives what its topic lets it."""
        node = self.nodes[node_id]
        node.wait_until(lambda: self.state(node_id).in_sync_replicas == (node_id,))
        for value in values:
            node.produce("t", value)

    def recovered(self, node_id):
        """Wait until this one leads, alone in sync, and the cluster knows that it has recovered."""
        node = self.nodes[node_id]
        node.wait_until(lambda: self.state(node_id).leader == node_id)
        node.wait_until(lambda: self.state(node_id).leader_recovery is LeaderRecovery.RECOVERED)
        assert self.state(node_id).in_sync_replicas == (node_id,)


@pytest.fixture
def elected(tmp_path):
    made = Elected(tmp_path)
    yield made
    made.nodes.stop()


def test_an_unclean_leader_recovers_though_its_set_never_changes(elected):
    """Without an archive there is nothing to compare."""
    first, second = elected.begin(CONFIGS)
    elected.nodes[second].stop()
    elected.alone(first, [b"lost"])
    elected.nodes[first].stop()
    elected.nodes[second].start()
    elected.recovered(second)
    elected.nodes[second].produce("t", b"new")
    assert elected.nodes[second].values("t") == [b"both", b"new"]


def test_an_unclean_leader_that_led_before_goes_on_at_its_archive(elected):
    """The archive that it knew then ends below its log; others have archived more since. No archived record is lost."""
    first, second = elected.begin({**CONFIGS, **TIERED})
    elected.nodes[first].wait_until(lambda: elected.archived_end(first) == 1)
    elected.nodes[first].stop()  # the other one leads now, and archives more
    elected.alone(second, [b"archived %d" % number for number in range(3)])
    elected.nodes[second].wait_until(lambda: elected.archived_end(second) == 4)
    elected.nodes[second].stop()
    elected.nodes[first].start()
    elected.recovered(first)
    elected.nodes[first].produce("t", b"new")
    expected = [b"both", *(b"archived %d" % number for number in range(3)), b"new"]
    assert elected.nodes[first].values("t") == expected
    assert elected.log(first).log_end_offset == len(expected)
