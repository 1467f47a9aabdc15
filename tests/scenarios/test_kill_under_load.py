"""kill -9 while producers with acks=all are writing: nothing acknowledged is lost, nothing is doubled."""

import random
import signal
import threading
import time

import pytest
from confluent_kafka import Producer

from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.client.records import fetch, visible_records
from stratalog.wire.topic import TopicPartition

PARTITIONS = 3


class Load:
    """An idempotent producer that numbers what it sends to each partition, and notes what was acknowledged where."""

    def __init__(self, address: str) -> None:
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.failed: list[str] = []
        self.sent = [0] * PARTITIONS
        self._ended = False
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            for partition in range(PARTITIONS):
                number = self.sent[partition]
                self.sent[partition] += 1
                self._producer.produce(
                    "t", value=b"%d" % number + b"." * 200, partition=partition, on_delivery=self._delivered
                )
            self._producer.poll(0)
            if len(self._producer) > 2000:
                self._producer.poll(0.02)
            else:
                time.sleep(0.0005)

    def _delivered(self, error, message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        number = int(message.value().rstrip(b".") or 0)
        self.acknowledged[message.partition(), number] = message.offset()

    def end(self) -> None:
        """Send nothing more and wait until everything is acknowledged."""
        self._ended = True
        self._thread.join()
        assert self._producer.flush(60) == 0


def read_all(address: str) -> dict[int, list[int]]:
    """The numbers in each partition, in the order of their offsets, checked to be without gaps."""
    found: dict[int, list[int]] = {}
    with Client(address) as client:
        for partition in range(PARTITIONS):
            name, offset, numbers = TopicPartition("t", partition), 0, []
            while True:
                (fetched,) = fetch(client, {name: offset}, max_wait_ms=0)
                for next_offset, records in visible_records(fetched, offset):
                    assert [record.offset for record in records] == list(range(offset, next_offset))
                    numbers += [int(record.value.rstrip(b".") or 0) for record in records]
                    offset = next_offset
                if offset >= fetched.high_watermark:
                    break
            found[partition] = numbers
    return found


def kill_and_check(serve_process, kills: int) -> None:
    dice = random.Random(kills)
    broker = serve_process(log_segment_bytes=1 << 20)
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=PARTITIONS)
    load = Load(broker.address)
    for _ in range(kills):
        before = len(load.acknowledged)
        end = time.monotonic() + 60
        while len(load.acknowledged) < before + dice.randrange(50, 1500):
            assert time.monotonic() < end, broker.errors()
            time.sleep(0.002)
        broker.end(signal.SIGKILL)
        broker.start()
    load.end()
    assert load.failed == []
    broker.end(signal.SIGKILL)
    broker.start()
    found = read_all(broker.address)
    for partition, numbers in found.items():
        assert numbers == list(range(load.sent[partition])), "lost, doubled or out of order"
    for (partition, number), offset in load.acknowledged.items():
        assert found[partition][offset] == number
    assert broker.end(signal.SIGTERM) == 0


@pytest.mark.story
def test_three_kills_lose_and_double_nothing(serve_process):
    """Every record once, in order, at the offset that was acknowledged."""
    kill_and_check(serve_process, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_lose_and_double_nothing(serve_process):
    """The same, fifty times over the same files."""
    kill_and_check(serve_process, 50)
