"""Rows for pandas, polars, DuckDB and pyarrow: the very rows that were produced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from stratalog.spark.frames.row_set import Archived, RowSet
from stratalog.spark.frames.selection import select
from stratalog.spark.rows.schema import COLUMNS
from stratalog.spark.source.planner import DataLoss
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.work.cut_commands import create_cut, end_at
from stratalog.wire.batch import Header, Record, build_batch, build_control_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Invalid, Retriable

Batches = Callable[..., bytes]
PRODUCED = {
    partition: [
        Record(
            offset,
            1_000_000 + 10 * offset + partition,
            None if offset % 7 == 0 else b"key-%d" % (offset % 5),
            None if offset % 11 == 0 else b"v" * (offset % 50) + b"%d" % offset,
            (Header("n", b"%d" % offset), Header("z", None)) if offset % 3 == 0 else (),
        )
        for offset in range(300)
        if partition == 0 or offset % 4 != 2  # as compaction leaves it: every fourth offset is a hole
    ]
    for partition in (0, 1)
}
CODECS = {0: Codec.ZSTD, 1: Codec.LZ4}


@pytest.fixture
def archived(memory_archive: Any) -> Archived:
    """Topic ``orders``: what `PRODUCED` says, three objects a partition; ``paid`` has a transaction that was aborted."""
    for partition, records in PRODUCED.items():
        objects = []
        for base in range(0, 300, 100):
            inside = [record for record in records if base <= record.offset < base + 100]
            parts = [inside[at : at + 9] for at in range(0, len(inside), 9)]
            objects.append(
                b"".join(build_batch(part, codec=CODECS[partition] if base else Codec.NONE) for part in parts)
            )
        memory_archive.add("orders", partition, *objects, compacted=partition == 1)
    transactional: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True, "leader_epoch": 0}
    paid = bytes(
        build_batch([Record(0, 5, None, b"aborted")], base_sequence=0, **transactional)
        + build_batch([Record(1, 5, None, b"plain")], leader_epoch=0)
        + build_control_batch(0, bytes(6), offset=2, timestamp_ms=5, **transactional)
        + build_batch([Record(3, 5, None, b"committed")], base_sequence=1, **transactional)
        + build_control_batch(1, bytes(6), offset=4, timestamp_ms=5, **transactional)
    )
    memory_archive.add("paid", 0, paid, topic_id=b"p" * 16, aborted=[AbortedTransaction(9, 0, 2, 3)])
    return Archived(memory_archive.store, 3_600_000)


def rows(archived: Archived, topic: str = "orders", **selection: Any) -> RowSet:
    options = {"archive": "memory:x", "batchBytes": "1k"}
    return RowSet(archived, select(topic, options, **selection))


def produced(partitions: Iterable[int] = (0, 1)) -> list[dict[str, Any]]:
    """The rows that should come, by partition and offset."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": partition,
            "offset": record.offset,
            "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp_ms),
            "timestampType": 0,
            "headers": [{"key": each.key, "value": each.value} for each in record.headers] or None,
        }
        for partition in partitions
        for record in PRODUCED[partition]
    ]


def sha256(table: Iterable[dict[str, Any]]) -> str:
    """Over all columns of all rows, in their order."""
    digest = hashlib.sha256()
    for row in table:
        time = row["timestamp"].astimezone(UTC).isoformat()
        digest.update(repr([time if name == "timestamp" else row[name] for name in COLUMNS]).encode())
    return digest.hexdigest()


WHOLE = sha256(produced())


def test_arrow_holds_the_rows_that_were_produced(archived: Archived) -> None:
    """As a table, as a stream, as often as it is asked for; many batches."""
    whole = rows(archived, columns=COLUMNS)
    assert sha256(whole.to_arrow().to_pylist()) == WHOLE
    batches = list(whole.scan())
    assert len(batches) > 5
    assert sha256(pa.Table.from_batches(batches).to_pylist()) == WHOLE
    assert sha256(pa.table(whole).to_pylist()) == WHOLE
    assert whole.schema == batches[0].schema


def test_polars_holds_the_rows_that_were_produced(archived: Archived) -> None:
    """By Arrow's stream, by our method and lazily."""
    whole = rows(archived, columns=COLUMNS)
    for frame in (pl.DataFrame(whole), pl.from_arrow(whole.scan()), whole.to_polars(), whole.lazy_polars().collect()):
        assert sha256(frame.to_dicts()) == WHOLE


def test_duckdb_holds_the_rows_that_were_produced(archived: Archived) -> None:
    """From the rows themselves, many times, and from a stream, once; what it computes is what Python computes."""
    whole = rows(archived, columns=COLUMNS)
    stream = whole.scan()
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for name, held in (("again", whole), ("again", whole), ("once", stream)):
            connection.register(name, held)
            table = connection.sql(f'select * from {name} order by partition, "offset"').to_arrow_table()
            assert sha256(table.to_pylist()) == WHOLE
        found = connection.sql(
            'select partition, sum(octet_length("value")), count("key") from whole group by 1 order by 1'
        )
        assert found.fetchall() == [
            (
                partition,
                sum(len(record.value) for record in records if record.value is not None),
                sum(record.key is not None for record in records),
            )
            for partition, records in PRODUCED.items()
        ]


def test_pandas_holds_the_rows_that_were_produced(archived: Archived) -> None:
    """Offsets, times and bytes."""
    frame = rows(archived).to_pandas()
    expected = produced()
    for name in ("key", "value", "partition", "offset"):
        assert frame[name].tolist() == [row[name] for row in expected]
    assert [each.to_pydatetime() for each in frame["timestamp"]] == [row["timestamp"] for row in expected]


def test_a_lazy_polars_query_decodes_what_it_needs(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the columns that it names; filters and heads give the rows that they should."""
    asked = []
    plan = RowSet.scan
    monkeypatch.setattr(RowSet, "scan", lambda self: asked.append(self._options.columns) or plan(self))
    lazy = rows(archived, columns=COLUMNS).lazy_polars()
    found = lazy.filter(pl.col("partition") == 1, pl.col("offset") >= 250).select("offset").collect()
    assert found["offset"].to_list() == [offset for offset in range(250, 300) if offset % 4 != 2]
    assert {frozenset(each) for each in asked} == {frozenset({"offset", "partition"})}
    assert lazy.head(3).collect()["offset"].to_list() == [0, 1, 2]
    assert lazy.select(pl.len()).collect().item() == len(produced())


def test_a_selection_is_cut_exactly(archived: Archived) -> None:
    """By offsets, by times, by partition."""
    assert rows(archived, start=95, end=205, partitions=[0]).to_arrow()["offset"].to_pylist() == list(range(95, 205))
    start = datetime.fromtimestamp(1001.0005, UTC)
    found = rows(archived, start=start, partitions=[0]).to_arrow()
    expected = [record.offset for record in PRODUCED[0] if record.timestamp_ms >= 1_000_000 + 1001]
    assert found["offset"].to_pylist() == expected
    late = datetime(2030, 1, 1, tzinfo=UTC)
    assert rows(archived, start=late).to_arrow().num_rows == 0
    assert rows(archived, end=late).to_arrow().num_rows == len(produced())


def test_aborted_records_are_rows_for_who_reads_uncommitted(archived: Archived) -> None:
    """Markers never are."""
    assert rows(archived, "paid").to_arrow()["value"].to_pylist() == [b"plain", b"committed"]
    dirty = rows(archived, "paid", isolation="read_uncommitted").to_arrow()
    assert dirty["value"].to_pylist() == [b"aborted", b"plain", b"committed"]


def test_a_stream_reads_a_little_ahead_and_no_more(
    memory_archive: Any, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch of 40 objects reads fewer than 12; once the stream is closed, no more are read."""
    memory_archive.add("orders", 0, *(batches(base, 10) for base in range(0, 400, 10)))
    store = memory_archive.store
    get = store.get_suffix
    asked = []
    monkeypatch.setattr(store, "get_suffix", lambda key, length: asked.append(key) or get(key, length))
    stream = rows(Archived(store, 0)).scan()
    assert asked == []
    stream.read_next_batch()
    assert 1 < len(asked) < 12
    stream.close()
    assert len(asked) < 12


def test_missing_offsets_are_reported_when_they_are_read(archived: Archived) -> None:
    """The error comes from `scan`, before a row is read."""
    with pytest.raises(Invalid, match="topic 'nope' is not in the archive"):
        rows(archived, "nope").scan()
    with pytest.raises(DataLoss, match="the ending offset 301 is beyond offset 300"):
        rows(archived, end=301).scan()


def test_a_lease_is_there_before_the_plan_and_ends_with_the_archive(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for all reads; after the end nothing is read, not even by a stream that had begun."""
    store = archived.store
    get = store.get
    seen = []
    monkeypatch.setattr(store, "get", lambda key: seen.append(len(list(store.list("leases/")))) or get(key))
    stream = rows(archived).scan()
    rows(archived).to_arrow()
    assert set(seen) == {1}
    monkeypatch.undo()
    archived.close()
    assert list_leases(store) == []
    with pytest.raises(Invalid, match="was closed: open it again"):
        stream.read_all()
    with pytest.raises(Invalid, match="was closed: open it again"):
        rows(archived).scan()


def test_a_forgotten_archive_gives_its_lease_back(memory_archive: Any, batches: Batches) -> None:
    """But not while a reader can still read from it."""
    memory_archive.add("orders", 0, batches(0, 20))
    archived = Archived(memory_archive.store, 3_600_000)
    kept = rows(archived)
    del archived
    assert kept.to_arrow().num_rows == 20
    assert len(list_leases(memory_archive.store)) == 1
    del kept
    assert list_leases(memory_archive.store) == []


def test_a_topic_is_read_as_it_was_at_a_cut(archived: Archived) -> None:
    """Exactly up to where the cut was made, in every partition."""
    create_cut(archived.store, "early", now_ms=7, end_of=end_at(1_000_000 + 10 * 150))
    found = rows(archived, "orders@early").to_arrow()
    expected = [record.offset for partition in (0, 1) for record in PRODUCED[partition] if record.offset < 150]
    assert found["offset"].to_pylist() == expected
    assert set(found["topic"].to_pylist()) == {"orders@early"}


def test_decoded_values_are_read_by_all(memory_archive: Any) -> None:
    """With the columns of errors; lazily too."""
    records = [Record(n, 1, b"k", b'{"n":%d}' % n if n % 5 else b"broken") for n in range(50)]
    memory_archive.add("orders", 0, bytes(build_batch(records, leader_epoch=0)))
    options = {"archive": "memory:x", "valueFormat": "json", "valueSchema": "n int", "keyFormat": "string"}
    whole = RowSet(Archived(memory_archive.store, 0), select("orders", options))
    assert whole.schema.names[-2:] == ["keyError", "valueError"]
    numbers = [n if n % 5 else None for n in range(50)]
    assert [value and value["n"] for value in whole.to_arrow()["value"].to_pylist()] == numbers
    found = duckdb.sql('select sum(value.n), count("valueError"), any_value(key) from whole').fetchall()
    assert found == [(sum(filter(None, numbers)), 10, "k")]
    lazy = whole.lazy_polars().select(pl.col("value").struct.field("n"), "valueError").collect()
    assert lazy["n"].to_list() == numbers
    assert lazy["valueError"].drop_nulls().len() == 10


def test_brokers_that_are_named_are_asked_for_the_rest(stratalog_broker: Any, memory_archive: Any) -> None:
    """Rows by partition and offset, wherever the archive of each ends; a partition that has none comes whole."""
    topic = stratalog_broker.create_topic("t", partitions=3)
    producer = Producer({"bootstrap.servers": stratalog_broker.bootstrap_servers, "linger.ms": 0})
    for offset in range(10):
        for partition in range(3):
            producer.produce("t", b"%d of %d" % (offset, partition), partition=partition)
        producer.flush()
    for partition, end in ((0, 10), (1, 4)):
        records = [Record(offset, 1, None, b"%d of %d" % (offset, partition)) for offset in range(end)]
        memory_archive.add("t", partition, bytes(build_batch(records, leader_epoch=0)), topic_id=topic.topic_id)
    archived = Archived(memory_archive.store, 3_600_000)
    options = {"archive": "memory:x", "kafka.bootstrap.servers": stratalog_broker.bootstrap_servers}

    def found(**selection: Any) -> list[tuple[int, int, bytes]]:
        table = RowSet(archived, select("t", options, columns=["partition", "offset", "value"], **selection)).to_arrow()
        return [tuple(row.values()) for row in table.to_pylist()]

    expected = [
        (partition, offset, b"%d of %d" % (offset, partition)) for partition in range(3) for offset in range(10)
    ]
    assert found() == expected
    assert found(start={1: 2}, end={1: 7}, partitions=[1]) == expected[12:17]
    assert found(end=4) == [row for row in expected if row[1] < 4]
    stratalog_broker.stop()
    with pytest.raises(Retriable, match="set option 'hotTail' to 'false'"):
        found()
