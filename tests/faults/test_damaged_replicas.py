"""A flipped bit at rest in one of three replicas: it leaves the in-sync set, keeps what was damaged, and copies the rest again.

No batch of its own takes the place of what was lost, and nothing that was acknowledged is missing afterwards.
"""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.records import fetch
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.metadata.image.directory_ids import LOST
from stratalog.wire.errors import ErrorCode, KafkaError, StratalogError
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

NAME = TopicPartition("t", 0)
BROKERS = (2, 3, 4)
RECORDS = 60
ROLLS_AT = 40
SETTINGS = {"log.segment.delete.delay.ms": "1000"}


class Damaged:
    """Three replicas of one partition: a frozen segment below `ROLLS_AT`, an active one above."""

    def __init__(self, directory):
        self.nodes = RunningNodes(directory, {1: "controller", **dict.fromkeys(BROKERS, "broker")}, **SETTINGS)
        self.any = self.nodes[BROKERS[0]]

    def start(self):
        """Start all, and write."""
        self.nodes.start()
        create_topic(self.any.client(), "t", partition_count=1, replication_factor=3)
        self.any.wait_until(lambda: "t" in self.any.node.image.topics.by_name)
        self.any.wait_until(lambda: len(self.state().in_sync_replicas) == len(BROKERS))
        for number in range(RECORDS):
            self.produce(number)
            if number == ROLLS_AT - 1:
                for one in BROKERS:
                    self.caught_up(one)
                    self.nodes[one].run(self.log(one).roll)

    def state(self):
        return self.any.node.image.topics.by_name["t"].partitions[0]

    def unified(self, node_id):
        return self.nodes[node_id].node.partitions.get(NAME)

    def log(self, node_id):
        return self.unified(node_id).log

    def produce(self, number):
        self.nodes[self.state().leader].produce("t", b"value %4d" % number, idempotent=True)

    def caught_up(self, node_id):
        end = self.log(self.state().leader).log_end_offset
        self.nodes[node_id].wait_until(lambda: self.log(node_id).written_offset == end)

    def flip(self, node_id, number):
        """Change a record on the disk; the error of a reader that checks it."""
        path = Path(self.log(node_id).directory, f"{0 if number < ROLLS_AT else ROLLS_AT:020d}.log")
        content = bytearray(path.read_bytes())
        content[content.index(b"value %4d" % number)] ^= 1
        path.write_bytes(content)
        return UnreadableBatch(str(path), path.stat().st_size - 1, "its CRC is another")

    def contents(self, node_id):
        def read():
            log = self.log(node_id)
            found = log.read(0, max_bytes=1 << 30, max_offset=log.written_offset)
            return b"".join(bytes(part.file.pread(part.length, part.position)) for part in found.parts)

        return self.nodes[node_id].run(read)

    def repaired(self, node_id, whole):
        """Wait until it is in sync again; its log is its leader's byte for byte, and what was damaged is kept."""
        directory = self.nodes[node_id].node.directories.all[0]
        self.any.wait_until(
            lambda: (
                len(self.state().in_sync_replicas) == len(BROKERS)
                and self.state().directory_of(node_id) == directory.directory_id
            )
        )
        self.caught_up(node_id)
        assert self.contents(node_id)[: len(whole)] == whole
        assert self.contents(node_id) == self.contents(self.state().leader)
        assert not self.log(node_id).missing_ranges()
        kept = [one for one in Path(directory.path).glob("t-0.*-stray/*.log*") if one.stat().st_size]
        assert kept, "the damaged bytes are in quarantine"

    def watch(self):
        """Every state of the partition that one broker's image has from now on."""
        seen = []
        publisher = self.any.node.quorum.publisher

        async def applied(image, _change):
            seen.append(image.topics.by_name["t"].partitions[0])

        self.any.run(publisher.follow, applied)
        return seen


@pytest.fixture
def damaged(tmp_path):
    made = Damaged(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.nodes.stop()


def assert_it_left_before_it_came_back(seen, node_id):
    """It counted nowhere from a committed record on, led in no epoch until it was whole, and came back."""
    left = next(at for at, one in enumerate(seen) if one.directory_of(node_id) == LOST)
    assert node_id not in seen[left].in_sync_replicas
    assert seen[left].leader != node_id
    assert node_id in seen[-1].in_sync_replicas
    assert all(one.leader != node_id for one in seen[left:])


@pytest.mark.parametrize("number", [7, ROLLS_AT, RECORDS - 3], ids=["frozen", "first of the active", "active"])
def test_a_leader_whose_disk_is_damaged_gives_way_and_copies_again(damaged, number):
    """Readers come upon it: a client asks again for what it cannot use."""
    leader = damaged.state().leader
    whole = damaged.contents(leader)
    seen = damaged.watch()
    damaged.flip(leader, number)
    client = damaged.nodes[leader].client()
    deadline = time.monotonic() + 20
    told = set()
    while damaged.state().leader == leader:
        with suppress(StratalogError):
            try:
                fetch(client, {NAME: number}, max_wait_ms=0)
            except KafkaError as error:
                told.add(error.code)
        assert time.monotonic() < deadline
    assert ErrorCode.CORRUPT_MESSAGE not in told, "a consumer would end, though others lead in a moment"
    damaged.produce(RECORDS)
    damaged.repaired(leader, whole)
    assert_it_left_before_it_came_back(seen, leader)
    assert damaged.any.values("t") == [b"value %4d" % one for one in range(RECORDS + 1)]


@pytest.mark.story
@pytest.mark.parametrize("number", [7, RECORDS - 3], ids=["frozen", "active"])
def test_a_follower_whose_disk_is_damaged_leaves_and_copies_again(damaged, number):
    """Its cleaner, say, comes upon it. The leader goes on."""
    leader = damaged.state().leader
    follower = next(one for one in BROKERS if one != leader)
    whole = damaged.contents(follower)
    seen = damaged.watch()
    error = damaged.flip(follower, number)
    damaged.nodes[follower].run(
        lambda: damaged.nodes[follower].node.report_corruption(damaged.unified(follower), error)
    )
    damaged.produce(RECORDS)
    damaged.repaired(follower, whole)
    assert_it_left_before_it_came_back(seen, follower)
    assert damaged.state().leader == leader


@pytest.mark.story
@pytest.mark.parametrize("number", [7, RECORDS - 3], ids=["frozen", "active"])
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_damage_that_a_start_finds_is_copied_again(damaged, number, clean):
    """The end of a file is gone, which also the start after an orderly stop looks at, or a record was changed."""
    leader = damaged.state().leader
    victim = next(one for one in BROKERS if one != leader)
    whole = damaged.contents(victim)
    directory = Path(damaged.log(victim).directory)
    damaged.any = damaged.nodes[leader]
    damaged.nodes[victim].stop()
    path = directory / f"{0 if number < ROLLS_AT else ROLLS_AT:020d}.log"
    if clean:
        path.write_bytes(path.read_bytes()[:-40])
    else:
        content = bytearray(path.read_bytes())
        content[content.index(b"value %4d" % number)] ^= 1
        path.write_bytes(content)
        (directory.parent / ".kafka_cleanshutdown").unlink()
        (directory.parent / "recovery-point-offset-checkpoint").unlink()
    damaged.any.wait_until(lambda: victim not in damaged.state().in_sync_replicas)
    damaged.nodes[victim].start()
    damaged.repaired(victim, whole)
