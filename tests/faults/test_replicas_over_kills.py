"""Partitions with three replicas, producers that wait for all, and nodes that are killed: nothing acknowledged is lost."""

import random
import struct
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.story

PARTITIONS = 6
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "log.retention.check.interval.ms": "1000",
}
PLAIN = {"min.insync.replicas": "2"}
TIERED = {**PLAIN, "remote.storage.enable": "true", "segment.ms": "1000", "local.retention.ms": "500"}
"""Segments are archived, and leave the disks, while the test runs."""


@pytest.fixture
def cluster(stratalog_cluster, request):
    """Three nodes with a topic of three replicas; two have to be in sync."""
    one = stratalog_cluster(nodes=3, settings=SETTINGS)
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    for made in admin.create_topics([NewTopic("t", PARTITIONS, 3, config=request.param)]).values():
        made.result()
    return one


plain_and_tiered = pytest.mark.parametrize("cluster", [PLAIN, TIERED], ids=["plain", "tiered"], indirect=True)


class Producing:
    """An idempotent producer that goes on until it is ended, and what was acknowledged of it."""

    def __init__(self, bootstrap):
        self.acknowledged = defaultdict(dict)
        self.failed = []
        self._ends = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 60_000, "linger.ms": 2}
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._ends.is_set():
            self._producer.produce("t", b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told)
            number += 1
            self._producer.poll(0.002)

    def _told(self, error, message):
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()][message.offset()] = message.value()

    def end(self):
        """Wait for what is on its way."""
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


def read_all(bootstrap):
    """Every record, by partition and offset, in the order in which they came."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    ends = [consumer.get_watermark_offsets(TopicPartition("t", number), timeout=20)[1] for number in range(PARTITIONS)]
    found = defaultdict(list)
    deadline = time.monotonic() + 60
    while sum(map(len, found.values())) < sum(ends):
        assert time.monotonic() < deadline, (ends, {number: len(records) for number, records in found.items()})
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found[message.partition()].append((message.offset(), message.value()))
    consumer.close()
    return found


def segments_of(cluster, node_id, number):
    """The segments of a partition on a node, oldest first: each is named by its first offset."""
    return sorted(Path(cluster.directory).glob(f"**/node-{node_id}*/**/t-{number}/*.log"))


def batches_of(cluster, node_id, number):
    """The batches of a partition on a node, by their first offsets."""
    data = b"".join(path.read_bytes() for path in segments_of(cluster, node_id, number))
    found, position = {}, 0
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        found[base_offset] = data[position : position + 12 + length]
        position += 12 + length
    return found


def first_local_offset(cluster):
    """The smallest offset at which a partition begins on the disk of node 1."""
    return min(int(segments_of(cluster, 1, number)[0].stem) for number in range(PARTITIONS))


def assert_equal_logs(cluster):
    """All nodes have the same batches from the newest offset on at which one of them begins."""
    for number in range(PARTITIONS):
        logs = [batches_of(cluster, node_id, number) for node_id in cluster.node_ids]
        begin = max(int(segments_of(cluster, node_id, number)[0].stem) for node_id in cluster.node_ids)
        kept = [{offset: batch for offset, batch in one.items() if offset >= begin} for one in logs]
        assert kept[0] == kept[1] == kept[2], (number, begin, [list(one)[-1:] for one in kept])


@pytest.mark.parametrize("how", ["kill", "stop"])
@plain_and_tiered
def test_an_acknowledged_record_is_read_once_and_in_order(cluster, how):
    """Each node goes once, at any moment, and comes back; then all replicas have the same bytes."""
    producing = Producing(cluster.bootstrap)
    order = list(cluster.node_ids)
    random.Random(7).shuffle(order)
    for node_id in order:
        time.sleep(2)
        getattr(cluster, how)(node_id)
        time.sleep(2)
        cluster.start(node_id)
        cluster.wait_ready()
    producing.end()
    found = read_all(cluster.bootstrap)
    assert producing.failed == []
    for number in range(PARTITIONS):
        assert dict(found[number]) == producing.acknowledged[number]
        values = [int(value) for _, value in found[number]]
        assert values == sorted(set(values))
    time.sleep(2)
    for node_id in cluster.node_ids:
        cluster.stop(node_id)
    assert_equal_logs(cluster)


@plain_and_tiered
def test_a_lost_disk_is_filled_again(cluster, request):
    """A node that comes back without its partitions copies them, and joins the in-sync sets."""
    producing = Producing(cluster.bootstrap)
    time.sleep(2)
    is_tiered = request.node.callspec.params["cluster"] is TIERED
    deadline = time.monotonic() + 60
    while is_tiered and first_local_offset(cluster) == 0:  # until all partitions have left some records to the archive
        assert time.monotonic() < deadline
        time.sleep(0.1)
    cluster.kill(2)
    archived = first_local_offset(cluster)
    for path in Path(cluster.directory).glob("**/node-2*/**/t-*/*"):
        path.unlink()
    cluster.start(2)
    cluster.wait_ready()
    time.sleep(2)
    producing.end()
    found = read_all(cluster.bootstrap)
    assert {number: dict(records) for number, records in found.items()} == producing.acknowledged
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deadline = time.monotonic() + 30
    while any(len(one.isrs) < 3 for one in admin.list_topics("t", 10).topics["t"].partitions.values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(2)
    for node_id in cluster.node_ids:
        cluster.stop(node_id)
    assert_equal_logs(cluster)
    for number in range(PARTITIONS):  # what the archive has is not copied
        assert int(segments_of(cluster, 2, number)[0].stem) >= archived
    assert (archived > 0) is is_tiered
