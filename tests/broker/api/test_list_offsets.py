"""ListOffsets: ends of a log and records by their time."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from stratalog.broker.api import list_offsets
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.client.records import NewRecord
from stratalog.hot.segments.batch_search import BatchSearch
from stratalog.wire.batch import Header, Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.api.at_once import PlainRows, pauses
from tests.broker.api.test_produce import request, with_crc

DAY_MS = 86_400_000
THEN_MS = 1_372_896_000_000  # 4 July 2013


def ask(link, version, *timestamps, partition=0, epoch=-1, topic="t", isolation_level=0, replica_id=-1):
    """One partition's answers for several timestamps, each in a request of its own."""
    answers = []
    for timestamp in timestamps:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(
            replica_id=replica_id,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        )
        answers.append(link.call(request, version).topics[0].partitions[0])
    return answers


@pytest.mark.parametrize("version", range(1, 12))
def test_ends_and_times_in_every_version(broker, version):
    """-1, -2 and a time are answered by every version, with the epoch from version 4 on."""
    broker.create("t", 2)
    for day in range(3):
        broker.produce("t", NewRecord(b"v", THEN_MS + day * DAY_MS, partition=1))
    latest, earliest, found, none = ask(
        broker.link(), version, -1, -2, THEN_MS + DAY_MS - 5, THEN_MS + 9 * DAY_MS, partition=1
    )
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 3, -1)
    assert (earliest.offset, found.offset, found.timestamp) == (0, 1, THEN_MS + DAY_MS)
    assert (none.error_code, none.offset, none.timestamp) == (0, -1, -1)
    assert found.leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize(("timestamp", "since", "offset"), [(-3, 7, 1), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)])
def test_named_ends_begin_with_their_version(broker, timestamp, since, offset):
    """Largest timestamp, earliest local, latest tiered and earliest not yet uploaded; older versions get an error."""
    broker.create("t")
    for moment in (5, 50, 20):
        broker.produce("t", NewRecord(b"v", THEN_MS + moment, partition=0))
    link = broker.link()
    (before,) = ask(link, since - 1, timestamp)
    assert before.error_code == ErrorCode.UNSUPPORTED_VERSION
    (answer,) = ask(link, since, timestamp)
    assert (answer.error_code, answer.offset) == (0, offset)
    assert answer.timestamp == (THEN_MS + 50 if timestamp == -3 else -1)


def test_time_look_ups_equal_a_scan(broker):
    """For times before, at and behind every record, also in batches whose times go back and forth."""
    broker.create("t", segment_bytes=1 << 20, index_interval_bytes=1)
    moments = [(number * 37) % 101 for number in range(120)]
    for first in range(0, 120, 4):
        broker.produce("t", *[NewRecord(b"v", THEN_MS + one, partition=0) for one in moments[first : first + 4]])
    link = broker.link()
    for wanted in range(-1, 103, 3):
        expected = next(((at, one) for at, one in enumerate(moments) if one >= wanted), None)
        (answer,) = ask(link, 11, THEN_MS + wanted)
        got = None if answer.offset < 0 else (answer.offset, answer.timestamp - THEN_MS)
        assert got == expected
    (largest,) = ask(link, 11, -3)
    assert (largest.offset, largest.timestamp - THEN_MS) == (moments.index(100), 100)


def test_unknown_partitions_and_epochs_fail_for_themselves(broker):
    """UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH."""
    broker.create("t")
    broker.restart()
    link = broker.link()
    assert ask(link, 11, -1, topic="absent")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(link, 11, -1, partition=3)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(link, 11, -1, epoch=0)[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(link, 11, 5, epoch=9)[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(link, 11, -99)[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_partition_asked_for_twice_is_refused(broker):
    """INVALID_REQUEST once, as Kafka answers; the others are answered."""
    broker.create("t", 2)
    wanted = [ListOffsetsPartition(partition_index=one, timestamp=-1) for one in (0, 1, 0)]
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    answers = broker.link().call(asked, 11).topics[0].partitions
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST, 0]


def test_an_empty_log_has_equal_ends_and_no_times(broker):
    """0 and 0, and nothing found by time or as largest."""
    broker.create("t")
    latest, earliest, local, by_time, largest = ask(broker.link(), 11, -1, -2, -4, 0, -3)
    assert [latest.offset, earliest.offset, local.offset, by_time.offset, largest.offset] == [0, 0, 0, -1, -1]


def test_read_committed_ends_at_the_last_stable_offset(broker, new_batch):
    """An open transaction holds -1 back for readers of committed data only."""
    broker.create("t")
    broker.produce("t", b"a")
    batch = new_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    broker.run(lambda: broker.partition("t").partition.leader.append_as_leader(batch, lambda _outcome: None))
    broker.wait_until(lambda: broker.partition("t").partition.high_watermark == 2)
    link = broker.link()
    assert ask(link, 11, -1)[0].offset == 2
    assert ask(link, 11, -1, isolation_level=1)[0].offset == 1


@pytest.mark.parametrize("version", [1, 4, 11])
@pytest.mark.parametrize(("timestamp", "broken"), [(-2, "log_start_offset"), (THEN_MS, "find_timestamp")])
def test_an_unexpected_failure_is_answered_for_every_partition(broker, monkeypatch, version, timestamp, broken):
    """UNKNOWN_SERVER_ERROR, at once or by a look-up that takes its time; the connection goes on."""
    broker.create("t", 2)
    link = broker.link()
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in (1, 0)]
    wanted = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    with monkeypatch.context() as patch:
        patch.setattr(type(broker.partition("t")), broken, property(lambda self: 1 / 0))
        (topic,) = link.call(wanted, version).topics
    assert [(one.partition_index, one.error_code, one.offset) for one in topic.partitions] == [
        (number, ErrorCode.UNKNOWN_SERVER_ERROR, -1) for number in (1, 0)
    ]
    assert [one.error_code for one in link.call(wanted, version).topics[0].partitions] == [0, 0]


@pytest.mark.story
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_large_batch_is_searched_in_the_worker(broker, codec):
    """The event loop never opens it, neither for a time nor for the newest record; the answers are a scan's."""
    broker.create("t")
    records = [Record(number, THEN_MS + number // 2, None, b"") for number in range(20_000)]
    broker.append("t", build_batch(records, codec=codec))
    link, here = broker.link(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchSearch, "find", here.append)
        found, newest, none = ask(link, 11, THEN_MS + 9_000, -3, THEN_MS + 10_000)
    assert (found.error_code, found.offset, found.timestamp) == (0, 18_000, THEN_MS + 9_000)
    assert (newest.error_code, newest.offset, newest.timestamp) == (0, 19_998, THEN_MS + 9_999)
    assert (none.error_code, none.offset) == (0, -1)
    assert here == []


def test_a_worker_that_is_lost_is_an_error_to_try_again(broker):
    """KAFKA_STORAGE_ERROR, which clients retry."""
    broker.create("t")
    broker.append("t", build_batch([Record(0, THEN_MS, None, b"v")], codec=Codec.ZSTD))
    broker.run(broker.node.deep_work.close)
    (answer,) = ask(broker.link(), 11, THEN_MS)
    assert (answer.error_code, answer.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_new_leader_that_is_behind_does_not_say_that_there_is_no_such_record(broker):
    """Its mark has yet to reach the start of its epoch; what it finds below is so for good (KIP-207)."""
    broker.create("t")
    for day in range(3):
        broker.produce("t", NewRecord(b"v", THEN_MS + day * DAY_MS))
    partition = broker.partition("t", 0).partition
    broker.run(lambda: partition.lead(1, 9, replicas=(1, 2), in_sync=(1, 2)))
    state = partition.leader.state

    def fall_behind():
        state.epoch_start_offset, state.high_watermark, partition.high_watermark = 3, 2, 2

    broker.run(fall_behind)
    found, *rest = ask(broker.link(), 11, THEN_MS + DAY_MS, THEN_MS + 2 * DAY_MS, -1, -3, -2)
    assert (found.error_code, found.offset) == (0, 1)
    behind = ErrorCode.OFFSET_NOT_AVAILABLE
    assert [answer.error_code for answer in rest] == [behind, behind, behind, 0]


@pytest.mark.parametrize("version", [4, 5])
def test_versions_before_5_hear_of_a_new_leader_that_is_behind_in_their_own_words(broker, version):
    """Their clients do not know OFFSET_NOT_AVAILABLE, also where a record is looked up by its time."""
    broker.create("t")
    broker.produce("t", NewRecord(b"v", THEN_MS))
    partition = broker.partition("t", 0).partition
    broker.run(lambda: partition.lead(1, 9, replicas=(1, 2), in_sync=(1, 2)))

    def fall_behind():
        partition.leader.state.epoch_start_offset = 2

    broker.run(fall_behind)
    answers = ask(broker.link(), version, -1, THEN_MS + 1)
    expected = ErrorCode.LEADER_NOT_AVAILABLE if version < 5 else ErrorCode.OFFSET_NOT_AVAILABLE
    assert [answer.error_code for answer in answers] == [expected, expected]


@pytest.mark.parametrize("timestamp", [THEN_MS, -3])
def test_a_leadership_that_ends_during_a_look_up_by_time_is_refused(broker, monkeypatch, timestamp):
    """With it goes the archive: the first record on this disk would be named, and its consumer pass over those before."""
    broker.create("t", 2)
    for number in range(2):
        broker.produce("t", NewRecord(b"v", THEN_MS, partition=number))
    name = "find_max_timestamp" if timestamp < 0 else "find_timestamp"
    find = getattr(UnifiedLog, name)

    async def find_and_resign(unified, *arguments, **named):
        if unified.topic_partition.partition == 0:
            broker.partition("t", 1).partition.resign()
        return await find(unified, *arguments, **named)

    monkeypatch.setattr(UnifiedLog, name, find_and_resign)
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in range(2)]
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    answers = broker.link().call(asked, 11).topics[0].partitions
    assert [(one.error_code, one.offset) for one in answers] == [(0, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_new_leader_that_is_behind_names_the_largest_timestamp_below_its_mark(broker):
    """The largest one of the whole log is committed: no record behind it changes the answer."""
    broker.create("t")
    for day in (2, 0, 1):
        broker.produce("t", NewRecord(b"v", THEN_MS + day * DAY_MS))
    partition = broker.partition("t", 0).partition
    broker.run(lambda: partition.lead(1, 9, replicas=(1, 2), in_sync=(1, 2)))

    def fall_behind():
        state = partition.leader.state
        state.epoch_start_offset, state.high_watermark, partition.high_watermark = 3, 2, 2

    broker.run(fall_behind)
    (largest,) = ask(broker.link(), 11, -3)
    assert (largest.error_code, largest.offset, largest.timestamp) == (0, 0, THEN_MS + 2 * DAY_MS)


def test_the_largest_timestamp_of_a_record_that_is_not_committed_is_hidden_from_consumers(broker, new_batch):
    """A follower in sync lacks it, and the next leader may: -1, as Kafka. A replica sees the whole log."""
    broker.create("t")
    unified, me = broker.partition("t"), broker.node.node_id
    partition = unified.partition
    broker.run(lambda: partition.lead(me, partition.leader_epoch, replicas=(me, me + 1), in_sync=(me, me + 1)))
    broker.append("t", new_batch(b"uncommitted", timestamp_ms=THEN_MS), acks=1)
    broker.wait_until(lambda: unified.log.flushed_offset == 1)
    latest, largest, by_time = ask(broker.link(), 11, -1, -3, THEN_MS)
    assert [(one.error_code, one.offset) for one in (latest, largest, by_time)] == [(0, 0), (0, -1), (0, -1)]
    assert largest.timestamp == -1
    assert ask(broker.link(), 11, -3, replica_id=-2)[0].offset == 0


def test_the_largest_timestamp_of_an_open_transaction_is_hidden_from_readers_of_committed_data(transactions):
    """The same holds for a look-up by time, until the transaction ends. Readers of all data find the record."""
    producer = transactions.producer()
    assert transactions.produce(producer, 0) == [0]
    uncommitted = [one.offset for one in ask(transactions.link, 11, -1, -3, 0)]
    committed = [one.offset for one in ask(transactions.link, 11, -1, -3, 0, isolation_level=1)]
    assert (uncommitted, committed) == ([1, 0, 0], [0, -1, -1])
    transactions.end(producer)
    transactions.settled()
    transactions.wait_for(lambda: transactions.broker.partition("t").partition.last_stable_offset == 2)
    ended = [one.offset for one in ask(transactions.link, 11, -1, -3, 0, isolation_level=1)]
    assert ended[0] == 2
    assert ended[1] >= 0
    assert ended[2] == 0


def test_a_follower_tells_how_far_its_copy_goes_to_those_who_ask_for_that(broker):
    """Replica id -2: the ends of the copy; a consumer, and a time, are sent to the leader. A leader says the end of its log."""
    broker.create("t")
    broker.produce("t", NewRecord(b"v", THEN_MS), NewRecord(b"w", THEN_MS))
    partition = broker.partition("t", 0).partition
    broker.run(lambda: partition.lead(1, 9, replicas=(1, 2), in_sync=(1, 2)))

    def fall_behind():
        partition.leader.state.high_watermark = partition.high_watermark = 1

    broker.run(fall_behind)
    assert ask(broker.link(), 11, -1, replica_id=-2)[0].offset == 2
    broker.run(lambda: partition.follow(2, 10))
    latest, earliest, local, by_time = ask(broker.link(), 11, -1, -2, -4, THEN_MS, replica_id=-2)
    assert [(one.error_code, one.offset) for one in (latest, earliest, local)] == [(0, 2), (0, 0), (0, 0)]
    assert by_time.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(broker.link(), 11, -1)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.run(lambda: partition.directory.fail(OSError(5, "broken")))
    assert ask(broker.link(), 11, -1, replica_id=-2)[0].error_code != 0


def test_records_that_other_clients_may_write_are_found_by_their_time(broker):
    """A header in Latin-1, and a time beyond 64 bits, which wraps: its answer could not be encoded, and the connection was closed."""
    topic_id = broker.create("t").topic_id
    now_ms = int(time.time() * 1000)
    name = b"gr\xf6\xdfe".decode("utf-8", "surrogateescape")
    records = [
        Record(0, 0, None, b"a"),
        Record(1, 2**63 - 1, None, b"b"),
        Record(2, 5, None, b"c", (Header(name, b""),)),
    ]
    batch = with_crc(build_batch(records), base_timestamp=now_ms, max_timestamp=now_ms + 5)
    link = broker.link()
    answer = link.call(request(topic_id, batch), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    found = ask(link, 11, now_ms + 3, -3)
    assert [(one.error_code, one.offset, one.timestamp - now_ms) for one in found] == [(0, 2, 5)] * 2


def many(count, timestamp, topic="t"):
    wanted = [ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in range(count)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])


def test_very_many_ends_are_looked_up_in_slices():
    """10,000 took 0.15 s at once."""
    context = SimpleNamespace(allows=lambda *_: False, rows=lambda _name: PlainRows())
    paused, answer = pauses(list_offsets._Lookups(context, many(100, -1)).steps())
    assert paused > 100
    assert len(answer.topics[0].partitions) == 100


def test_very_many_times_are_looked_up_beside_others(broker, monkeypatch):
    """Those of empty partitions wait for nothing: the loop has other turns between them all the same."""
    broker.create("t", 20)
    turns = []

    async def sleep(seconds):
        turns.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(list_offsets, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(list_offsets, "FIRST_SECONDS", 0.0)
    answer = broker.link().call(many(20, THEN_MS), 11)
    assert [(one.error_code, one.offset) for one in answer.topics[0].partitions] == [(0, -1)] * 20
    assert turns == [0] * 20
