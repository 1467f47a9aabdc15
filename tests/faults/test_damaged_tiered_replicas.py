"""A flipped bit in one of three replicas of a tiered partition, in what is archived and in what is not.

No acknowledged record is lost, the replica is copied again, and the archive goes on as the log of the leader has it.
"""

import time
from contextlib import suppress
from pathlib import Path

import pytest

import stratalog
from stratalog.client.admin import create_topic
from stratalog.client.records import fetch
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.stores.store import StoreError
from stratalog.wire.errors import KafkaError, StratalogError
from tests.faults.test_damaged_replicas import BROKERS, NAME, RECORDS, ROLLS_AT, Damaged

pytestmark = pytest.mark.story

ARCHIVED, NOT_ARCHIVED = 7, RECORDS - 3


class DamagedTiered(Damaged):
    """The same with a bucket: the frozen segment is archived, and stays on the disks as well."""

    def __init__(self, directory):
        super().__init__(directory)
        self.bucket = f"file://{directory}/bucket"
        Path(directory, "bucket").mkdir()
        for one in BROKERS:  # one bucket for all
            Path(directory, str(one), "bucket").symlink_to(Path(directory, "bucket"))

    def start(self):
        """Start all, write, and wait for the archive of what is frozen."""
        self.nodes.start()
        configs = {"remote.storage.enable": "true", "min.insync.replicas": "2"}
        create_topic(self.any.client(), "t", partition_count=1, replication_factor=3, configs=configs)
        self.any.wait_until(lambda: "t" in self.any.node.image.topics.by_name)
        self.any.wait_until(lambda: len(self.state().in_sync_replicas) == len(BROKERS))
        for number in range(RECORDS):
            self.produce(number)
            if number == ROLLS_AT - 1:
                self.roll()
        for one in BROKERS:
            self.caught_up(one)
        self.any.wait_until(lambda: self.archived_end() == ROLLS_AT)

    def roll(self):
        for one in BROKERS:
            self.caught_up(one)
            self.nodes[one].run(self.log(one).roll)

    def archived_end(self):
        topic = self.any.node.image.topics.by_name["t"]
        with suppress(StoreError):
            return read_manifest(open_store(self.bucket), PartitionId("t", topic.topic_id, 0)).manifest.remote_end
        return 0

    def all_is_archived(self, count):
        """Freeze the log, wait for its archive, and compare that with what was written."""
        self.roll()
        self.any.wait_until(lambda: self.archived_end() == count)
        rows = stratalog.open(self.bucket).topic("t").to_arrow(columns=["offset", "value"]).to_pylist()
        assert [(row["offset"], row["value"]) for row in rows] == [(n, b"value %4d" % n) for n in range(count)]
        assert self.any.values("t") == [b"value %4d" % number for number in range(count)]


@pytest.fixture
def damaged(tmp_path):
    made = DamagedTiered(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.nodes.stop()


@pytest.mark.parametrize("number", [ARCHIVED, NOT_ARCHIVED], ids=["archived", "not archived"])
def test_a_damaged_leader_gives_way_and_the_archive_goes_on(damaged, number):
    """A reader comes upon it. The next leader archives on, and what was archived before is what its log has."""
    leader = damaged.state().leader
    whole = damaged.contents(leader)
    damaged.flip(leader, number)
    client = damaged.nodes[leader].client()
    deadline = time.monotonic() + 60
    while damaged.state().leader == leader:
        with suppress(StratalogError, KafkaError):
            fetch(client, {NAME: number}, max_wait_ms=0)
        assert time.monotonic() < deadline
    damaged.produce(RECORDS)
    damaged.repaired(leader, whole)
    damaged.all_is_archived(RECORDS + 1)


@pytest.mark.parametrize("number", [ARCHIVED, NOT_ARCHIVED], ids=["archived", "not archived"])
def test_a_damaged_follower_is_copied_again_and_the_archive_goes_on(damaged, number):
    """The leader stays, in another leader epoch, and archives on under a claim of that."""
    leader = damaged.state().leader
    follower = next(one for one in BROKERS if one != leader)
    whole = damaged.contents(follower)
    error = damaged.flip(follower, number)
    node, role = damaged.nodes[follower], damaged.unified(leader).partition.led()
    node.run(lambda: node.node.report_corruption(damaged.unified(follower), error))
    # Before the leader epoch has risen, a producer that tries again would write twice.
    damaged.nodes[leader].wait_until(lambda: role.ended is not None)
    damaged.produce(RECORDS)
    damaged.repaired(follower, whole)
    assert damaged.state().leader == leader
    damaged.all_is_archived(RECORDS + 1)


@pytest.mark.parametrize("number", [ARCHIVED, NOT_ARCHIVED], ids=["archived", "not archived"])
def test_damage_that_the_start_of_a_killed_replica_finds(damaged, number):
    """The checkpoints of before are gone: every batch is looked at."""
    leader = damaged.state().leader
    victim = next(one for one in BROKERS if one != leader)
    whole = damaged.contents(victim)
    directory = Path(damaged.log(victim).directory)
    damaged.any = damaged.nodes[leader]
    damaged.nodes[victim].stop()
    path = directory / f"{0 if number < ROLLS_AT else ROLLS_AT:020d}.log"
    content = bytearray(path.read_bytes())
    content[content.index(b"value %4d" % number)] ^= 1
    path.write_bytes(content)
    (directory.parent / ".kafka_cleanshutdown").unlink()
    (directory.parent / "recovery-point-offset-checkpoint").unlink()
    damaged.any.wait_until(lambda: victim not in damaged.state().in_sync_replicas)
    damaged.produce(RECORDS)
    damaged.nodes[victim].start()
    damaged.repaired(victim, whole)
    damaged.all_is_archived(RECORDS + 1)
