"""A stream that asks brokers for what is not archived yet: every row once, wherever the border is and whenever it moves."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from stratalog.client.client import Client
from stratalog.client.records import NewRecord
from stratalog.client.records import Producer as RecordProducer
from stratalog.spark.source import stream_driver, stream_follower
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.hot_tail import HotSlice, read_hot_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_options import parse_stream
from stratalog.spark.source.stream_tail import split_at
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.planning.slices import OffsetRange, SegmentSlice
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid, Retriable
from stratalog.wire.topic import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COLUMNS = ("key", "value", "partition", "offset", "timestamp", "headers")
EARLIEST = {"startingOffsets": "earliest"}
LIMITS = parse_stream({"maxOffsetsPerTrigger": "7"}).limits


def given_options(broker: Any, **options: str) -> dict[str, str]:
    always = {"path": "s3://b/p", "subscribe": "t", "lease": "false", "manifestRefresh": "0", "hotTailRefresh": "0"}
    return {**always, "kafka.bootstrap.servers": broker.bootstrap_servers, **options}


_drivers: list[StreamDriver] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for driver in _drivers:
        driver.close()
    _drivers.clear()


def stream(store: Any, broker: Any, **options: str) -> StreamDriver:
    given = given_options(broker, **options)
    _drivers.append(StreamDriver(store, parse_options(given, streaming=True), parse_stream(given), 2))
    return _drivers[-1]


def read(store: Any, broker: Any, tasks: Any, **options: str) -> list[dict[str, Any]]:
    """Partitions that executors read, unseen by the driver."""
    parsed = parse_options(given_options(broker, **options), streaming=True)
    request = ReadRequest(COLUMNS, read_committed=parsed.read_committed)
    found: list[dict[str, Any]] = []
    for task in tasks:
        hot = isinstance(task[0], HotSlice)
        batches = read_hot_slices(parsed.hot_tail or "", task, request) if hot else read_slices(store, task, request)
        found += [row for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def follow(store: Any, broker: Any, position: Any, **options: str) -> tuple[Any, list[dict[str, Any]]]:
    """All micro-batches from ``position`` on, each by a driver that knows nothing but the offsets before."""
    rows: list[dict[str, Any]] = []
    while True:
        driver = stream(store, broker, **options)
        end = driver.next_end(position, LIMITS)
        if end == position:
            return end, rows
        rows += read(store, broker, driver.plan(position, end)[0], **options)
        position = end


@pytest.mark.story
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_border_gives_the_same_rows(log: Any, tmp_path: Any, isolation: str) -> None:
    """In micro-batches that begin anywhere, inside transactions too, and while the archive follows behind."""
    committed = {"kafka.isolation.level": isolation}
    batches = log.batches()
    whole = stream(log.archived(tmp_path / "all", batches), log, hotTail="false", **EARLIEST, **committed)
    end = whole.next_end(whole.initial(), None)
    expected = read(whole._store, log, whole.plan(whole.initial(), end)[0], **committed)
    assert len(expected) == 6 + (4 * 2 if isolation == "read_committed" else 12 * 2)
    for border in (0, 3, 8, len(batches) // 2, len(batches)):
        store = log.archived(tmp_path / str(border), batches[:border])
        driver = stream(store, log, **EARLIEST, **committed)
        start = driver.initial()
        assert start == {T0: 0}
        assert driver.next_end(start, None) == end
        assert follow(store, log, start, **committed) == (end, expected), border
    store = log.archived(tmp_path / "behind", [])
    position: Any = {T0: 0}
    found: list[dict[str, Any]] = []
    for at in range(0, len(batches), 4):
        driver = stream(store, log, **committed)
        until = driver.next_end(position, LIMITS)
        log.archived(tmp_path / "behind", batches[at : at + 4])
        found += read(store, log, driver.plan(position, until)[0], **committed)
        position = until
    assert found + follow(store, log, position, **committed)[1] == expected


def test_a_batch_of_the_tail_is_read_again_from_wherever_it_is(log: Any, tmp_path: Any) -> None:
    """By the offsets of the checkpoint: from brokers, from both, and at last without brokers."""
    batches = log.batches()
    store = log.archived(tmp_path, [])
    driver = stream(store, log)
    end = driver.next_end({T0: 0}, None)
    first, _ = driver.plan({T0: 0}, end)
    assert {type(each) for task in first for each in task} == {HotSlice}
    rows = read(store, log, first)
    log.archived(tmp_path, batches[:9])
    both, _ = stream(store, log).plan({T0: 0}, end)
    assert {type(each) for task in both for each in task} == {HotSlice, SegmentSlice}
    assert read(store, log, both) == rows
    log.archived(tmp_path, batches[9:])
    # A driver that has not seen it yet goes on with brokers, one that begins anew with the archive.
    assert read(store, log, driver.plan({T0: 0}, end)[0]) == rows
    log.broker.stop()
    alone, _ = stream(store, log, hotTail="false").plan({T0: 0}, end)
    assert read(store, log, alone) == rows


def test_the_last_stable_offset_is_the_end(log: Any, tmp_path: Any) -> None:
    """Behind an open transaction nothing is read, by whomever it was written; once it is decided, all of it."""
    store = log.archived(tmp_path, log.batches()[:5])
    position, _ = follow(store, log, {T0: 0})
    address = {"bootstrap.servers": log.bootstrap_servers, "linger.ms": 0}
    open_one, plain = Producer({**address, "transactional.id": "open"}), Producer(address)
    open_one.init_transactions(20)
    open_one.begin_transaction()
    open_one.produce("t", b"perhaps")
    open_one.flush(20)
    plain.produce("t", b"behind it")
    plain.flush(20)
    assert follow(store, log, position) == (position, [])
    uncommitted = follow(store, log, position, **{"kafka.isolation.level": "read_uncommitted"})[1]
    assert [row["value"] for row in uncommitted] == [b"perhaps", b"behind it"]
    open_one.commit_transaction(20)
    end, rows = follow(store, log, position)
    assert [row["value"] for row in rows] == [b"perhaps", b"behind it"]
    assert end[T0] == position[T0] + 3


@pytest.fixture
def tiered(stratalog_broker: Any) -> Any:
    """A broker that moves all but the newest records of ``t`` into its bucket, and off its disk."""
    named = {"remote_storage_enable": "true", "local_retention_bytes": "1", "internal_segment_bytes": "20000"}
    stratalog_broker.create_topic("t", **named)
    return stratalog_broker


def test_records_that_move_into_the_bucket_meanwhile_are_read_from_there(tiered: Any) -> None:
    """Between the plan and the read the broker uploads them and drops them from its disk."""
    driver = stream(tiered.store, tiered, **EARLIEST)
    producer = Producer({"bootstrap.servers": tiered.bootstrap_servers})
    for number in range(100):
        producer.produce("t", b"%d" % number)
    producer.flush(20)
    tasks, _ = driver.plan({T0: 0}, driver.next_end(driver.initial(), None))
    assert [each[:4] for task in tasks for each in task] == [("t", 0, 0, 100)]
    for _ in range(100):
        producer.produce("t", b"x" * 1000)
        producer.flush(20)
    deadline = time.monotonic() + 30
    while (replayed := stream(tiered.store, tiered).plan({T0: 0}, {T0: 100})[0]) and isinstance(
        replayed[-1][-1], HotSlice
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for planned in (tasks, replayed):
        assert [row["value"] for row in read(tiered.store, tiered, planned)] == [b"%d" % each for each in range(100)]


def test_partitions_are_found_where_they_are(stratalog_broker: Any) -> None:
    """In the archive, with brokers or in both; new ones are read from their beginning."""
    store = MemoryStore("memory:stream-tail")
    with pytest.raises(Invalid, match="topic 't' is not in the archive"):
        stream(store, stratalog_broker).initial()
    topic = stratalog_broker.create_topic("t", partitions=2)
    with Client(stratalog_broker.bootstrap_servers) as client:
        RecordProducer(client, "t").send([NewRecord(b"v%d" % n, 1000 + n, partition=0) for n in range(5)])
        driver = stream(store, stratalog_broker, discoveryInterval="0")
        start = driver.initial()
        assert start == {T0: 5, T1: 0}
        batch = bytes(build_batch([Record(n, 2000 + n, None, b"w%d" % n) for n in range(3)], leader_epoch=0))
        RecordProducer(client, "t").send([NewRecord(b"w%d" % n, 2000 + n, partition=1) for n in range(4)])
        archive_log(store, PartitionId("t", topic.topic_id, 1), [batch], now_ms=1)
        end = driver.next_end(start, None)
        assert end == driver.latest() == {T0: 5, T1: 4}
        tasks, _ = driver.plan(start, end)
        assert [type(each) for task in tasks for each in task] == [SegmentSlice, HotSlice]
        assert [row["value"] for row in read(store, stratalog_broker, tasks)] == [b"w0", b"w1", b"w2", b"w3"]
        driver.freeze()
        RecordProducer(client, "t").send([NewRecord(b"late", 3000, partition=0)])
        assert driver.next_end(end, None) == end
        times = stream(store, stratalog_broker, startingTimestamp="2001", startingOffsetsByTimestampStrategy="latest")
        assert times.initial() == {T0: 5, T1: 1}
        later = stream(store, stratalog_broker, startingTimestamp="2003", startingOffsetsByTimestampStrategy="latest")
        assert later.initial() == {T0: 5, T1: 3}
    assert stream(store, stratalog_broker, hotTail="false").initial() == {T1: 3}


def test_another_topic_of_the_name_is_refused(log: Any, tmp_path: Any) -> None:
    """Its offsets have nothing to do with those that are archived."""
    store = open_store(f"file://{tmp_path}")
    batch = bytes(build_batch([Record(0, 1, None, b"x")], leader_epoch=0))
    archive_log(store, PartitionId("t", b"o" * 16, 0), [batch], now_ms=1)
    with pytest.raises(Invalid, match=r"topic 't' has the id .*'hotTail' to 'false'"):
        stream(store, log).next_end({T0: 0}, None)


def test_a_stream_that_lost_its_tail_does_not_go_back(log: Any, tmp_path: Any) -> None:
    """Without the brokers the archive ends before what was read: an error that says what it may be."""
    store = log.archived(tmp_path, log.batches()[:5])
    position, _ = follow(store, log, {T0: 0})
    with pytest.raises(DataLoss, match=r"t-0 ended at offset \d+ when this stream had come .* or brokers named to it"):
        stream(store, log, hotTail="false").next_end(position, None)


def test_brokers_may_be_away_for_a_minute(
    log: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The archive is followed meanwhile; a query that has never reached any ends at once."""
    now_ms = [1_700_000_000_000]
    for module in (stream_follower, stream_driver):
        monkeypatch.setattr(module, "_now_ms", lambda: now_ms[0])
    batches = log.batches()
    store = log.archived(tmp_path, batches[:5])
    driver = stream(store, log)
    end = driver.next_end({T0: 0}, None)
    hot = [each for task in driver.plan({T0: 0}, end)[0] for each in task if isinstance(each, HotSlice)]
    log.archived(tmp_path, batches[5:])
    log.broker.stop()
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        for _ in range(3):
            now_ms[0] += 19_999
            assert driver.next_end({T0: 0}, None) == end
    assert hot
    assert {type(each) for task in driver.plan({T0: 0}, end)[0] for each in task} == {SegmentSlice}
    assert [record.message.count("waits a minute") for record in caplog.records] == [1]
    now_ms[0] += 20_002
    with pytest.raises(Retriable, match=r"the brokers 127.* were asked for what is not archived.*'hotTail' to 'false'"):
        driver.next_end({T0: 0}, None)
    with pytest.raises(Retriable, match="were asked for"):
        stream(store, log).initial()
    log.broker.start()
    assert driver.next_end({T0: 0}, None) == end


def test_ranges_are_divided_at_the_border() -> None:
    """Each part that is not empty, and none twice."""
    borders = {T0: 10, T1: 10}
    assert split_at(borders, {T0: OffsetRange(3, 10), T1: OffsetRange(10, 12)}) == (
        {T0: OffsetRange(3, 10)},
        [HotSlice("t", 1, 10, 12)],
    )
    assert split_at(borders, {T0: OffsetRange(3, 12)}) == ({T0: OffsetRange(3, 10)}, [HotSlice("t", 0, 10, 12)])
