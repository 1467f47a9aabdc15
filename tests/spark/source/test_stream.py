"""``readStream.format("stratalog")`` under a real Spark, into a Parquet sink."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.hot_tail import HotSlice, read_hot_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.read_plan import plan
from stratalog.spark.source.stream import StratalogStreamReader
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.manifests.parts import CommitNote
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records

pytestmark = pytest.mark.spark

SHOWN = "partition, offset, key, value, unix_millis(timestamp), transform(headers, h -> struct(h.key, h.value))"


def produced(archive):
    """Every row of the archive, by a loop over single records of its objects."""
    rows = []
    for (_, partition), manifest in archive.manifests.items():
        for entry in manifest.entries:
            data = archive.store.get(entry.key)[0][: entry.data_bytes]
            for position, _ in iter_headers(data):
                for record in iter_records(data, position):
                    headers = [(each.key, each.value) for each in record.headers] or None
                    rows.append((partition, record.offset, record.key, record.value, record.timestamp_ms, headers))
    return sorted(rows, key=lambda row: row[:2])


def written(spark, out):
    """Every row that the sink has committed, in the same form."""

    def plain(value):
        if isinstance(value, bytearray):
            return bytes(value)
        return [tuple(map(plain, each)) for each in value] if isinstance(value, list) else value

    rows = spark.read.parquet(str(out)).selectExpr(*SHOWN.split(", ", 5)).collect()
    return sorted((tuple(map(plain, row)) for row in rows), key=lambda row: row[:2])


def stream(spark, archive, out, **options):
    """A query from the beginning of ``archive`` into ``out``, not started yet."""
    given = {"subscribe": "orders", "startingOffsets": "earliest", "includeHeaders": "true", **options}
    rows = spark.readStream.format("stratalog").options(**given).load(archive.store.url)
    return rows.writeStream.format("parquet").option("checkpointLocation", f"{out}.checkpoint").option("path", str(out))


def run_now(spark, archive, out, **options):
    """Run it until all that is there now is read; the rows of each micro-batch that had some."""
    counts = run_once(spark, archive, out, **options)
    if spark.version.startswith("4.1."):  # reads one micro-batch a run
        while more := run_once(spark, archive, out, **options):
            counts += more
    return counts


def run_once(spark, archive, out, **options):
    query = stream(spark, archive, out, **options).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


@pytest.mark.story
def test_present_records_are_read_in_batches_and_none_twice(spark, growing_archive, batches, tmp_path):
    """Limited, over objects and partitions, into Parquet; a run later reads what is new, and one more nothing."""
    growing_archive.add("orders", 0, batches(0, 90), batches(90, 60))
    growing_archive.add("orders", 1, batches(0, 60))
    out = tmp_path / "out"
    counts = run_now(spark, growing_archive, out, maxOffsetsPerTrigger="70")
    assert len(counts) >= 3
    assert max(counts) <= 70
    assert sum(counts) == 210
    assert written(spark, out) == produced(growing_archive)
    growing_archive.add("orders", 1, batches(60, 40))
    growing_archive.add("orders", 2, batches(0, 20))
    assert run_now(spark, growing_archive, out) == [60]
    assert run_now(spark, growing_archive, out) == []
    assert written(spark, out) == produced(growing_archive)
    if not spark.version.startswith("4.1."):
        assert list_leases(growing_archive.store) == []


def test_a_growing_archive_is_followed(spark, growing_archive, batches, tmp_path):
    """By a query that goes on; its progress tells offsets as Kafka's source does, and how far the archive goes."""
    growing_archive.add("orders", 0, batches(0, 30))
    out = tmp_path / "out"
    query = stream(spark, growing_archive, out, manifestRefresh="0", discoveryInterval="0").start()
    try:
        query.processAllAvailable()
        growing_archive.add("orders", 0, batches(30, 30))
        query.processAllAvailable()
        growing_archive.add("orders", 1, batches(0, 15))
        query.processAllAvailable()
        assert len(list_leases(growing_archive.store)) == 1
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        assert [each["numInputRows"] for each in progress] == [30, 30, 15]
        source = progress[-1]["sources"][0]
        assert {name: _object(source[name]) for name in ("startOffset", "endOffset", "latestOffset")} == {
            "startOffset": {"orders": {"0": 60}, "@shortened": {}},
            "endOffset": {"orders": {"0": 60, "1": 15}, "@shortened": {}},
            "latestOffset": {"orders": {"0": 60, "1": 15}},
        }
    finally:
        query.stop()
    assert written(spark, out) == produced(growing_archive)


def _object(offset):
    """PySpark 4.1 shows offsets as Python does, later ones as JSON; numbers and names are alike in both."""
    return ast.literal_eval(offset) if isinstance(offset, str) else offset


@pytest.mark.story
@pytest.mark.parametrize("lost", [pytest.param("commit", marks=pytest.mark.slow), "commit and sink"])
def test_a_batch_that_was_not_committed_is_read_again_exactly(spark, growing_archive, batches, tmp_path, lost):
    """From the offsets in the checkpoint alone, although the archive has grown; the sink drops what it has already."""
    growing_archive.add("orders", 0, batches(0, 100))
    out = tmp_path / "out"
    assert run_now(spark, growing_archive, out, maxOffsetsPerTrigger="40") == [40, 40, 20]
    last = max(int(path.name) for path in Path(f"{out}.checkpoint", "commits").glob("[0-9]*"))
    for folder in [Path(f"{out}.checkpoint", "commits"), *([out / "_spark_metadata"] if "sink" in lost else [])]:
        (folder / str(last)).unlink()
        (folder / f".{last}.crc").unlink(missing_ok=True)
    growing_archive.add("orders", 0, batches(100, 50))
    run_now(spark, growing_archive, out, maxOffsetsPerTrigger="40")
    assert written(spark, out) == produced(growing_archive)


@pytest.fixture
def first_batch_lost(spark, growing_archive, batches, tmp_path):
    """A query whose first micro-batch, over 50 offsets, is in the checkpoint but not done: runs it until then."""
    out = tmp_path / "out"

    def run(**options):
        growing_archive.add("orders", 0, batches(0, 50))
        run_once(spark, growing_archive, out, **options)
        for folder in (Path(f"{out}.checkpoint", "commits"), out / "_spark_metadata"):
            for path in folder.glob("*0*"):
                path.unlink()
        return out

    return run


@pytest.mark.story
def test_a_first_batch_from_the_end_is_planned_again_from_there(spark, growing_archive, batches, first_batch_lost):
    """Where the stream began, not where the archive ends by then."""
    out = first_batch_lost(startingOffsets="latest")
    growing_archive.add("orders", 0, batches(50, 50))
    run_now(spark, growing_archive, out, startingOffsets="latest")
    assert written(spark, out) == [row for row in produced(growing_archive) if row[1] >= 50]


@pytest.mark.story
def test_a_first_batch_does_not_take_partitions_that_came_later(spark, growing_archive, batches, first_batch_lost):
    """They come with the second one; options that have changed since, and are wrong by now, do not count."""
    out = first_batch_lost()
    growing_archive.add("orders", 1, batches(0, 10))
    run_now(spark, growing_archive, out, startingOffsets='{"orders":{"7":0}}')
    assert written(spark, out) == produced(growing_archive)


@pytest.mark.story
def test_a_first_batch_whose_records_are_gone_is_a_loss(spark, growing_archive, batches, first_batch_lost):
    """It is reported, as that of any other micro-batch, also where the stream was to begin as early as it can."""
    out = first_batch_lost()
    growing_archive.set_log_start("orders", 0, 30)
    with pytest.raises(Exception, match=r"orders-0: the offsets 0 to 29 were removed.*failOnDataLoss"):
        run_now(spark, growing_archive, out)
    run_now(spark, growing_archive, out, failOnDataLoss="false")
    assert [row[1] for row in written(spark, out)] == list(range(30, 50))


DRIVER = """
import sys
from stratalog.spark import session
fast = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.driver.memory": "512m"}
spark = session("local[1]", **fast)
rows = spark.readStream.format("stratalog").options(
    subscribe="orders", startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger="40"
).load(sys.argv[1])
writer = rows.writeStream.format("parquet").option("checkpointLocation", sys.argv[2] + ".checkpoint")
writer.option("path", sys.argv[2]).start().awaitTermination()
"""


@pytest.mark.story
@pytest.mark.timeout(300)  # a JVM starts, on a machine that may be busy
@pytest.mark.parametrize("log", ["offsets", pytest.param("commits", marks=pytest.mark.slow)])
def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(spark, growing_archive, batches, tmp_path, log):
    """Before and after the commit of a micro-batch: nothing is lost and nothing doubled."""
    growing_archive.add("orders", 0, batches(0, 500))
    growing_archive.add("orders", 1, batches(0, 300))
    out = tmp_path / "out"
    seen = Path(f"{out}.checkpoint", log, "1")
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, growing_archive.store.url, str(out)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 240
        while not seen.exists():
            assert driver.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    left = run_now(spark, growing_archive, out, maxOffsetsPerTrigger="300")
    assert 0 < sum(left) < 800
    assert written(spark, out) == produced(growing_archive)


@pytest.mark.story
def test_loss_ends_the_query_or_is_skipped(spark, growing_archive, batches, tmp_path):
    """failOnDataLoss decides; the checkpoint of the failed query serves the lenient one."""
    growing_archive.add("orders", 0, batches(0, 50))
    out = tmp_path / "out"
    assert run_now(spark, growing_archive, out) == [50]
    before = produced(growing_archive)
    growing_archive.add("orders", 0, batches(50, 50), batches(100, 50))
    growing_archive.set_log_start("orders", 0, 110)
    with pytest.raises(Exception, match=r"orders-0: the offsets 50 to 109 were removed.*failOnDataLoss"):
        run_now(spark, growing_archive, out)
    assert run_now(spark, growing_archive, out, failOnDataLoss="false") == [40]
    assert written(spark, out) == before + [row for row in produced(growing_archive) if row[1] >= 110]


@pytest.mark.story
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is not for a stream"),
        ({"subscribe": "nothing"}, "topic 'nothing' is not in the archive"),
    ],
)
def test_mistakes_are_reported(spark, growing_archive, batches, tmp_path, options, message):
    """The message reaches the user through Spark, also where the query would end at once."""
    growing_archive.add("orders", 0, batches(0, 10))
    with pytest.raises(Exception, match=message):
        run_now(spark, growing_archive, tmp_path / "out", **options)


class AsInSpark41:
    """Calls a reader as PySpark 4.1 does: without start and limit, and with an empty range after a restart."""

    def __init__(self, reader):
        self.reader = reader

    def batch(self, start):
        end = self.reader.latestOffset()
        start = self.reader.initialOffset() if start is None else start
        tasks = self.reader.partitions(start, end)
        rows = [offset for task in tasks for batch in self.reader.read(task) for offset in batch["offset"].to_pylist()]
        return end, rows


def test_pyspark_4_1_tells_less_and_gets_the_same(spark, growing_archive, batches):
    """Limits come from the options, the start from the batch before or from the checkpoint; an archive that went back is a
    loss there as well.
    """
    from pyspark.sql.types import _parse_datatype_string

    from pyspark_stratalog import DefaultSource

    del spark  # types are parsed by its JVM
    growing_archive.add("orders", 0, batches(0, 100))
    options = {"path": growing_archive.store.url, "subscribe": "orders", "startingOffsets": "earliest"}
    options |= {"maxOffsetsPerTrigger": "40", "lease": "false"}

    def reader():
        made = DefaultSource(options).streamReader(schema=_parse_datatype_string("offset bigint"))
        assert isinstance(made, StratalogStreamReader)
        return AsInSpark41(made)

    first = reader()
    end, rows = first.batch(None)
    assert (end, rows) == ({"orders": {"0": 40}, "@start": {"orders": {"0": 0}}, "@shortened": {}}, list(range(40)))
    again = reader().reader
    assert len(again.partitions(again.initialOffset(), end)) == 1
    assert again.latestOffset() == {"orders": {"0": 80}, "@shortened": {}}
    end, rows = first.batch(end)
    assert (end, rows) == ({"orders": {"0": 80}, "@shortened": {}}, list(range(40, 80)))
    restarted = reader()
    assert restarted.reader.partitions(end, end) == []
    end, rows = restarted.batch(end)
    assert (end, rows) == ({"orders": {"0": 100}, "@shortened": {}}, list(range(80, 100)))
    assert restarted.batch(end) == (end, [])
    before = growing_archive.manifests["orders", 0]
    back = replace(before, entries=(), remote_end=0, seq=before.seq + 1, shortened_seq=before.seq + 1)
    back = replace(back, commits=(*before.commits, CommitNote(back.seq, "rewind", 0, 0, 0)))
    growing_archive.write("orders", 0, back, [])
    growing_archive.add("orders", 0, batches(0, 120))
    assert reader().batch(None)[0]["@shortened"] == {"orders": {"0": back.seq}}
    earlier = {"orders": end["orders"]}
    old = reader()
    old.reader.partitions(earlier, earlier)
    assert old.batch(earlier)[1] == list(range(100, 120))
    strict = reader()
    strict.reader.partitions(end, end)
    with pytest.raises(DataLoss, match="taken back to a cut"):
        strict.batch(end)
    options["failOnDataLoss"] = "false"
    lenient = reader()
    lenient.reader.partitions(end, end)
    end, rows = lenient.batch(end)
    assert (end, rows) == ({"orders": {"0": 120}, "@shortened": {"orders": {"0": back.seq}}}, list(range(100, 120)))


@pytest.mark.story
def test_values_are_decoded_in_streams_too(spark, growing_archive, tmp_path):
    """Each row as its schema says; what cannot be decoded is there, and told."""
    records = [Record(n, 1, None, b'{"n":%d}' % n if n != 7 else b"broken") for n in range(20)]
    growing_archive.add("orders", 0, bytes(build_batch(records, leader_epoch=0)))
    options = {"subscribe": "orders", "startingOffsets": "earliest", "valueFormat": "json", "valueSchema": "n int"}
    rows = spark.readStream.format("stratalog").options(**options).load(growing_archive.store.url)
    out = str(tmp_path / "out")
    writer = rows.select("offset", "value.n", "valueError").writeStream.format("parquet")
    query = writer.options(path=out, checkpointLocation=f"{out}.checkpoint").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    found = {row.offset: (row.n, row.valueError) for row in spark.read.parquet(out).collect()}
    assert found.pop(7) == (None, "no JSON of this schema: it is no object in braces")
    assert found == {n: (n, None) for n in range(20) if n != 7}


@pytest.mark.story
def test_the_newest_records_come_from_brokers_and_each_comes_once(spark, log, tmp_path):
    """Into Parquet, while all is archived behind the stream, and over a commit that was lost."""
    store = log.archived(tmp_path / "archive", log.batches()[:7])
    expected = [row["value"] for row in values_of(store, log)]
    out = tmp_path / "out"

    def run():
        given = {"subscribe": "t", "startingOffsets": "earliest", "kafka.bootstrap.servers": log.bootstrap_servers}
        rows = spark.readStream.format("stratalog").options(**given).load(store.url)
        writer = rows.writeStream.format("parquet").options(path=str(out), checkpointLocation=f"{out}.checkpoint")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    run()
    found = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [bytes(row.value) for row in found] == expected
    Path(f"{out}.checkpoint", "commits", "0").unlink()
    Path(f"{out}.checkpoint", "commits", ".0.crc").unlink(missing_ok=True)
    for name in ("0", ".0.crc"):
        (out / "_spark_metadata" / name).unlink(missing_ok=True)
    for path in out.glob("*.parquet"):
        path.unlink()
    log.archived(tmp_path / "archive", log.batches()[7:])
    plain = Producer({"bootstrap.servers": log.bootstrap_servers})
    plain.produce("t", b"newest")
    plain.flush(20)
    run()
    if spark.version.startswith("4.1."):  # reads one micro-batch a run, and that was the lost one
        run()
    found = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [bytes(row.value) for row in found] == [*expected, b"newest"]


def values_of(store, log):
    """The rows of a batch read of both."""
    given = {"path": store.url, "subscribe": "t", "kafka.bootstrap.servers": log.bootstrap_servers}
    options = parse_options(given)
    request = ReadRequest(("value", "offset"))
    rows = []
    for task in plan(store, options, 2):
        hot = isinstance(task[0], HotSlice)
        batches = read_hot_slices(options.hot_tail, task, request) if hot else read_slices(store, task, request)
        rows += [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["offset"])
