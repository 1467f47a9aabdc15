"""Views by unmodified clients: which take an ``@`` in the name of a topic, and which need the other spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut
from stratalog.wire.batch import Record, build_batch

NOVEMBER_MS = 1_793_491_200_000
NAMES = ("orders@nightly", "orders@2026-11-01T00:00Z", "orders..at..nightly", "orders..at..2026-11-01T0000Z")


@pytest.fixture(scope="module")
def address(start_shared_node, tmp_path_factory) -> str:
    """A mounted bucket with ten records of ``orders``, five of them from before November, in a cut."""
    node = start_shared_node()
    node.stop()
    store = LocalStore(f"{node.directory}/bucket", sync=False)
    records = [Record(at, NOVEMBER_MS + 1000 * (at - 5), None, b"%d" % at) for at in range(10)]
    topic_id = os.urandom(16)
    archive_log(store, PartitionId("orders", topic_id, 0), [bytes(build_batch(records, leader_epoch=0))], now_ms=1)
    create_cut(store, "nightly", now_ms=1)
    node.directory = str(tmp_path_factory.mktemp("mounted"))
    Path(node.directory, "bucket").symlink_to(store.url.removeprefix("file://"))
    node.settings["stratalog.read.only"] = "true"
    return node.start().address


def count(name: str) -> int:
    """The records of a view."""
    return 10 if name.endswith("nightly") else 5


@pytest.mark.story
@pytest.mark.parametrize("name", NAMES)
def test_librdkafka_reads_every_view(address, name):
    """Assigned, and as a member of a group."""
    for subscribed in (False, True):
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"g-{name}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        if subscribed:
            consumer.subscribe([name])
        else:
            consumer.assign([TopicPartition(name, 0, 0)])
        found = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value())
        assert found == [b"%d" % at for at in range(count(name))]
        consumer.close()


@pytest.mark.parametrize("name", NAMES)
def test_kafka_python_takes_the_other_spelling(address, name):
    """It refuses an ``@`` before it asks anybody, assigned or subscribed."""
    consumer = KafkaConsumer(
        bootstrap_servers=address, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    try:
        if "@" in name:
            for ask in (consumer.subscribe, lambda names: consumer.assign([KafkaPythonPartition(names[0], 0)])):
                with pytest.raises(ValueError, match="illegal"):
                    ask([name])
                consumer.unsubscribe()
            return
        consumer.subscribe([name])
        found = [next(consumer).value for _ in range(count(name))]
        assert found == [b"%d" % at for at in range(count(name))]
        assert consumer.end_offsets([KafkaPythonPartition(name, 0)]) == {KafkaPythonPartition(name, 0): count(name)}
    finally:
        consumer.close()
