"""Partitions whose replicas are added, moved and removed under a producer: nothing acknowledged is lost, and no copy is left."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.client.link import BrokerLink
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = pytest.mark.story

SETTINGS = {
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "min.insync.replicas": "2",
}
TIERED = {"remote.storage.enable": "true", "segment.ms": "1000", "local.retention.ms": "500"}


class Moving:
    """One partition of one replica, its producer, and the moves that it is put through."""

    def __init__(self, cluster, config):
        self.cluster = cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for made in self.admin.create_topics([NewTopic("t", 1, 1, config=config)]).values():
            made.result()
        self.acknowledged = 0
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})

    def send(self, count):
        """Records that are acknowledged when it returns."""

        def told(error, _message):
            assert error is None
            self.acknowledged += 1

        for _ in range(count):
            self._producer.produce("t", b"v", on_delivery=told)
        assert self._producer.flush(60) == 0

    def replicas(self):
        """The assignment and the in-sync set."""
        found = self.admin.list_topics("t", 10).topics["t"].partitions[0]
        return sorted(found.replicas), sorted(found.isrs)

    def move(self, *replicas):
        """Ask for other replicas, and wait until all of them are in sync and no other is left."""
        host, port = self.cluster.address(min(self.cluster.running)).split(":")
        wanted = ReassignablePartition(partition_index=0, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[wanted])])
        with BrokerLink(host, int(port)) as link:
            assert link.call(request, 0).responses[0].partitions[0].error_code == 0
        deadline = time.monotonic() + 30
        while self.replicas() != (sorted(replicas), sorted(replicas)):
            assert time.monotonic() < deadline, self.replicas()
            self.send(20)

    def read(self):
        """How many records there are."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        count, deadline = 0, time.monotonic() + 30
        while count < self.acknowledged and time.monotonic() < deadline:
            count += sum(one.error() is None for one in consumer.consume(1000, 0.2))
        consumer.close()
        return count


@pytest.mark.parametrize("config", [{}, TIERED], ids=["plain", "tiered"])
def test_replicas_are_added_moved_and_removed(stratalog_cluster, config):
    """The leader epoch stays while replicas are added: the leader takes the assignment from each image.

    A broker that was away meanwhile keeps what it has of it aside when it comes back.
    """
    moving = Moving(stratalog_cluster(nodes=3, settings=SETTINGS), config)
    (first,), _ = moving.replicas()
    second, third = (node_id for node_id in moving.cluster.node_ids if node_id != first)
    for _ in range(3 if config else 1):
        moving.send(200)
        time.sleep(2 if config else 0)
    moving.move(first, second, third)
    moving.move(second)
    moving.move(third, first)
    assert moving.read() == moving.acknowledged
    moving.cluster.stop(third)
    moving.move(first, second)
    moving.cluster.start(third)
    directory = Path(moving.cluster.directory)
    deadline = time.monotonic() + 20
    while {path.parent.name for path in directory.glob("node-*/**/t-0")} != {f"node-{first}", f"node-{second}"}:
        assert time.monotonic() < deadline
        time.sleep(0.2)
