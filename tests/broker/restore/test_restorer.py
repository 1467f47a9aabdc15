"""A broker that has lost all its files comes back from its bucket, with every record, offset and id."""

from __future__ import annotations

import json
import shutil
import time

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from stratalog.broker.embedded import SETTINGS
from stratalog.broker.node import Node
from stratalog.broker.restore.restorer import Restorer
from stratalog.broker.settings.config import Flags, load_config
from stratalog.cli.main import cli
from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.groups import commit_offsets, committed_offsets
from stratalog.client.records import NewRecord
from stratalog.client.records import Producer as PlainProducer
from stratalog.tier.bucket.catalogue import ArchivedTopic
from stratalog.tier.care.restore_plan import ArchivedProducers, BucketState, PartitionState
from stratalog.tier.documents.keys import PartitionId, topic_key
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.manifests.parts import Claimant
from stratalog.tier.messages.group_copy import OffsetCopy, group_copy_projection
from stratalog.tier.messages.projection import write_projection
from stratalog.tier.stores.local_store import LocalStore
from stratalog.wire.batch import iter_records, read_header
from stratalog.wire.records.metadata import ProducerIdsRecord, decode_record
from stratalog.wire.topic import TopicPartition as Partition
from stratalog.wire.topic import uuid_text

COUNT = 400


class Broker:
    """A broker on a data directory and a bucket, both of the test."""

    def __init__(self, loop, data, bucket):
        self._loop = loop
        config = load_config(
            assignments=[
                f"{name}={value}" for name, value in {**SETTINGS, "stratalog.cache.dir": f"{data}-cache"}.items()
            ],
            environment={},
            flags=Flags(data=data, bucket=bucket, listen="127.0.0.1:0", http="127.0.0.1:0"),
            host_name="localhost",
        )

        async def start():
            node = Node(config)
            await node.start()
            return node

        self.node = loop.run(start)
        self.address = "{}:{}".format(*self.node.kafka_address[:2])

    def stop(self):
        if self.node is not None:
            node, self.node = self.node, None
            self._loop.run(node.stop)

    def produce(self, topic, partition, values):
        """Write records; the segments are small, so that nearly all of them freeze."""
        with Client(self.address) as client:
            producer = PlainProducer(client, topic)
            for start in range(0, len(values), 20):
                rows = [
                    NewRecord(value, 1_700_000_000_000, partition=partition) for value in values[start : start + 20]
                ]
                producer.send(rows)

    def archived(self, topic, partition):
        """Where the archive ends."""
        remote = self.node.partitions.by_name(topic, partition).remote
        return 0 if remote is None else remote.end_offset

    def frozen(self, topic, partition):
        """Where what can be archived ends."""
        return self.node.partitions.by_name(topic, partition).log.active_base_offset

    def read(self, topic, partition, start=0, **options):
        """Everything, by librdkafka: offset and value."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                **options,
            }
        )
        consumer.assign([TopicPartition(topic, partition, start)])
        found = []
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                break
            found.append((message.offset(), message.value()))
        consumer.close()
        return found


def until(condition, what):
    """Wait for something that happens in the background."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


@pytest.fixture
def brokers(stratalog_loop):
    """Makes brokers that are stopped after the test."""
    made = []

    def make(data, bucket):
        made.append(Broker(stratalog_loop, str(data), bucket))
        return made[-1]

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture(scope="module")
def archived(stratalog_loop, tmp_path_factory):
    """The bucket of a cluster that is gone: topic id, what each partition had archived, settings."""
    folder = tmp_path_factory.mktemp("archived")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stratalog.broker.archive.group_copies.ROUND_SECONDS", 0.1)
        broker = Broker(stratalog_loop, str(folder / "data"), f"file://{folder}/bucket")
        try:
            return _fill(broker) | {"folder": folder / "bucket"}
        finally:
            broker.stop()


def _fill(broker):
    with Client(broker.address) as client:
        create_topic(
            client,
            "orders",
            partition_count=2,
            configs={"remote.storage.enable": "true", "segment.bytes": "1048576", "internal.segment.bytes": "2000"},
        )
    idempotent = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    idempotent.produce("orders", b"once", partition=0)
    assert idempotent.flush(20) == 0
    for partition in (0, 1):
        broker.produce("orders", partition, [b"%d-%d-%s" % (partition, at, b"x" * 20) for at in range(COUNT)])
    for partition in (0, 1):
        until(
            lambda at=partition: broker.archived("orders", at) == broker.frozen("orders", at) > COUNT // 2,
            f"the archiving of orders-{partition}",
        )
    with Client(broker.address) as client:
        commit_offsets(client, "billing", {Partition("orders", 0): 50, Partition("orders", 1): COUNT})
    until(lambda: broker.node.housekeeping.group_copies.settled("billing"), "the copy of the group")
    ends = {partition: broker.archived("orders", partition) for partition in (0, 1)}
    return {
        "records": {at: broker.read("orders", at)[: ends[at]] for at in (0, 1)},
        "ends": ends,
        "topic_id": broker.node.image.topics.by_name["orders"].topic_id,
        "configs": dict(broker.node.image.topic_configs("orders")),
        "cluster_id": broker.node.cluster_id,
        "producers": set(_log(broker, 0).producer_state.entries),
        "epoch": _log(broker, 0).leader_epochs.latest_epoch,
        "next_producer_id": broker.node.image.next_producer_id,
    }


def _log(broker, partition):
    return broker.node.partitions.by_name("orders", partition).log


@pytest.fixture
def lost(archived, tmp_path):
    """The same, with a bucket of the test's own."""
    shutil.copytree(archived["folder"], tmp_path / "bucket")
    bucket = tmp_path / "bucket"
    return archived | {"bucket": f"file://{bucket}", "store": LocalStore(str(bucket), sync=False)}


def restore(*arguments):
    """The command."""
    result = CliRunner().invoke(cli, ["restore", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.mark.story
@pytest.mark.parametrize("damage", ["nothing", "manifest", "manifest and description"])
def test_everything_archived_is_there_again(brokers, tmp_path, lost, damage):
    """Records by a real client, ids, settings, offsets, groups; and the cluster goes on where it was."""
    store = lost["store"]
    if damage != "nothing":
        keys = [info.key for info in store.list("topics/")]
        store.delete_many([key for key in keys if key.endswith("0000000001/manifest.json")])
        if damage == "manifest and description":
            store.delete_many([key for key in keys if key.endswith("topic.json")])
    told = restore("--bucket", lost["bucket"], "--data", tmp_path / "again", "--takeover")
    assert "Restored 1 topics, 2 partitions" in told
    assert ("rebuilt" in told) == (damage != "nothing")
    broker = brokers(tmp_path / "again", lost["bucket"])
    assert broker.node.cluster_id == lost["cluster_id"]
    assert broker.node.image.topics.by_name["orders"].topic_id == lost["topic_id"]
    if damage != "manifest and description":
        assert broker.node.image.topic_configs("orders") == lost["configs"]
    for partition in (0, 1):
        assert broker.read("orders", partition) == lost["records"][partition]
    log_ = _log(broker, 0)
    assert lost["producers"]
    assert set(log_.producer_state.entries) == lost["producers"]
    assert broker.node.image.next_producer_id >= lost["next_producer_id"]
    assert log_.leader_epochs.latest_epoch > lost["epoch"]
    assert log_.leader_epochs.entries[0] == (lost["epoch"], 0)
    with Client(broker.address) as client:
        assert {one.partition: found.offset for one, found in committed_offsets(client, "billing").items()} == {
            0: 50,
            1: lost["ends"][1],
        }
    broker.produce("orders", 1, [b"new-%d" % at for at in range(200)])
    if damage != "manifest and description":
        until(lambda: broker.archived("orders", 1) > lost["ends"][1], "the archiving after the restore")
    values = [value for _, value in broker.read("orders", 1, lost["ends"][1])]
    assert values == [b"new-%d" % at for at in range(200)]


@pytest.mark.story
def test_without_takeover_nothing_is_written_to_the_bucket(brokers, tmp_path, lost):
    """A drill beside the old cluster: its records are served, new ones stay local, the manifests stay as they are."""
    store = lost["store"]
    before = {info.key: store.get(info.key)[0] for info in store.list("")}
    restore("--bucket", lost["bucket"], "--data", tmp_path / "drill")
    broker = brokers(tmp_path / "drill", lost["bucket"])
    assert broker.read("orders", 0) == lost["records"][0]
    broker.produce("orders", 0, [b"local-%d" % at for at in range(200)])
    log_ = broker.node.partitions.by_name("orders", 0).log
    until(lambda: log_.active_base_offset > lost["ends"][0], "a frozen segment")
    until(
        lambda: broker.node.tiering.describe(broker.node.partitions.by_name("orders", 0)).state == "fenced",
        "standing down",
    )
    broker.stop()
    assert {info.key: store.get(info.key)[0] for info in store.list("")} == before


@pytest.mark.story
def test_a_drill_whose_archive_has_an_owner_that_goes_on_serves_its_own_records(brokers, tmp_path, lost):
    """Beyond the restore the owner's offsets are other records; also after a restart, and as much as is cached."""
    restore("--bucket", lost["bucket"], "--data", tmp_path / "drill")
    restore("--bucket", lost["bucket"], "--data", tmp_path / "owner", "--takeover")
    owner = brokers(tmp_path / "owner", lost["bucket"])
    owner.produce("orders", 0, [b"owner-%d" % at for at in range(200)])
    until(lambda: owner.archived("orders", 0) > lost["ends"][0], "the archiving by the owner")
    owner.stop()
    drill = brokers(tmp_path / "drill", lost["bucket"])
    mine = [b"local-%d" % at for at in range(50)]
    drill.produce("orders", 0, mine)
    wanted = [value for _, value in lost["records"][0]] + mine
    for size_bytes in (3_000, 1_000_000):  # a reader that reads on has all fetched ahead of it
        found = drill.read("orders", 0, **{"fetch.message.max.bytes": size_bytes})
        assert [value for _, value in found] == wanted
    drill.stop()
    drill = brokers(tmp_path / "drill", lost["bucket"])
    assert [value for _, value in drill.read("orders", 0)] == wanted
    drill.produce("orders", 0, [b"more"])
    assert drill.read("orders", 0)[-1][1] == b"more"


@pytest.mark.story
@pytest.mark.parametrize("kept", [True, False])
def test_going_back_to_a_cut_brings_back_what_it_held(brokers, tmp_path, lost, kept):
    """Records that retention has removed since are there again, those written since are not; the cluster goes on from
    the cut.

    Groups go on where they were; where the cut's document of them is gone, where they came later, and that is said.
    """
    store = lost["store"]
    partition = PartitionId("orders", lost["topic_id"], 0)
    assert CliRunner().invoke(cli, ["cut", "create", "monday", "--bucket", lost["bucket"]]).exit_code == 0
    restore("--bucket", lost["bucket"], "--data", tmp_path / "later", "--takeover")
    later = brokers(tmp_path / "later", lost["bucket"])
    later.produce("orders", 0, [b"later-%d" % at for at in range(200)])
    until(lambda: later.archived("orders", 0) > lost["ends"][0], "the archiving after the cut")
    admin = AdminClient({"bootstrap.servers": later.address})
    for deleted in admin.delete_records([TopicPartition("orders", 0, 100)]).values():
        assert deleted.result(20).low_watermark == 100
    del admin  # it would go on looking for the broker
    until(lambda: read_manifest(store, partition).manifest.log_start_offset == 100, "the log start in the bucket")
    later.stop()
    refused = CliRunner().invoke(
        cli, ["restore", "--bucket", lost["bucket"], "--data", str(tmp_path / "x"), "--cut", "monday"]
    )
    assert refused.exit_code == 2
    later_offset = OffsetCopy("orders", lost["topic_id"], 0, 90)
    write_projection(store, group_copy_projection(lost["cluster_id"], "billing", [later_offset], 1))
    if not kept:
        store.delete_many([info.key for info in store.list("") if info.key.endswith("/groups.json")])
    told = restore("--bucket", lost["bucket"], "--data", tmp_path / "again", "--takeover", "--cut", "monday")
    assert ("is lost" in told) is not kept
    broker = brokers(tmp_path / "again", lost["bucket"])
    with Client(broker.address) as client:
        offsets = {one.partition: found.offset for one, found in committed_offsets(client, "billing").items()}
    assert offsets == ({0: 50, 1: lost["ends"][1]} if kept else {0: 90})
    for number in (0, 1):
        assert broker.read("orders", number) == lost["records"][number]
    broker.produce("orders", 0, [b"again-%d" % at for at in range(200)])
    until(lambda: broker.archived("orders", 0) > lost["ends"][0], "the archiving after the restore")
    assert broker.read("orders", 0, lost["ends"][0])[0] == (lost["ends"][0], b"again-0")
    verified = CliRunner().invoke(cli, ["tier", "verify", "--deep", "--bucket", lost["bucket"]])
    assert verified.exit_code == 0, verified.output


def epochs(tmp_path, *, shown, incarnation):
    """The leader epochs of a restored topic: of a partition with an archive, and of one without."""
    partition = PartitionId("t", bytes(16), 0)
    manifest = Manifest(partition, seq=1, claimant=Claimant(incarnation, shown, b"o" * 16, 1))
    topic = ArchivedTopic("t", bytes(16), 2, {"remote.storage.enable": "true"}, "c1")
    state = BucketState("c1", incarnation, topics=(topic,), partitions=(PartitionState(partition, manifest),))
    restorer = Restorer(state, str(tmp_path), node_id=1, incarnation=incarnation + 1, now_ms=5, producers_of=None)
    (restored,) = restorer._topics()
    return restored.leader_epochs


def test_leader_epochs_are_above_those_that_left_no_trace_in_the_bucket(tmp_path):
    """Clients know them, and would take no leader of a lower one. Also after a second restore."""
    first = epochs(tmp_path, shown=4, incarnation=0)
    assert min(first) > 50_000
    unclaimed = epochs(tmp_path, shown=4, incarnation=1)
    claimed = epochs(tmp_path, shown=first[0] + 9, incarnation=1)
    assert min(claimed[0], *unclaimed) > max(first) + 50_000
    assert epochs(tmp_path, shown=(1 << 31) - 2, incarnation=40_000) == [(1 << 31) - 2, 1 << 30]


def test_producer_ids_are_above_those_that_left_no_trace_in_the_bucket(tmp_path):
    """Producers run on under them: a batch under an id that was given out twice is answered as a repetition, and not appended."""
    found = []
    for name, uuid in (("first", bytes(16)), ("second", b"\x3f" * 16)):
        topic = ArchivedTopic("t", bytes(16), 1, {"remote.storage.enable": "true"}, "c1")
        state = BucketState("c1", 0, topics=(topic,))
        data, again = str(tmp_path / name), lambda uuid=uuid: uuid
        restorer = Restorer(
            state,
            data,
            node_id=1,
            incarnation=1,
            now_ms=5,
            producers_of=lambda _: ArchivedProducers(),
            random_uuid=again,
        )
        restorer._next_producer_id = 7000
        restorer.run()
        log_ = (tmp_path / name / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
        values = [record.value for at in batch_starts(log_) for record in iter_records(log_, at)]
        records = [decode_record(value) for value in values]
        found += [record.next_producer_id for record in records if isinstance(record, ProducerIdsRecord)]
    assert found[0] > 1 << 20  # of the next era
    assert found[1] > found[0] + (1 << 40)  # the dice say which


def batch_starts(log_):
    """Positions of the batches of log bytes."""
    at = 0
    while at < len(log_):
        yield at
        at += read_header(log_, at).size_bytes


@pytest.mark.story
def test_hostile_topics_are_skipped_and_the_rest_is_restored(brokers, lost, tmp_path):
    """A description with a path for a name, and topics with the names of the broker's own: said, and nothing else."""
    store = lost["store"]
    for number, name in enumerate(("../../../../tmp/x", "__consumer_offsets", "__cluster_metadata"), 1):
        topic_id = bytes([number]) * 16
        document = {"format": "stratalog-topic", "version": 1, "topic": name, "topic_id": uuid_text(topic_id)}
        key = topic_key("evil" if "/" in name else name, topic_id)
        store.put(key, json.dumps({**document, "partitions": 1, "configs": {}}).encode())
        store.put(PartitionId(key.split("/")[1][:-23], topic_id, 0).manifest_key, b"{}")
    told = restore("--bucket", lost["bucket"], "--data", tmp_path / "again", "--takeover")
    assert "has a name that no topic may have" in told
    for name in ("__consumer_offsets", "__cluster_metadata"):
        assert f"topic {name} is left out: a broker has an internal topic of this name" in told
    broker = brokers(tmp_path / "again", lost["bucket"])
    assert broker.read("orders", 0) == lost["records"][0]
    assert not (tmp_path.parent / "tmp").exists()
