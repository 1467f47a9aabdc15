"""A replica that is added is copied at the set rate, by the leader's throttle and by the follower's; others are not held up."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from stratalog.client.link import BrokerLink
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = pytest.mark.story

RATE = 2_000_000
COPIED = 20_000_000


class Copying:
    """A topic with a replica on the first node, which is copied to the second."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def make(self, topic, size_bytes):
        """A partition with so many bytes of records, on the first node alone."""
        host, port = self.cluster.address(1).split(":")
        for made in self.admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1]])]).values():
            made.result()
        producer = Producer({"bootstrap.servers": f"{host}:{port}", "linger.ms": 20})
        for _ in range(size_bytes // 10_000):
            producer.produce(topic, bytes(10_000))
        assert producer.flush(60) == 0

    def set(self, kind, name, setting, value):
        """One setting, as kafka-configs sets it."""
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result()

    def add_replica(self, topic):
        host, port = self.cluster.address(1).split(":")
        wanted = ReassignablePartition(partition_index=0, replicas=[1, 2])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[wanted])])
        with BrokerLink(host, int(port)) as link:
            assert link.call(request, 0).responses[0].partitions[0].error_code == 0

    def seconds_to_be_in_sync(self, topic, most):
        begun = time.monotonic()
        while len(self.admin.list_topics(topic, 10).topics[topic].partitions[0].isrs) < 2:
            assert time.monotonic() - begun < most
            time.sleep(0.05)
        return time.monotonic() - begun

    def copied_bytes(self, topic):
        """The bytes of records on the second node's disk."""
        paths = Path(self.cluster.directory).glob(f"node-2/**/{topic}-0/*.log")
        return sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_added_is_copied_at_the_rate(stratalog_cluster, side):
    """2 MB/s; a topic that is not throttled gets its replica meanwhile, and a rate that is raised holds at once."""
    copying = Copying(stratalog_cluster(nodes=2))
    copying.make("slow", COPIED)
    copying.make("quick", 4_000_000)
    throttled = {"leader": "1", "follower": "2"}[side]
    copying.set("broker", throttled, f"{side}.replication.throttled.rate", str(RATE))
    copying.set("topic", "slow", f"{side}.replication.throttled.replicas", f"0:{throttled}")
    begun = time.monotonic()
    copying.add_replica("slow")
    copying.add_replica("quick")
    copying.seconds_to_be_in_sync("quick", 4)
    assert copying.copied_bytes("slow") < 5 * RATE
    while copying.copied_bytes("slow") < COPIED * 3 // 4:
        assert time.monotonic() - begun < 60
        time.sleep(0.05)
    seconds, copied = time.monotonic() - begun, copying.copied_bytes("slow")
    rate = (copied - RATE) / seconds  # but for the first window
    assert 0.8 * RATE <= rate <= 1.1 * RATE, (rate, seconds)
    copying.set("broker", throttled, f"{side}.replication.throttled.rate", str(100 * RATE))
    assert copying.seconds_to_be_in_sync("slow", 10) < 2
