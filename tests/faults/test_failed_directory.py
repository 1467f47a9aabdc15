"""One of several log directories fails: its replicas go out of the sets, the others are served; a new disk is filled again."""

import shutil
import time
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes
from tests.conftest import WatchedFilesystem

BROKERS = (2, 3, 4)
PARTITIONS = 6
RECORDS = 5


class TwoDisks:
    """Three brokers with two directories each, all of them with a replica of every partition."""

    def __init__(self, directory):
        self.nodes = RunningNodes(directory, {1: "controller", **dict.fromkeys(BROKERS, "broker")})
        for one in BROKERS:
            member = self.nodes[one]
            member.settings["log.dirs"] = f"{member.directory}/data,{member.directory}/second"
            self.nodes.format(one, ignore_formatted=True)
        self.files = self.nodes[2].ports["files"] = WatchedFilesystem()
        self.any = self.nodes[3]

    def start(self):
        """Start all, and write to each partition."""
        self.nodes.start()
        create_topic(self.any.client(), "t", partition_count=PARTITIONS, replication_factor=len(BROKERS))
        self.any.wait_until(lambda: "t" in self.any.node.image.topics.by_name)
        self.in_sync(dict.fromkeys(range(PARTITIONS), BROKERS))
        self.produce()

    def states(self):
        return self.any.node.image.topics.by_name["t"].partitions

    def in_sync(self, wanted):
        """Wait until these partitions have these in-sync sets."""
        self.any.wait_until(
            lambda: all(set(self.states()[number].in_sync_replicas) == set(found) for number, found in wanted.items())
        )

    def produce(self):
        """Records to each partition; a client tries again as long as it takes."""
        for number in range(PARTITIONS):
            deadline = time.monotonic() + 20
            while True:
                try:
                    self.any.produce("t", *[b"value"] * RECORDS, partition=number)
                    break
                except KafkaError:
                    assert time.monotonic() < deadline

    def by_directory(self, node_id):
        """The partitions of a broker in its first and its second directory."""
        node = self.nodes[node_id].node
        places = {n: node.partitions.get(TopicPartition("t", n)).partition.directory.path for n in range(PARTITIONS)}
        first, second = ([n for n, path in places.items() if path.endswith(end)] for end in ("data", "second"))
        return first, second

    def ends(self, node_id):
        node = self.nodes[node_id].node
        return [node.partitions.get(TopicPartition("t", number)).log.written_offset for number in range(PARTITIONS)]


@pytest.fixture
def disks(tmp_path, request):
    made = TwoDisks(tmp_path)
    made.nodes[2].settings.update(getattr(request, "param", {}))
    try:
        made.start()
        yield made
    finally:
        made.nodes.stop()


def fail_second(disks):
    """The second disk of broker 2 answers EIO; the partitions on its first and second."""
    first, second = disks.by_directory(2)
    assert first, "partitions are spread over both"
    assert second, "partitions are spread over both"
    disks.files.fail("write", "/second/")
    disks.produce()
    disks.in_sync(dict.fromkeys(second, (3, 4)))
    return first, second


def test_leaderships_move_and_the_other_directory_is_served(disks):
    """Copies in the other directory go on: they do not wait for the syncs of those that have failed."""
    before = {number: disks.states()[number].leader for number in disks.by_directory(2)[0]}
    first, second = fail_second(disks)
    assert {disks.states()[number].leader for number in second} <= {3, 4}
    disks.produce()
    disks.in_sync(dict.fromkeys(first, BROKERS) | dict.fromkeys(second, (3, 4)))
    ends = disks.ends(3)
    disks.nodes[2].wait_until(lambda: [disks.ends(2)[number] for number in first] == [ends[number] for number in first])
    assert {number: disks.states()[number].leader for number in first} == before
    assert not disks.nodes[2].node.failed.is_set()


@pytest.mark.story
def test_a_new_disk_is_filled_again(disks):
    """It is formatted and empty: its directory has another id, and the replicas are begun anew wherever there is room."""
    _, second = fail_second(disks)
    disks.nodes[2].stop()
    disks.files = disks.nodes[2].ports["files"] = WatchedFilesystem()
    shutil.rmtree(Path(disks.nodes[2].directory, "second"))
    disks.nodes.format(2, ignore_formatted=True)
    disks.nodes[2].start()
    disks.produce()
    disks.in_sync(dict.fromkeys(range(PARTITIONS), BROKERS))
    assert disks.ends(2) == disks.ends(3)
    online = {one.directory_id for one in disks.nodes[2].node.directories.online}
    disks.any.wait_until(lambda: all(disks.states()[number].directory_of(2) in online for number in second))


@pytest.mark.story
@pytest.mark.parametrize("disks", [{"log.dir.failure.timeout.ms": "1000"}], indirect=True)
def test_a_broker_ends_whose_controller_does_not_hear_of_the_failure(disks):
    """It would be taken to lead what it cannot serve (log.dir.failure.timeout.ms)."""
    _, second = disks.by_directory(2)
    disks.nodes[1].stop()
    writer = disks.nodes[2].node.partitions.get(TopicPartition("t", second[0])).partition.directory
    disks.nodes[2].run(lambda: writer.report(OSError(5, "Input/output error")))
    disks.nodes[2].wait_until(disks.nodes[2].node.failed.is_set)
