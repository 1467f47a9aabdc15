"""The driver's side of a stream over an archive in memory."""

from __future__ import annotations

import logging

import pytest

from stratalog.spark.source import stream_driver, stream_follower
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.stream_driver import StreamDriver
from stratalog.spark.source.stream_options import parse_stream
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.planning.slices import WHOLE_BYTES_MAX
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


@pytest.fixture
def clock(monkeypatch):
    """The time that looks and delays go by, set by the test."""
    times = [1_700_000_000_000]
    for module in (stream_follower, stream_driver):
        monkeypatch.setattr(module, "_now_ms", lambda: times[0])
    return times


def stream(store, **options):
    given = {"path": "s3://b/p", "subscribe": "orders", "lease": "false", "manifestRefresh": "0", **options}
    return StreamDriver(store, parse_options(given, streaming=True), parse_stream(given), 2)


def limits_of(**options):
    return parse_stream(options).limits


def offsets_read(store, tasks):
    """The offsets of the rows, by partition."""
    found = {}
    for task in tasks:
        for batch in read_slices(store, task, ReadRequest(("partition", "offset"))):
            for partition, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found.setdefault(partition, []).append(offset)
    return found


def run(driver, store, position, limits=None):
    """One micro-batch: where it ends, and what it read."""
    end = driver.next_end(position, limits)
    tasks, _ = driver.plan(position, end)
    driver.committed()
    return end, offsets_read(store, tasks)


def test_batches_follow_the_archive_and_begin_inside_objects(memory_archive, batches, clock):
    """Every offset once, whatever the limit, while partitions grow and appear."""
    memory_archive.chunk_bytes = 700
    memory_archive.add("orders", 0, batches(0, 100), batches(100, 50))
    memory_archive.add("orders", 1, batches(0, 30))
    driver = stream(memory_archive.store, startingOffsets="earliest", discoveryInterval="0")
    position, read = driver.initial(), {0: [], 1: [], 2: []}
    assert position == {P0: 0, P1: 0}
    for number in range(12):
        if number == 3:
            memory_archive.add("orders", 0, batches(150, 25))
            memory_archive.add("orders", 2, batches(0, 40))
        position, rows = run(driver, memory_archive.store, position, limits_of(maxOffsetsPerTrigger="37"))
        assert sum(map(len, rows.values())) <= 37 + 3
        for partition, offsets in rows.items():
            read[partition] += offsets
    assert position == driver.latest() == {P0: 175, P1: 30, P2: 40}
    assert read == {0: list(range(175)), 1: list(range(30)), 2: list(range(40))}
    driver.close()


def test_a_batch_inside_an_object_reads_only_its_chunks(memory_archive, batches, clock):
    """Found by the chunk table; a large object is never read from its beginning."""
    memory_archive.chunk_bytes = 1 << 20
    entry = memory_archive.add("orders", 0, batches(0, 2500, per_batch=25, value_bytes=4000))[0]
    assert entry.data_bytes > WHOLE_BYTES_MAX
    store = CountingStore(memory_archive.store)
    driver = stream(store)
    tasks, _ = driver.plan({P0: 1200}, {P0: 1300})
    before = store.received_bytes
    assert offsets_read(store, tasks) == {0: list(range(1200, 1300))}
    assert store.received_bytes - before < 3 << 20


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {P0: 20, P1: 20}),
        ({"startingOffsets": "earliest"}, {P0: 0, P1: 5}),
        ({"startingOffsets": '{"orders":{"0":7}}'}, {P0: 7, P1: 5}),
        ({"startingOffsets": '{"orders":{"0":-1,"1":-2}}'}, {P0: 20, P1: 5}),
        ({"startingTimestamp": "1012000"}, {P0: 12, P1: 12}),
        ({"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "latest"}, {P0: 0, P1: 5}),
        ({"startingTimestamp": "9000000", "startingOffsetsByTimestampStrategy": "latest"}, {P0: 20, P1: 20}),
    ],
)
def test_where_a_query_begins(memory_archive, batches, clock, options, expected):
    """As Spark's Kafka source says, at the end without an option."""
    for partition in range(2):
        memory_archive.add("orders", partition, batches(0, 20))
    memory_archive.set_log_start("orders", 1, 5)
    assert stream(memory_archive.store, **options).initial() == expected


def test_an_impossible_start_is_reported(memory_archive, batches, clock):
    """A topic that is not there, a partition that is not read, an offset that is gone."""
    memory_archive.add("orders", 0, batches(0, 20))
    memory_archive.set_log_start("orders", 0, 5)
    with pytest.raises(Invalid, match="topic 'nothing' is not in the archive"):
        stream(memory_archive.store, subscribe="nothing").initial()
    with pytest.raises(Invalid, match="'startingOffsets' names orders-4"):
        stream(memory_archive.store, startingOffsets='{"orders":{"4":1}}').initial()
    gone = {"startingOffsets": '{"orders":{"0":1}}'}
    with pytest.raises(DataLoss, match="starting offset 1 is below the log start offset 5"):
        stream(memory_archive.store, **gone).initial()
    assert stream(memory_archive.store, failOnDataLoss="false", **gone).initial() == {P0: 5}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest"}, {P0: 0, P1: None}),
        ({"startingOffsets": '{"orders":{"0":7,"1":6}}'}, {P0: 7, P1: 6}),
        ({"startingOffsets": '{"orders":{"0":50,"1":-2}}'}, {P0: 15, P1: None}),
        ({}, {P0: None, P1: None}),
        ({"startingTimestamp": "1012000"}, {P0: None, P1: None}),
        ({"startingTimestamp": "1000000"}, {P0: 0, P1: None}),
    ],
)
def test_a_first_batch_of_an_old_checkpoint_begins_where_the_options_surely_meant(
    memory_archive, batches, clock, caplog, options, expected
):
    """Else it is a loss, told by its true reason; without failOnDataLoss it begins no later than it ends."""
    for partition in range(3):
        memory_archive.add("orders", partition, batches(0, 60))
    memory_archive.set_log_start("orders", 1, 5)
    end = {P0: 15, P1: 15}
    lenient = stream(memory_archive.store, failOnDataLoss="false", **options)
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        starts = lenient.start_by_options(end)
    assert starts.keys() == end.keys()
    assert all(starts[each] <= end[each] and expected[each] in {None, starts[each]} for each in end)
    told = [record.message.split(":")[0] for record in caplog.records]
    assert told == [str(each) for each in end if expected[each] is None]
    if told:
        with pytest.raises(DataLoss, match=f"{told[0]}: the first micro-batch was under way.*earlier version"):
            stream(memory_archive.store, **options).start_by_options(end)
    else:
        assert stream(memory_archive.store, **options).start_by_options(end) == starts


def test_a_frozen_stream_ends_where_the_archive_ended(memory_archive, batches, clock):
    """In batches of the limit, without waiting for a minimum; what comes later is for the next run."""
    memory_archive.add("orders", 0, batches(0, 50))
    driver = stream(memory_archive.store, startingOffsets="earliest", discoveryInterval="0")
    driver.freeze()
    memory_archive.add("orders", 0, batches(50, 50))
    memory_archive.add("orders", 1, batches(0, 50))
    position, read = driver.initial(), []
    assert position == {P0: 0}
    limits = limits_of(maxOffsetsPerTrigger="20", minOffsetsPerTrigger="15")
    while (batch := run(driver, memory_archive.store, position, limits))[0] != position:
        position = batch[0]
        read.append(batch[1])
    assert read == [{0: list(range(20))}, {0: list(range(20, 40))}, {0: list(range(40, 50))}]
    newest = stream(memory_archive.store, lease="true")
    newest.freeze()
    memory_archive.add("orders", 0, batches(100, 50))
    assert newest.initial() == {P0: 100, P1: 50}
    assert len(list_leases(memory_archive.store)) == 1
    assert newest.next_end(newest.initial(), None) == {P0: 100, P1: 50}
    assert list_leases(memory_archive.store) == []


def test_few_records_wait(memory_archive, batches, clock):
    """Until there are enough or the batch before is long enough ago; the first one goes at once."""
    memory_archive.add("orders", 0, batches(0, 10))
    driver = stream(memory_archive.store)
    limits = limits_of(minOffsetsPerTrigger="50", maxTriggerDelay="60s")
    position = driver.next_end({P0: 0}, limits)
    assert position == {P0: 10}
    memory_archive.add("orders", 0, batches(10, 10))
    clock[0] += 59_999
    assert driver.next_end(position, limits) == position
    clock[0] += 1
    assert driver.next_end(position, limits) == {P0: 20}
    memory_archive.add("orders", 0, batches(20, 50))
    assert driver.next_end({P0: 20}, limits) == {P0: 70}
    memory_archive.add("orders", 0, batches(70, 1))
    assert driver.next_end({P0: 70}, limits) == {P0: 70}
    clock[0] -= 3_600_000
    assert driver.next_end({P0: 70}, limits) == {P0: 70}
    clock[0] += 60_000  # of the clock that was put back
    assert driver.next_end({P0: 70}, limits) == {P0: 71}
    assert driver.next_end({P0: 70}, None) == {P0: 71}


def test_loss_ends_the_query_before_its_checkpoint_moves(memory_archive, batches, clock, caplog):
    """Or is skipped with one warning, by the offsets that are gone; deletion of the topic too."""
    memory_archive.add("orders", 0, batches(0, 50), batches(50, 50))
    memory_archive.set_log_start("orders", 0, 60)
    with pytest.raises(DataLoss, match=r"orders-0: the offsets 10 to 59 were removed.*'failOnDataLoss' to 'false'"):
        stream(memory_archive.store).next_end({P0: 10}, None)
    with pytest.raises(DataLoss, match="offsets 10 to 59"):
        stream(memory_archive.store).plan({P0: 10}, {P0: 70})
    lenient = stream(memory_archive.store, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        end, rows = run(lenient, memory_archive.store, {P0: 10}, limits_of(maxOffsetsPerTrigger="15"))
    assert (end, rows) == ({P0: 75}, {0: list(range(60, 75))})
    assert [record.message.count("offsets 10 to 59") for record in caplog.records] == [1]
    memory_archive.store.delete_many([memory_archive.manifests["orders", 0].partition.manifest_key])
    with pytest.raises(DataLoss, match="orders-0 is gone"):
        stream(memory_archive.store).next_end({P0: 75}, None)
    assert run(lenient, memory_archive.store, {P0: 75}) == ({}, {})


def test_a_batch_is_planned_anew_from_its_offsets_alone(memory_archive, batches, clock):
    """By a driver that knows nothing else, after the archive has grown: the same rows, no more."""
    memory_archive.add("orders", 0, batches(0, 40))
    first, _ = stream(memory_archive.store).plan({P0: 5}, {P0: 33})
    memory_archive.add("orders", 0, batches(40, 40))
    again, lease = stream(memory_archive.store).plan({P0: 5}, {P0: 33})
    assert (
        offsets_read(memory_archive.store, first)
        == offsets_read(memory_archive.store, again)
        == {0: list(range(5, 33))}
    )
    assert lease is None
    assert stream(memory_archive.store).plan({P0: 5}, {P0: 5}) == ([], None)


def test_a_billion_offsets_without_records_are_no_batches(memory_archive, clock):
    """On a compacted topic a limit counts existing records, so the stream is through in a few micro-batches."""
    hole = 10**9
    builder = memory_archive
    records = [Record(offset, 1, b"k", b"v") for offset in (0, 1, 2, hole, hole + 1, hole + 2)]
    data = b"".join(build_batch([each]) for each in records)
    builder.add("orders", 0, data, compacted=True)
    builder.add("orders", 0, build_batch([Record(hole + 3 + at, 1, b"k", b"v") for at in range(10)]))
    driver = stream(builder.store, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    position, found, batch_count = driver.initial(), [], 0
    while (end := driver.next_end(position, limits_of(maxOffsetsPerTrigger="4"))) != position:
        tasks, _ = driver.plan(position, end)
        found += offsets_read(builder.store, tasks).get(0, [])
        position, batch_count = end, batch_count + 1
    assert found == [0, 1, 2, hole, hole + 1, hole + 2, *range(hole + 3, hole + 13)]
    assert batch_count <= 5
