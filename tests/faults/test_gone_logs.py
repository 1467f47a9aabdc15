"""A broker comes back without the logs that lay on its disk, under the same directory id: no empty log leads in their place."""

import shutil
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic, delete_topics
from stratalog.metadata.image.directory_ids import LOST
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest
from stratalog.wire.messages.elect_leaders import TopicPartitions as Elected
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

NAME = TopicPartition("t", 0)
BROKERS = (2, 3, 4)
UNCLEAN = 1
KEPT = {"meta.properties", "bootstrap.checkpoint", ".lock"}


class Gone:
    """Three replicas of one partition; the last one in sync stops after the others, and loses its log."""

    def __init__(self, directory):
        self.nodes = RunningNodes(directory, {1: "controller", **dict.fromkeys(BROKERS, "broker")})
        self.last, self.any = 2, self.nodes[3]

    def start(self):
        """Start all, and write to all."""
        self.nodes.start()
        create_topic(
            self.any.client(),
            "t",
            partition_count=1,
            replication_factor=len(BROKERS),
            configs={"min.insync.replicas": "1"},
        )
        self.any.wait_until(lambda: "t" in self.any.node.image.topics.by_name)
        self.any.wait_until(lambda: len(self.state().in_sync_replicas) == len(BROKERS))
        self.nodes[self.state().leader].produce("t", b"all")
        self.last = self.state().leader
        self.any = self.nodes[next(one for one in BROKERS if one != self.last)]

    def state(self):
        return self.any.node.image.topics.by_name["t"].partitions[0]

    def others(self):
        return [one for one in BROKERS if one != self.last]

    def log(self, node_id):
        return self.nodes[node_id].node.partitions.get(NAME).log

    def wipe(self, *, whole):
        """Take the logs away, or everything but the identity; what was there is kept aside."""
        data = Path(self.nodes[self.last].directory, "data")
        aside = data.with_name("aside")
        aside.mkdir()
        for path in list(data.iterdir()):
            if path.is_dir() and path.name == "t-0":
                shutil.move(path, aside / path.name)
            elif whole and path.is_file() and path.name not in KEPT:
                shutil.copy(path, aside / path.name)
                path.unlink()
        return aside, data


@pytest.fixture
def gone(tmp_path):
    made = Gone(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.nodes.stop()


def stop_all(gone, *, last_alone=()):
    """Stop the others, write to the last one alone, and stop it in order: the cluster counts on it only."""
    for one in gone.others():
        gone.nodes[one].stop()
    node = gone.nodes[gone.last]
    node.wait_until(lambda: node.node.image.topics.by_name["t"].partitions[0].in_sync_replicas == (gone.last,))
    for value in last_alone:
        node.produce("t", value)
    node.stop()


@pytest.mark.story
@pytest.mark.parametrize("whole", [False, True], ids=["logs", "all"])
def test_the_last_replica_in_sync_does_not_lead_without_its_log(gone, whole):
    """None leads, none drops anything, and an unclean election by hand has one of the others lead; a restart changes nothing."""
    stop_all(gone)
    gone.wipe(whole=whole)
    gone.nodes.start(*gone.others())
    for _ in range(2):
        gone.nodes.start(gone.last)
        gone.any.wait_until(lambda: gone.state().directory_of(gone.last) == LOST)
        assert gone.state().leader == NO_LEADER
        assert gone.nodes[gone.last].node.partitions.get(NAME) is None
        assert [gone.log(one).log_end_offset for one in gone.others()] == [1, 1]
        gone.nodes[gone.last].stop()
    gone.nodes.start(gone.last)
    asked = [Elected(topic="t", partitions=[0])]
    gone.any.client().call(ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=asked, timeout_ms=9999))
    gone.any.wait_until(lambda: gone.state().leader in gone.others())
    gone.any.wait_until(lambda: len(gone.state().in_sync_replicas) == len(BROKERS))
    assert gone.nodes[gone.state().leader].values("t") == [b"all"]
    assert gone.log(gone.last).log_end_offset == 1


def test_the_log_that_is_put_back_leads_again(gone):
    """With all that it alone had."""
    stop_all(gone, last_alone=[b"alone"])
    aside, data = gone.wipe(whole=True)
    gone.nodes.start(*BROKERS)
    gone.any.wait_until(lambda: gone.state().directory_of(gone.last) == LOST)
    gone.nodes[gone.last].stop()
    for path in aside.iterdir():
        if path.is_dir():
            shutil.move(path, data / path.name)
    gone.nodes.start(gone.last)
    gone.any.wait_until(lambda: gone.state().leader == gone.last)
    assert gone.nodes[gone.last].values("t") == [b"all", b"alone"]
    gone.any.wait_until(lambda: len(gone.state().in_sync_replicas) == len(BROKERS))


@pytest.mark.parametrize("whole", [False, True], ids=["logs", "all"])
def test_a_log_that_others_have_is_copied_again(gone, whole):
    """No command has to be given."""
    gone.nodes[gone.last].stop()
    gone.any.wait_until(lambda: gone.state().leader in gone.others())
    gone.wipe(whole=whole)
    gone.nodes.start(gone.last)
    gone.any.wait_until(lambda: len(gone.state().in_sync_replicas) == len(BROKERS))
    assert gone.log(gone.last).log_end_offset == 1
    assert gone.nodes[gone.state().leader].values("t") == [b"all"]


def test_a_log_that_is_gone_beside_one_that_was_cut_does_not_lead(tmp_path):
    """As a repair of the file system leaves them. The cut one ends the registration while others wait to be opened."""
    nodes = RunningNodes(tmp_path, {1: "controller", 2: "broker", 3: "broker"})
    try:
        nodes.start()
        names = [f"t{number}" for number in range(4)]
        for name in names:
            create_topic(nodes[2].client(), name, partition_count=1, replication_factor=2)
        nodes[2].wait_until(lambda: all(name in nodes[2].node.image.topics.by_name for name in names))

        def state(seen_by, name):
            return nodes[seen_by].node.image.topics.by_name[name].partitions[0]

        nodes[2].wait_until(lambda: all(len(state(2, name).in_sync_replicas) == 2 for name in names))
        cut, *_, lost = sorted(names, key=lambda name: nodes[2].node.image.topics.by_name[name].topic_id)
        for name in (cut, lost):
            nodes[state(2, name).leader].produce(name, b"all")
        nodes[3].stop()
        nodes[2].wait_until(lambda: all(state(2, name).in_sync_replicas == (2,) for name in names))
        nodes[2].stop()
        data = Path(nodes[2].directory, "data")
        for path in (data / f"{cut}-0").iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        shutil.rmtree(data / f"{lost}-0")
        nodes.start(3)
        nodes.start(2)
        nodes[3].wait_until(lambda: state(3, lost).directory_of(2) == LOST)
        assert state(3, lost).leader == NO_LEADER
        assert nodes[3].node.partitions.get(TopicPartition(lost, 0)).log.log_end_offset == 1
        assert nodes[2].node.partitions.get(TopicPartition(lost, 0)) is None
    finally:
        nodes.stop()


@pytest.mark.story
def test_a_directory_made_by_hand_begins_where_all_logs_are_gone(gone):
    """No replica has anything any more: the operator says so, and the partition goes on, empty."""
    stop_all(gone)
    gone.wipe(whole=False)
    for one in gone.others():
        shutil.rmtree(Path(gone.nodes[one].directory, "data", "t-0"))
    gone.nodes.start(*BROKERS)
    gone.any.wait_until(lambda: gone.state().directory_of(gone.last) == LOST)
    assert gone.state().leader == NO_LEADER
    gone.nodes[gone.last].stop()
    Path(gone.nodes[gone.last].directory, "data", "t-0").mkdir()
    gone.nodes.start(gone.last)
    gone.any.wait_until(lambda: gone.state().leader >= 0)
    gone.nodes[gone.state().leader].produce("t", b"new")


@pytest.mark.story
def test_a_topic_that_is_made_again_misses_no_log(gone):
    """All replicas of the former one were gone, and its topic was deleted; a restart changes nothing."""
    stop_all(gone)
    for one in BROKERS:
        shutil.rmtree(Path(gone.nodes[one].directory, "data", "t-0"))
    gone.nodes.start(*BROKERS)
    gone.any.wait_until(lambda: gone.state().directory_of(gone.last) == LOST)
    delete_topics(gone.any.client(), ["t"])
    gone.any.wait_until(lambda: "t" not in gone.any.node.image.topics.by_name)
    create_topic(gone.any.client(), "t", partition_count=1, replication_factor=len(BROKERS))
    gone.any.wait_until(lambda: "t" in gone.any.node.image.topics.by_name)
    gone.any.wait_until(lambda: len(gone.state().in_sync_replicas) == len(BROKERS))
    gone.nodes[gone.state().leader].produce("t", b"again")
    gone.nodes[gone.last].stop()
    gone.nodes.start(gone.last)
    gone.any.wait_until(lambda: len(gone.state().in_sync_replicas) == len(BROKERS))
    assert gone.nodes[gone.state().leader].values("t") == [b"again"]
