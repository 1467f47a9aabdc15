"""Markers on their way: tried until they stand."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators import marker_writer
from stratalog.broker.coordinators.marker_writer import MarkerWriter
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import MarkersWritten, SendMarkers
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

T0, T1, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)
PRODUCER = Producer(7, 3)


class Bench:
    """A shard's driver, a cluster of one topic, and partitions that answer as the test says."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(marker_writer, "RETRY_SECONDS", 0)
        self.answers = {}
        self.open = {T0, T1}
        self.tries, self.reports = [], []
        self.epoch, self.active, self.shard = 5, True, object()
        topics = {"t": SimpleNamespace(partitions={0: None, 1: None})}
        image = SimpleNamespace(topics=SimpleNamespace(by_name=topics))
        self.topics = topics
        self.writer = MarkerWriter(self, lambda: image)

    def write(self, partition, marker, done):
        self.tries.append((partition, marker.coordinator_epoch, marker.commit))
        answers = self.answers.get(partition)
        if answers and isinstance(answers[0], str):
            raise RuntimeError(answers.pop(0))
        done(KafkaError(answers.pop(0)) if answers else None)

    def has_nothing_open(self, partition, producer_id):
        assert producer_id == PRODUCER.producer_id
        return partition not in self.open

    def ask(self, event):
        assert isinstance(event, MarkersWritten)
        assert (event.transactional_id, event.producer) == ("x", PRODUCER)
        self.reports += event.partitions

    def send(self, *partitions):
        self.writer.send(self, SendMarkers("x", PRODUCER, True, 2, frozenset(partitions)))

    async def pause(self):
        for _ in range(10):
            await asyncio.sleep(0.001)


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


async def test_every_partition_gets_one_marker_and_is_reported(bench):
    """With the epoch of the coordinator's partition."""
    bench.send(T1, T0)
    assert bench.tries == [(T0, 5, True), (T1, 5, True)]
    assert bench.reports == [T0, T1]


async def test_a_partition_that_cannot_take_it_is_tried_again(bench):
    """Offline, not led yet, too few replicas, a group coordinator that loads: until it can."""
    bench.answers[T0] = [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    bench.send(T0, T1)
    assert bench.reports == [T1]
    await bench.pause()
    assert bench.reports == [T1, T0]
    assert len(bench.tries) == 6


async def test_a_partition_that_is_deleted_has_its_end(bench):
    """Before the first try, and while it is being tried."""
    bench.send(GONE)
    assert (bench.tries, bench.reports) == ([], [GONE])
    bench.answers[T0] = [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    bench.send(T0)
    del bench.topics["t"]
    await bench.pause()
    assert bench.reports == [GONE, T0]


async def test_a_newer_epoch_in_the_partition_means_that_it_is_ended(bench):
    """There is nothing of this transaction that could be open."""
    bench.answers[T0] = [ErrorCode.INVALID_PRODUCER_EPOCH]
    bench.send(T0)
    assert bench.reports == [T0]


async def test_a_marker_that_a_stranger_outran_is_tried_again(bench):
    """TRANSACTION_COORDINATOR_FENCED may come from one who wrote markers by hand; who was followed is not active."""
    bench.answers[T0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    bench.send(T0)
    await bench.pause()
    assert (len(bench.tries), bench.reports) == (2, [T0])


async def test_a_partition_that_knows_a_newer_coordinator_and_has_nothing_open_needs_no_marker(bench):
    """The coordinator's disk went back over several starts: its epoch may never come up to that of the archive."""
    bench.answers[T0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 10_000
    bench.send(T0)
    await bench.pause()
    assert bench.reports == []
    bench.open.clear()
    await bench.pause()
    assert bench.reports == [T0]
    bench.answers[T0] = [ErrorCode.KAFKA_STORAGE_ERROR]  # that is no answer to the question
    bench.send(T0)
    assert bench.reports == [T0]


async def test_a_dropped_shard_gets_no_answer(bench):
    """The one loaded in its place sends the markers anew; the same while the broker stops."""
    bench.answers[T0] = [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    bench.send(T0)
    bench.shard = object()
    await bench.pause()
    assert (len(bench.tries), bench.reports) == (1, [])
    bench.active = False
    bench.send(T0, T1)
    await bench.pause()
    assert (len(bench.tries), bench.reports) == (1, [])


async def test_partitions_that_others_lead_get_their_markers_by_way_of_them(bench):
    """Until this broker leads them: then here."""
    sent = []

    class Others:
        away = True

        def elsewhere(self, partition):
            return self.away and partition == T1

        def write(self, *what):
            sent.append(what)

    others = Others()
    bench.writer = MarkerWriter(bench, bench.writer._image, others)
    bench.send(T0, T1)
    assert ([one[0] for one in bench.tries], bench.reports) == ([T0], [T0])
    ((partition, marker, done, wanted),) = sent
    assert (partition, marker.producer, marker.coordinator_epoch, wanted()) == (T1, PRODUCER, 5, True)
    others.away = False
    done(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await bench.pause()
    assert (bench.tries[1:], bench.reports) == ([(T1, 5, True)], [T0, T1])
    bench.shard = object()
    assert not wanted()


async def test_a_marker_whose_write_ends_in_an_error_is_tried_again(bench, caplog):
    """The transaction would be undecided for ever, and its other partitions without their markers."""
    bench.answers[T0] = ["a mistake", ErrorCode.KAFKA_STORAGE_ERROR, "a mistake"]
    bench.send(T0, T1)
    assert bench.reports == [T1]
    await bench.pause()
    assert bench.reports == [T1, T0]
    assert len(bench.tries) == 5
    assert "the end of x was not taken by t-0" in caplog.text


async def test_a_turn_of_the_loop_begins_few_deliveries(bench, monkeypatch):
    """Also where many transactions end at once, and where all are tried again; in the order in which they were asked for."""
    monkeypatch.setattr(marker_writer, "RETRY_SECONDS", 0.02)
    partitions = [TopicPartition("t", number) for number in range(300)]
    bench.topics["t"] = SimpleNamespace(partitions=dict.fromkeys(range(300)))
    bench.answers = {one: [ErrorCode.KAFKA_STORAGE_ERROR] for one in partitions}
    begun = []

    async def tried(count):
        while len(bench.tries) < count:
            begun.append(len(bench.tries) - sum(begun))
            await asyncio.sleep(0)
        begun.append(len(bench.tries) - sum(begun))

    for number in range(0, 300, 100):
        bench.send(*partitions[number : number + 100])
    await tried(300)
    time.sleep(0.03)  # noqa: ASYNC251 - all are due at once when the loop goes on
    await tried(600)
    assert max(begun) <= 2 * marker_writer._A_TURN  # parts of two turns may lie between two looks
    assert bench.reports == partitions
    bench.send(T0)
    assert bench.reports == [*partitions, T0]
