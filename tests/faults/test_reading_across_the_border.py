"""One offset space over two places: every offset, every time and every transaction, archived or local."""

import asyncio
import random
from bisect import bisect_right

import pytest

from stratalog.broker.replicas.waiting_append import CallingBack
from stratalog.client.records import NewRecord, fetch, visible_records
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from stratalog.wire.records.control import ControlType, EndTxnMarker, encode_key, encode_record
from stratalog.wire.topic import TopicPartition

NAME = TopicPartition("t", 0)


def look_up(tiered, timestamp):
    """ListOffsets for one timestamp: (offset, timestamp) of the answer."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])], timeout_ms=5000
    )
    answer = tiered.node.link().call(request, 11).topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.offset, answer.timestamp


def first_batch(tiered, headers_of, client, offset, **options):
    """The header of the first batch that a fetch at ``offset`` brings, and all its bytes."""
    while True:
        (found,) = fetch(client, {NAME: offset}, max_wait_ms=500, **options)
        if found.data:
            return headers_of(found.data)[0], found.data


@pytest.mark.parametrize("local_bytes", [0, 3000])
def test_every_offset_is_a_fetch_offset(tiered, headers_of, local_bytes):
    """The first batch of the answer is the one that holds it: archived, local, on either side of the border."""
    tiered.topic("t", local_retention_bytes=local_bytes)
    for count in (1, 3, 7, 2) * 6:
        tiered.write("t", 1, count=count)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.local_log_start_offset > 0)
    _, local_start, remote_end, end = tiered.offsets("t")
    assert 0 < local_start <= remote_end < end
    client = tiered.node.client()
    for offset in range(end):
        header, _ = first_batch(tiered, headers_of, client, offset, partition_max_bytes=1)
        assert header.base_offset <= offset < header.next_offset
    tiered.check_reads("t")
    (at_end,) = fetch(client, {NAME: end}, max_wait_ms=0)
    assert not at_end.data
    with pytest.raises(KafkaError) as refused:
        fetch(client, {NAME: end + 1}, max_wait_ms=0)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_answers_respect_their_limits_wherever_the_bytes_are(tiered, headers_of):
    """Beyond the first batch nothing exceeds the bytes that were asked for, and batches are whole."""
    tiered.topic("t", 2)
    for partition in (0, 1):
        tiered.write("t", 30, partition=partition)
        tiered.archived("t", partition)
    client = tiered.node.client()
    for limit in (1, 700, 1500, 5000):
        header, data = first_batch(tiered, headers_of, client, 3, partition_max_bytes=limit)
        assert len(data) <= max(limit, header.size_bytes)
        assert sum(one.size_bytes for one in headers_of(data)) == len(data)
    both = {NAME: 0, TopicPartition("t", 1): 0}
    tiered.read("t", 1)
    found = fetch(client, both, max_wait_ms=500, max_bytes=1)
    assert sum(bool(one.data) for one in found) == 1


def test_named_offsets(tiered):
    """-1 log end, -2 log start, -4 local start, -5 the last archived offset, -6 the first that is not."""
    tiered.topic("t")
    assert [look_up(tiered, which)[0] for which in (-1, -2, -4, -5, -6)] == [0, 0, 0, -1, 0]
    tiered.write("t", 20)
    tiered.archived("t")
    tiered.write("t", 1)
    log_start, local_start, remote_end, end = tiered.offsets("t")
    assert [look_up(tiered, which)[0] for which in (-1, -2, -4, -5, -6)] == [
        end,
        log_start,
        local_start,
        remote_end - 1,
        remote_end,
    ]


def test_times_are_found_as_by_a_scan_of_the_whole_log(tiered):
    """The first record at or after a time, and the record with the largest time, in disorder and over both places."""
    dice = random.Random(7)
    tiered.topic("t", local_retention_bytes=4000, message_timestamp_after_max_ms=2**62)
    times = [10_000 + 40 * n + dice.randrange(-300, 300) for n in range(200)]
    times[20] = 30_000  # the largest, in the archive
    tiered.write("t", 40, timestamp_ms=lambda n: times[n])
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.local_log_start_offset > 0)
    asked = sorted({*times[::7], *(time + 1 for time in times[::11]), 0, 18_000, 30_000, 30_001})
    for timestamp in asked:
        expected = next(((n, time) for n, time in enumerate(times) if time >= timestamp), (-1, -1))
        assert look_up(tiered, timestamp) == expected
    assert look_up(tiered, -3) == (20, 30_000)
    start = bisect_right(range(200), 33)
    tiered.delete_records("t", start)
    expected = next((n, time) for n, time in enumerate(times) if n >= start and time >= 9_000)
    assert look_up(tiered, 9_000) == expected


def append_inside(tiered, batch, *, marker=False):
    """Append a transactional batch or a marker as a coordinator's broker would; its base offset."""

    async def append():
        done = asyncio.get_running_loop().create_future()
        partition = tiered.node.partition("t").partition
        if marker:
            partition.leader.append_as_leader(batch, done.set_result)
        else:
            partition.leader.append(memoryview(batch), -1, None, CallingBack(done.set_result))
        return await done

    return tiered.node.run(append).base_offset


def transaction(tiered, producer_id, values, *, commit, between=()):
    """Append a transaction whose records stand between others; its marker ends it."""
    for sequence, value in enumerate(values):
        batch = build_batch(
            [Record(0, 5000, None, value)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        append_inside(tiered, batch)
        for count in between:
            tiered.write("t", 1, count=count)
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    value = encode_record(EndTxnMarker(coordinator_epoch=0))
    record = Record(0, 5000, encode_key(kind), value)
    marker = build_batch([record], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
    append_inside(tiered, marker, marker=True)


def test_aborted_transactions_are_hidden_across_the_border(tiered):
    """read_committed sees committed records only, wherever a transaction begins and its marker stands."""
    tiered.topic("t", local_retention_bytes=2500)
    visible = []
    for number in range(12):
        commit = number % 3 == 0
        values = [b"tx%d-%d" % (number, n) + b"." * 120 for n in range(6)]
        transaction(tiered, 1000 + number, values, commit=commit, between=(2,))
        visible += values if commit else []
    tiered.write("t", 1)
    tiered.archived("t", evicted=False)
    tiered.node.wait_until(lambda: tiered.node.partition("t").log.local_log_start_offset > 0)
    _, local_start, _, end = tiered.offsets("t")
    assert any(
        entry.first_offset < local_start <= entry.last_offset
        for entry in tiered.node.run(lambda: tiered.node.partition("t").log.aborted_transactions(local_start, end))
    ), "no aborted transaction crosses the border: the test proves nothing"
    seen = [record.value for record in tiered.node.read("t") if record.value.startswith(b"tx")]
    assert seen == visible
    for offset in (1, local_start - 3, local_start - 1, local_start, local_start + 1):
        tail = [record.value for record in tiered.node.read("t", 0, offset) if record.value.startswith(b"tx")]
        assert tail == visible[len(visible) - len(tail) :]


def test_no_record_of_an_open_transaction_is_archived(tiered):
    """The last stable offset bounds the archive; the decision lets it go on."""
    tiered.topic("t")
    tiered.write("t", 10)
    batch = build_batch(
        [Record(0, 5000, None, b"open")], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
    )
    base = append_inside(tiered, batch)
    tiered.written.pop(("t", 0))
    for _ in range(20):
        tiered.node.produce("t", b"x" * 300)
    tiered.node.wait_until(lambda: tiered.node.partition("t").remote.end_offset > 0)
    tiered.roll("t")
    assert tiered.offsets("t")[2] <= base
    transaction(tiered, 9, [], commit=False)
    tiered.roll("t")
    tiered.archived("t")
    assert b"open" not in tiered.node.values("t")
    tiered.check_bucket("t", orphans=False)


def test_records_in_both_places_are_served_locally(tiered):
    """No GET is made for offsets that are archived and still on the disk."""
    tiered.topic("t", local_retention_bytes=-1, local_retention_ms=-1, retention_ms=-1)
    tiered.write("t", 40)
    tiered.archived("t", evicted=False)
    assert tiered.offsets("t")[1:3] == (0, tiered.offsets("t")[2])
    assert tiered.offsets("t")[2] > 0
    before = tiered.gets
    tiered.check_reads("t")
    look_up(tiered, tiered.written["t", 0][7][1])
    assert tiered.gets == before


def test_a_batch_is_frozen_for_the_archive_only_when_rolled_and_synced(start_tiered, watched_files):
    """Every upload names offsets whose file was synced after it was closed for appends."""
    tiered = start_tiered()
    uploads = []
    workers = tiered.node.node.tiering._io
    submit = workers.submit

    def watched(command, done):
        if type(command).__name__ == "RatedUpload":
            log = tiered.node.partition("t").log
            uploads.append((command.upload.request.end, log.flushed_offset, log.active_base_offset))
        submit(command, done)

    workers.submit = watched
    tiered.topic("t")
    tiered.write("t", 60)
    tiered.archived("t")
    assert len(uploads) > 5
    for end, flushed, active in uploads:
        assert end <= flushed
        assert end <= active


@pytest.mark.story
@pytest.mark.parametrize(
    "rounds", [120, pytest.param(1_500, marks=[pytest.mark.slow, pytest.mark.timeout(600)])], ids=["some", "many"]
)
def test_reads_that_race_eviction_are_never_out_of_range(tiered, rounds):
    """A reader at the border goes on from the archive, some times and many."""
    tiered.topic("t")
    tiered.spoil(FaultRule(Fault.DELAY, "get_range", count=None, seconds=0.001))
    client, position, reads = tiered.node.client(), 0, 0
    seen = []
    for _ in range(rounds):
        tiered.write("t", 2, count=2, size_bytes=300)
        end = tiered.written["t", 0][-1][0] + 1
        while position < end:
            (found,) = fetch(client, {NAME: position}, max_wait_ms=200, partition_max_bytes=700)
            reads += 1
            for _, records in visible_records(found, position):
                for record in records:
                    seen.append((record.offset, record.timestamp_ms, record.value))
                    position = record.offset + 1
    assert reads >= 2 * rounds
    assert seen == tiered.written["t", 0]
    tiered.archived("t")
    tiered.check_reads("t")


@pytest.mark.story
@pytest.mark.parametrize("local_bytes", [0, 1000])
def test_a_reader_passes_holes_behind_the_last_records_of_objects(tiered, local_bytes):
    """Compaction leaves them, between two objects and before the local disk; nothing behind them is cached yet."""
    tiered.topic("t", remote_storage_enable="false", cleanup_policy="compact", delete_retention_ms=0)
    broker, now_ms = tiered.node, tiered.node.node.clock.wall_ms()
    for number in range(4):
        broker.produce("t", NewRecord(bytes(1200), now_ms, key=b"%d" % number, partition=0))
        broker.produce("t", NewRecord(b"", now_ms, key=b"again", partition=0))
        tiered.roll("t")
    broker.produce("t", NewRecord(b"", now_ms, key=b"again", partition=0))
    tiered.roll("t")
    broker.run(broker.node.compaction.look)
    broker.wait_until(lambda: broker.node.compaction.idle)
    tiered.configure("t", remote_storage_enable="true", local_retention_bytes=local_bytes)
    broker.wait_until(lambda: broker.partition("t").log.local_log_start_offset == (6 if local_bytes else 9))
    assert [(one.base, one.end) for one in tiered.manifest("t").entries] == [(0, 2), (2, 4), (4, 6), (6, 9)]
    for offset in range(8):
        assert [one[0] for one in tiered.read("t", 0, offset)] == [at for at in (0, 2, 4, 6, 8) if at >= offset]
