"""A consumer that tells its rack reads from the follower there, and from the leader again when that one is gone (KIP-392)."""

import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.broker.local_cluster.cluster import LocalCluster
from stratalog.metadata.settings.catalogue.replication import RACK_AWARE_SELECTOR

pytestmark = pytest.mark.story

LEADER, NEAR, FAR = 1, 2, 3


@pytest.fixture
def cluster(stratalog_loop, tmp_path):
    """Three nodes, each in a rack of its own, with a partition that the first one leads."""
    settings = {"replica.selector.class": RACK_AWARE_SELECTOR, "log.retention.check.interval.ms": "1000"}
    one = LocalCluster(str(tmp_path / "c"), stratalog_loop, count=3, settings=settings)
    for node_id in one.node_ids:
        path = Path(one.directory, f"node-{node_id}.properties")
        path.write_text(path.read_text() + f"broker.rack=rack-{node_id}\n")
    try:
        one.start()
        one.wait_ready()
        yield one
    finally:
        one.discard()


class Reading:
    """A topic, its producer, and a consumer in the rack of the second node; counts where the bytes came from."""

    def __init__(self, cluster, config):
        self.cluster = cluster
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic("t", 1, replica_assignment=[[LEADER, NEAR, FAR]], config=config)
        for made in admin.create_topics([topic]).values():
            made.result()
        deadline = time.monotonic() + 30
        while len(admin.list_topics("t", 10).topics["t"].partitions[0].isrs) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        self.sent = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "client.rack": f"rack-{NEAR}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
            }
        )
        self.consumer.assign([TopicPartition("t", 0, 0)])
        self.read = []

    def send(self, count):
        """Records with their numbers, acknowledged when it returns."""
        for _ in range(count):
            self._producer.produce("t", b"%d" % self.sent)
            self.sent += 1
        assert self._producer.flush(60) == 0

    def read_all(self, seconds=40):
        """Read until everything that was sent has come; how long it took."""
        begun = time.monotonic()
        while len(self.read) < self.sent:
            assert time.monotonic() - begun < seconds, (len(self.read), self.sent)
            for one in self.consumer.consume(500, 0.05):
                if one.error() is None:
                    self.read.append(int(one.value()))
                else:
                    assert one.error().retriable() or not one.error().fatal(), one.error()
        assert self.read == list(range(self.sent))
        return time.monotonic() - begun

    def bytes_out(self, node_id):
        """The bytes of the topic that a node has given to consumers."""
        port = self.cluster._ports[node_id].http
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        name = "kafka_server_brokertopicmetrics_bytesout"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name) and 'topic="t"' in line)


def test_a_consumer_reads_near_and_goes_back_to_the_leader(cluster):
    """No record is lost or doubled, what is committed comes in time, and the leader serves when the follower is killed."""
    reading = Reading(cluster, {})
    reading.send(200)
    reading.read_all()
    before = reading.bytes_out(LEADER)
    waits = []
    for _ in range(20):
        reading.send(5)
        waits.append(reading.read_all())
    assert reading.bytes_out(NEAR) > 0
    assert reading.bytes_out(LEADER) == before  # all of it came from the follower
    assert sorted(waits)[len(waits) // 2] < 0.4  # and not with its next fetch, 500 ms later
    cluster.kill(NEAR)
    for _ in range(10):
        reading.send(20)
        time.sleep(0.1)
    reading.read_all()
    assert reading.bytes_out(LEADER) > before
    reading.consumer.close()
