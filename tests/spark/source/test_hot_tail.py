"""Archive and brokers as one log: every row once, wherever the border between them is."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

import stratalog
from stratalog import spark as sl
from stratalog.client.admin import delete_topics
from stratalog.client.client import Client
from stratalog.client.records import NewRecord, fetch, produce_batches
from stratalog.client.records import Producer as SimpleProducer
from stratalog.spark.archive_store import open_archive
from stratalog.spark.source import hot_tail
from stratalog.spark.source.counting import count_archive
from stratalog.spark.source.fetch import ReadRequest, open_quarantine, read_slices
from stratalog.spark.source.hot_tail import (
    HotSlice,
    HotTail,
    LogSpan,
    aborted_in,
    group_hot,
    open_client,
    read_hot_slices,
)
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.read_plan import plan, plan_slices
from stratalog.spark.source.source import StratalogSource
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_options import parse_stream
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers
from stratalog.wire.errors import Corrupt, Invalid, KafkaError, Retriable
from stratalog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratalog.wire.messages.fetch import AbortedTransaction as Listed
from stratalog.wire.topic import TopicPartition

T0 = TopicPartition("t", 0)
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
LATER_MS = 1 << 42


def delete_records(broker: Any, offset: int) -> None:
    with Client(broker.bootstrap_servers) as client:
        topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        answer = client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), client.leader(T0))
        assert answer.topics[0].partitions[0].low_watermark == offset


def rows(store: ObjectStore, broker: Any, **given: str) -> list[dict[str, Any]]:
    """All rows of a read with a hot tail."""
    options = parse_options(
        {"path": store.url, "subscribe": "t", "kafka.bootstrap.servers": broker.bootstrap_servers, **given}
    )
    request = ReadRequest(COLUMNS, read_committed=options.read_committed)
    found: list[dict[str, Any]] = []
    for task in plan(store, options, 2):
        if isinstance(task[0], HotSlice):
            batches: Iterator[Any] = read_hot_slices(options.hot_tail or "", task, request)  # type: ignore[arg-type]
        else:
            batches = read_slices(store, task, request)  # type: ignore[arg-type]
        found += [row for batch in batches for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_border_gives_the_same_rows(log: Any, tmp_path: Path, isolation: str) -> None:
    """None lost, none doubled, whatever was archived: nothing, up to inside of transactions, everything."""
    data = log.fetched().data
    batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    visible = rows(log.archived(tmp_path / "none", []), log, **{"kafka.isolation.level": isolation})
    expected = 6 + (4 * 2 if isolation == "read_committed" else 12 * 2)
    assert len(visible) == len({row["offset"] for row in visible}) == expected
    for border in range(1, len(batches), 5):
        store = log.archived(tmp_path / str(border), batches[:border])
        assert rows(store, log, **{"kafka.isolation.level": isolation}) == visible, border
    whole = log.archived(tmp_path / "all", batches)
    assert rows(whole, log, **{"kafka.isolation.level": isolation}) == visible
    given = {"path": whole.url, "subscribe": "t", "lease": "false", "kafka.isolation.level": isolation}
    half = log.archived(tmp_path / "half", batches[: len(batches) // 2])
    hot = {**given, "path": half.url, "kafka.bootstrap.servers": log.bootstrap_servers}
    for options in (given, hot):
        assert count_archive(None, parse_options(options)) == len(visible)  # type: ignore[arg-type]


def test_bounds_may_lie_on_both_sides(log: Any, tmp_path: Path) -> None:
    """Offsets and times in the archive, behind it, and behind the end of the log."""
    data = log.fetched().data
    batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    store = log.archived(tmp_path, batches[: len(batches) // 2])
    everything = rows(store, log)
    end = [header for _, header in iter_headers(data)][-1].next_offset
    border = [header for _, header in iter_headers(data)][len(batches) // 2].base_offset
    for start, stop in ((0, end), (border - 1, border + 1), (border, end), (0, border), (border + 2, border + 5)):
        bounds = {"startingOffsets": f'{{"t":{{"0":{start}}}}}', "endingOffsets": f'{{"t":{{"0":{stop}}}}}'}
        assert rows(store, log, **bounds) == [row for row in everything if start <= row["offset"] < stop]
    for row in (everything[1], everything[-2]):
        time_ms = int(row["timestamp"].timestamp() * 1000)
        found = rows(store, log, startingTimestamp=str(time_ms))
        first = next(each["offset"] for each in everything if each["timestamp"] >= row["timestamp"])
        # An aborted record or a marker may be the first record of that time.
        assert found == [each for each in everything if each["offset"] >= min(first, found[0]["offset"])]
    assert rows(store, log, startingTimestamp=str(LATER_MS), startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(DataLoss, match=rf"t-0: the ending offset {end + 1} is beyond offset {end}"):
        rows(store, log, endingOffsets=f'{{"t":{{"0":{end + 1}}}}}')


def test_an_open_transaction_ends_the_tail(log: Any, tmp_path: Path) -> None:
    """Under read_committed nothing behind its first record is read, by whomever it was written."""
    store = log.archived(tmp_path, [])
    before = rows(store, log)
    uncommitted = rows(store, log, **{"kafka.isolation.level": "read_uncommitted"})
    address = {"bootstrap.servers": log.bootstrap_servers, "linger.ms": 0}
    open_one, plain = Producer({**address, "transactional.id": "open"}), Producer(address)
    open_one.init_transactions(20)
    open_one.begin_transaction()
    open_one.produce("t", b"perhaps")
    open_one.flush(20)
    plain.produce("t", b"behind it")
    plain.flush(20)
    assert rows(store, log) == before
    now = rows(store, log, **{"kafka.isolation.level": "read_uncommitted"})
    assert [row["value"] for row in now[len(uncommitted) :]] == [b"perhaps", b"behind it"]
    open_one.commit_transaction(20)
    assert [row["value"] for row in rows(store, log)[len(before) :]] == [b"perhaps", b"behind it"]


def test_offsets_that_the_broker_lost_are_reported(log: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Between planning and reading: an error, or a warning where loss is accepted."""
    there = {row["offset"] for row in rows(log.archived(tmp_path, []), log) if 10 <= row["offset"] < 20}
    delete_records(log, 10)
    slices = [HotSlice("t", 0, 5, 20)]
    with pytest.raises(DataLoss, match=r"t-0: the offsets 5 to 9 are not on the broker any more.*starts at 10"):
        list(read_hot_slices(log.bootstrap_servers, slices, ReadRequest(("offset",))))
    request = ReadRequest(("offset",), fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        found = list(read_hot_slices(log.bootstrap_servers, slices, request))
    assert {offset for batch in found for offset in batch["offset"].to_pylist()} == there
    assert there
    assert "the offsets 5 to 9 " in caplog.text
    caplog.clear()
    assert list(read_hot_slices(log.bootstrap_servers, [HotSlice("t", 0, 5, 8)], request)) == []
    assert "the offsets 5 to 7 " in caplog.text


def test_offsets_beyond_the_log_are_no_loss_that_may_be_skipped(log: Any) -> None:
    """A log that is shorter than it was, is another one: that is for the next plan to tell."""
    request = ReadRequest(("offset",), fail_on_data_loss=False)
    with pytest.raises(Retriable, match=r"t-0: the log ends before offset 10000"):
        list(read_hot_slices(log.bootstrap_servers, [HotSlice("t", 0, 10_000, 10_001)], request))


def test_a_log_that_starts_behind_the_archive_is_a_loss_when_planned(log: Any, tmp_path: Path) -> None:
    """DeleteRecords went beyond the archive: the gap is reported before the read begins."""
    data = log.fetched().data
    batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    store = log.archived(tmp_path, batches[:3])
    expected = [row for row in rows(store, log) if row["offset"] >= 10]
    delete_records(log, 10)
    with pytest.raises(DataLoss, match="t-0: the starting offset 0 is below the log start offset 10"):
        rows(store, log, startingOffsets='{"t":{"0":0}}')
    assert rows(store, log) == expected


def with_a_flipped_bit(*given: Any, **more: Any) -> list[Any]:
    """A fetch whose bytes were damaged on their way."""
    (found,) = fetch(*given, **more)
    data = bytearray(found.data)
    data[-1] ^= 1
    return [found._replace(data=memoryview(data))]


def test_a_batch_that_cannot_be_read_is_left_out_of_the_tail_too(
    log: Any, tmp_path: Path, rewrite_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a quarantine, by queries, Python programs and counts; one document tells of it.

    A batch whose CRC does not hold may have got other offsets on its way: it is an error.
    """
    store = log.archived(tmp_path / "archive", [])
    before = [row["offset"] for row in rows(store, log)]
    with Client(log.bootstrap_servers) as client:
        for batch in (rewrite_rig.unreadable_batch(0), bytes(build_batch([Record(0, 1, b"k", b"behind")]))):
            answers = produce_batches(client, {T0: batch}, acks=-1)
            end = answers[T0].base_offset + 1
    bad = f"file://{tmp_path}/bad"
    with pytest.raises(Corrupt, match=rf"t-0: a record in the batches .* up to {end - 1} is damaged"):
        rows(store, log)
    given = {"kafka.bootstrap.servers": log.bootstrap_servers, "badRecords": "quarantine", "badRecordsPath": bad}
    source = StratalogSource({"path": store.url, "subscribe": "t", **given})
    reader = source.reader(StructType([StructField("offset", LongType()), StructField("key", BinaryType())]))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]  # type: ignore[attr-defined]
    assert [row for batch in batches for row in batch["offset"].to_pylist()] == [*before, end - 1]
    (told,) = open_quarantine(bad, {}).ranges()
    assert told[:4] == ("t", 0, end - 2, end - 1)
    assert told.archive == log.bootstrap_servers
    with stratalog.open(store.url) as archive:
        found = archive.topic("t", **given).to_arrow(columns=["offset", "key"])
    assert found["offset"].to_pylist() == [*before, end - 1]
    assert list(open_quarantine(bad, {}).ranges()) == [told]
    options = parse_options({"path": store.url, "subscribe": "t", **given})
    assert count_archive(None, options) == len(before) + 2  # type: ignore[arg-type] # by the headers of batches
    monkeypatch.setattr(hot_tail, "fetch", with_a_flipped_bit)
    with pytest.raises(Corrupt, match=r"t-0, offset \d+: .* has CRC"):
        list(
            read_hot_slices(
                log.bootstrap_servers, [HotSlice("t", 0, 0, end)], ReadRequest(("offset",)), open_quarantine(bad, {})
            )
        )


def test_a_log_that_ends_early_is_reported(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than waited for: what was there when the query was planned has to come."""
    monkeypatch.setattr(hot_tail, "_WAIT_MS", 1)
    monkeypatch.setattr(hot_tail, "_EMPTY_ANSWERS_MAX", 2)
    with pytest.raises(Retriable, match=r"t-0: the broker has sent nothing from offset \d+ on"):
        list(read_hot_slices(log.bootstrap_servers, [HotSlice("t", 0, 0, 10_000)], ReadRequest(("offset",))))


def test_another_topic_of_the_name_is_refused(log: Any, tmp_path: Path) -> None:
    """Its offsets have nothing to do with those that are archived."""
    store = open_store(f"file://{tmp_path}")
    batch = bytes(build_batch([Record(0, 1, None, b"x")], leader_epoch=0))
    archive_log(store, PartitionId("t", b"o" * 16, 0), [batch], now_ms=1)
    with pytest.raises(Invalid, match=r"topic 't' has the id .* deleted and made again.*'hotTail' to 'false'"):
        rows(store, log)
    assert len(rows(store, log, hotTail="false")) == 1


def test_a_topic_made_again_behind_the_plan_gives_no_rows(
    two_partitions: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """They would be of another topic, under offsets that the query has planned; also where its stream plans again."""
    servers = two_partitions.bootstrap_servers
    store = open_store("memory:")
    given = {"path": "memory:", "subscribe": "t", "kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
    options = parse_options(given)
    driver = StreamDriver(store, parse_options(given, streaming=True), parse_stream({"hotTailRefresh": "1h"}), 2)
    end = driver.next_end({T0: 0}, None)
    (task,) = plan(store, options, 1)
    assert len(list(read_hot_slices(servers, task, ReadRequest(("offset",))))) == 1  # type: ignore[arg-type]
    with Client(servers) as client:
        delete_topics(client, ["t"])
    two_partitions.create_topic("t", partitions=2)
    with Client(servers) as client:
        SimpleProducer(client, "t").send([NewRecord(b"other", 1, partition=0) for _ in range(20)])
    (streamed, *_), _ = driver.plan({T0: 0}, end)
    for slices in (task, streamed):
        with pytest.raises(DataLoss, match=r"t-0: the topic was deleted and made again .* offsets 0 to 4 "):
            list(read_hot_slices(servers, slices, ReadRequest(("offset",))))  # type: ignore[arg-type]
        with caplog.at_level(logging.WARNING):
            assert list(read_hot_slices(servers, slices, ReadRequest(("offset",), fail_on_data_loss=False))) == []  # type: ignore[arg-type]
        assert "deleted and made again" in caplog.text
        caplog.clear()
    driver.close()


def test_brokers_that_do_not_answer_are_named(log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do to read only the archive; reads that know no brokers refuse the option."""
    store = log.archived(tmp_path, [])
    log.broker.stop()
    options = parse_options({"path": store.url, "subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(Retriable, match=r"the brokers 127\.0\.0\.1:1 were asked .* 'hotTail' to 'false'"):
        plan(store, options, 2)
    with pytest.raises(Invalid, match="only archives are read here"):
        plan_slices(store, options)


def test_tasks_are_few_unless_more_are_asked_for() -> None:
    """Two for each core, or of so many offsets at most."""
    slices = [HotSlice("t", number, 0, 100) for number in range(10)]
    tasks = group_hot(slices, 2, None)
    assert len(tasks) <= 5
    assert [each for task in tasks for each in task] == slices
    small = group_hot(slices[:1], 2, 30)
    assert [(task[0].start_offset, task[0].end_offset) for task in small] == [(0, 30), (30, 60), (60, 90), (90, 100)]
    assert group_hot([], 2, None) == []
    assert len(group_hot([HotSlice("t", 0, 0, 1 << 40)], 2, 1)) == 1000


def test_an_aborted_transaction_ends_with_its_marker() -> None:
    """A commit of the same producer ends none; one without a marker in the answer reaches beyond it.

    The order and the number of times in which a broker names them change no span: doubles would hide later commits.
    """

    def marker(kind: int, offset: int, producer_id: int) -> bytes:
        return bytes(
            build_control_batch(
                kind, bytes(6), offset=offset, timestamp_ms=1, leader_epoch=0, producer_id=producer_id,
                producer_epoch=0, transactional=True,
            )
        )  # fmt: skip

    data = marker(0, 5, 7) + marker(1, 9, 7) + marker(0, 12, 8) + marker(0, 20, 7)
    listed = [Listed(producer_id=p, first_offset=o) for p, o in ((7, 15), (7, 2), (9, 1), (7, 30))]
    for named in (listed, listed * 3, [*reversed(listed), *listed], [one for one in listed for _ in range(2)]):
        found = {pid: list(spans) for pid, spans in aborted_in(data, named).items()}
        assert found == {7: [(2, 5), (15, 20), (30, hot_tail._NEVER)], 9: [(1, hot_tail._NEVER)]}


@pytest.mark.story
@pytest.mark.spark
def test_a_query_reads_both(spark: SparkSession, log: Any, tmp_path: Path) -> None:
    """Through Spark: all rows with the brokers' address, those that are archived without it."""
    data = log.fetched().data
    batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    store = log.archived(tmp_path, batches[: len(batches) // 2])
    servers = {"kafka.bootstrap.servers": log.bootstrap_servers}
    both = sl.read(spark, store.url, topics="t", includeHeaders=True, **servers)
    expected = rows(store, log)
    assert sorted(row.offset for row in both.collect()) == [row["offset"] for row in expected]
    values = {(row.offset, bytes(row.value)) for row in both.select("offset", "value").collect()}
    assert values == {(row["offset"], row["value"]) for row in expected}
    assert sl.count(spark, store.url, topics="t", **servers) == len(expected)
    assert 0 < sl.read(spark, store.url, topics="t", hotTail=False, **servers).count() < len(expected)


def test_archived_offsets_are_not_asked_of_brokers(log: Any, tmp_path: Path) -> None:
    """The tail begins with the offset behind the archive's last one, in the archive's order of partitions."""
    data = log.fetched().data
    batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    store = log.archived(tmp_path, batches[:7])
    archive_end = [header for _, header in iter_headers(data)][6].next_offset
    options = parse_options({"path": store.url, "subscribe": "t", "kafka.bootstrap.servers": log.bootstrap_servers})
    hot = [
        each for task in plan(open_archive(store.url, {}), options, 2) for each in task if isinstance(each, HotSlice)
    ]
    assert [each.start_offset for each in hot] == [archive_end]
    with open_client(log.bootstrap_servers) as client:
        tail = HotTail(client, read_committed=True)
        assert tail.find(parse_options({"path": "x", "subscribePattern": "t|u"}).subscription) == {T0}
        assert tail.find(parse_options({"path": "x", "assign": '{"t":[3]}'}).subscription) == set()


@pytest.fixture
def two_partitions(stratalog_broker: Any) -> Any:
    """A broker with topic ``t`` of two partitions and five records in the first, with the times 1000 to 1400."""
    stratalog_broker.create_topic("t", partitions=2)
    with Client(stratalog_broker.bootstrap_servers) as client:
        SimpleProducer(client, "t").send([NewRecord(b"v%d" % n, 1000 + 100 * n, partition=0) for n in range(5)])
    return stratalog_broker


T1 = TopicPartition("t", 1)
SUBSCRIBED = parse_options({"path": "x", "subscribe": "t,nope"}).subscription


def test_the_cluster_is_asked_for_topics_ends_and_times(two_partitions: Any) -> None:
    """A topic that the cluster lacks is left out, and a bootstrap broker that is away is passed over."""
    with open_client(f"127.0.0.1:1,{two_partitions.bootstrap_servers}") as client:
        tail = HotTail(client, read_committed=True)
        assert tail.find(SUBSCRIBED) == {T0, T1}
        logs = tail.logs([T0, T1])
        assert logs == {T0: LogSpan(0, 5), T1: LogSpan(0, 0)}
        (known, _), (log, _) = tail.extend([], logs)
        assert known.partition == T0
        assert [tail.find_timestamp(log, time_ms) for time_ms in (0, 1150, 1400, 9999)] == [0, 2, 4, None]
        with pytest.raises(KafkaError, match="t-9: the topic has 2 partitions"):
            tail.logs([TopicPartition("t", 9)])


def test_a_broker_that_restarts_is_asked_again(two_partitions: Any) -> None:
    """On a new connection, and also while nothing listens on its port yet."""
    with open_client(two_partitions.bootstrap_servers) as client:
        tail = HotTail(client, read_committed=True)
        tail.find(SUBSCRIBED)
        two_partitions.restart()
        assert tail.logs([T0]) == {T0: LogSpan(0, 5)}
        two_partitions.stop()
        back = threading.Timer(0.5, two_partitions.start)
        back.start()
        try:
            assert tail.logs([T0]) == {T0: LogSpan(0, 5)}
        finally:
            back.join()


def test_a_task_reads_on_through_a_restart(two_partitions: Any) -> None:
    """Between two of its fetches: the rows are those that would have come without it."""
    slices = [HotSlice("t", 0, start, start + 1) for start in range(5)]
    read = read_hot_slices(two_partitions.bootstrap_servers, slices, ReadRequest(("value",)))
    found = next(read)["value"].to_pylist()
    two_partitions.restart()
    assert found + [value for batch in read for value in batch["value"].to_pylist()] == [b"v%d" % n for n in range(5)]


@pytest.mark.parametrize("servers", ["", " , ", "host:port", ":9092", "host:70000", "a b:1"])
def test_addresses_of_brokers_are_checked(servers: str) -> None:
    """Before a broker is asked; the error names the option."""
    with pytest.raises(Invalid, match=r"option 'kafka\.bootstrap\.servers'"):
        open_client(servers)


def test_addresses_of_brokers_may_leave_out_the_port() -> None:
    """Kafka's own port stands for it; IPv6 with or without brackets. The client can be pickled as long as it is idle."""
    client = open_client(" kafka , 10.0.0.1:1234,[::1]:9093, ::1:9094,")
    assert client.bootstrap == "kafka:9092,10.0.0.1:1234,[::1]:9093,[::1]:9094"
    assert pickle.loads(pickle.dumps(client)).bootstrap == client.bootstrap
