"""The small client against a real broker, and against what is none."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from stratalog.broker.client import Client
from stratalog.broker.client_records import NewRecord, Producer
from stratalog.spark import kafka_client
from stratalog.spark.kafka_client import EARLIEST_OFFSET, LATEST_OFFSET, BrokerAway, KafkaClient
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode, Invalid, KafkaError
from stratalog.wire.topic import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker(stratalog_broker: Any) -> Any:
    """Topic ``t`` of two partitions, with five records of the times 1000 to 1400 in the first."""
    stratalog_broker.create_topic("t", partitions=2)
    with Client(stratalog_broker.bootstrap_servers) as client:
        Producer(client, "t").send([NewRecord(b"v%d" % n, 1000 + 100 * n, partition=0) for n in range(5)])
    return stratalog_broker


def test_topics_offsets_and_records_are_told(broker: Any) -> None:
    """Of those that are there; ends and times are offsets; a fetch brings whole batches."""
    with KafkaClient(f"127.0.0.1:1,{broker.bootstrap_servers}") as client:
        assert {name: numbers for name, (_, numbers) in client.topics(["t", "nope"]).items()} == {"t": [0, 1]}
        assert set(client.topics()) == {"t"}
        assert client.list_offsets({T0: LATEST_OFFSET, T1: LATEST_OFFSET}, read_committed=True) == {T0: 5, T1: 0}
        assert client.list_offsets({T0: EARLIEST_OFFSET}, read_committed=False) == {T0: 0}
        assert client.list_offsets({T0: 1150}, read_committed=True) == {T0: 2}
        assert client.list_offsets({T0: 9999}, read_committed=True) == {T0: -1}
        fetched = client.fetch(T0, 3, read_committed=True, max_bytes=1 << 20, max_wait_ms=0)
        assert [header.next_offset for _, header in iter_headers(fetched.data)] == [5]
        assert fetched.aborted == ()


def test_what_a_broker_refuses_is_an_error_with_its_code(broker: Any) -> None:
    """And the place that was asked for."""
    with KafkaClient(broker.bootstrap_servers) as client:
        with pytest.raises(KafkaError, match="t-0 at offset 77") as refused:
            client.fetch(T0, 77, read_committed=True, max_bytes=1, max_wait_ms=0)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(KafkaError, match="t-9: the cluster has no such partition"):
            client.list_offsets({TopicPartition("t", 9): LATEST_OFFSET}, read_committed=True)


def test_a_broker_that_comes_back_is_asked_again(broker: Any) -> None:
    """A restart in between costs a new connection."""
    with KafkaClient(broker.bootstrap_servers) as client:
        assert client.list_offsets({T0: LATEST_OFFSET}, read_committed=True) == {T0: 5}
        broker.restart()
        assert client.list_offsets({T0: LATEST_OFFSET}, read_committed=True) == {T0: 5}


def test_a_broker_that_is_away_for_a_moment_is_waited_for(broker: Any) -> None:
    """Also while nothing listens on its port."""
    with KafkaClient(broker.bootstrap_servers) as client:
        client.topics()
        broker.stop()
        back = threading.Timer(0.5, broker.start)
        back.start()
        assert client.list_offsets({T0: LATEST_OFFSET}, read_committed=True) == {T0: 5}
        back.join()


def test_no_broker_and_no_kafka_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port, and a server that speaks something else."""
    monkeypatch.setattr(kafka_client, "TIMEOUT_SECONDS", 2.0)
    with KafkaClient("127.0.0.1:1") as client, pytest.raises(BrokerAway, match=r"broker 127\.0\.0\.1:1: "):
        client.topics()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with (
            KafkaClient(f"127.0.0.1:{server.getsockname()[1]}") as client,
            pytest.raises(BrokerAway, match="is this a Kafka port"),
        ):
            client.topics()
        thread.join()


@pytest.mark.parametrize("servers", ["", " , ", "host:port", ":9092"])
def test_addresses_are_checked(servers: str) -> None:
    """Before anybody is asked."""
    with pytest.raises(Invalid, match=r"kafka\.bootstrap\.servers"):
        KafkaClient(servers)
