"""A whole broker in a thread of the test process."""

import asyncio
import socket
import threading
import urllib.request

import pytest

from stratalog.broker.embedded import EmbeddedBroker, LoopThread
from stratalog.client.client import Client
from stratalog.client.records import NewRecord, Producer, fetch, visible_records
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.tier.stores.opening import open_store
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition


@pytest.fixture
def embedded(stratalog_loop, tmp_path):
    """Makes brokers that are gone after the test."""
    brokers = []

    def make(**settings):
        named = {name.replace("_", "."): value for name, value in settings.items()}
        brokers.append(EmbeddedBroker(str(tmp_path / str(len(brokers))), stratalog_loop, named))
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.discard()


def produce(broker, topic, *values):
    with Client(broker.bootstrap_servers) as client:
        Producer(client, topic).send([NewRecord(value, 1_700_000_000_000, partition=0) for value in values])


def read(broker, topic):
    with Client(broker.bootstrap_servers) as client:
        (fetched,) = fetch(client, {TopicPartition(topic, 0): 0}, max_wait_ms=0)
        return [record.value for _, records in visible_records(fetched, 0) for record in records]


def test_records_are_there_after_a_restart_on_the_same_port(embedded):
    """Clients find the broker where it was."""
    broker = embedded().start()
    address = broker.bootstrap_servers
    created = broker.create_topic("t", partitions=2, segment_bytes=2_000_000)
    assert created.partition_count == 2
    produce(broker, "t", b"one", b"two")
    broker.restart()
    assert broker.bootstrap_servers == address
    assert read(broker, "t") == [b"one", b"two"]
    assert broker.node.partitions.by_name("t", 1).log.config.segment_bytes == 2_000_000


def test_brokers_live_side_by_side(embedded):
    """Each with its own port, files and bucket."""
    one, two = embedded().start(), embedded(num_partitions=3).start()
    one.create_topic("t")
    assert "t" not in two.node.image.topics.by_name
    assert two.create_topic("u", partitions=-1).partition_count == 3
    assert one.port != two.port
    one.stop()
    assert two.create_topic("v").partition_count == 1


def test_a_stopped_broker_is_gone(embedded):
    """Its port is closed, and calls of it raise an error."""
    broker = embedded().start()
    port = broker.port
    broker.stop()
    broker.stop()
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port)):
        pass
    with pytest.raises(RuntimeError, match="stopped"):
        _ = broker.bootstrap_servers


def test_settings_that_cannot_be_stop_the_start(embedded):
    """The error is that of the broker's own start."""
    with pytest.raises(Invalid, match=r"no\.such"):
        embedded(no_such="1").start()


def test_the_store_fails_on_demand(embedded):
    """Uploads stop while every request to the bucket fails; afterwards everything is archived."""
    broker = embedded().start()
    broker.create_topic("t", remote_storage_enable="true", internal_segment_bytes=2000, retention_ms=-1)
    broker.fail_store(FaultRule(Fault.FAIL_BEFORE, count=None))
    for _ in range(3):
        produce(broker, "t", b"x" * 1500)
    unified = broker.node.partitions.by_name("t", 0)
    _wait(lambda: broker.store.injected)
    assert unified.remote.end_offset == 0
    broker.fail_store()
    _wait(lambda: unified.remote.end_offset == unified.log.active_base_offset == 2)
    assert any(key.endswith(".seg") for key in broker.archived_keys())
    assert read(broker, "t")[0] == b"x" * 1500


def _wait(condition):
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("what was waited for did not happen")


def test_the_bucket_of_a_discarded_broker_is_forgotten(embedded):
    """Its URL names another store then."""
    broker = embedded().start()
    url = broker.store.inner.url
    assert open_store(url) is broker.store
    broker.discard()
    assert open_store(url) is not broker.store


def test_metrics_are_served(embedded):
    """At the URL that the broker tells."""
    broker = embedded().start()
    with urllib.request.urlopen(f"{broker.http_url}/metrics") as answer:
        assert b"stratalog_" in answer.read()


def test_a_loop_ends_with_its_thread():
    """Tasks that still run on it are cancelled."""
    thread = LoopThread()
    ended = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def begin():
        thread.kept = asyncio.create_task(forever())

    thread.run(begin)
    thread.run(lambda: asyncio.sleep(0))
    thread.close()
    assert ended == [True]
    assert not thread._thread.is_alive()
