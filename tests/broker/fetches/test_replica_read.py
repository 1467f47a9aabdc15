"""Fetches of followers: what they get, and what a leader learns by them."""

from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.fetches.awaited_followers import AwaitedFollowers
from stratalog.broker.fetches.replica_read import ReplicaReader
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.metrics import Metrics
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchPartition, PartitionData
from tests.broker.replicas.leader_rig import EPOCH, Bench

FOLLOWER, BROKER_EPOCH = 2, 40


@pytest.fixture
def bench(tmp_path):
    """A leader with a follower outside the in-sync set, and three records that are written, one of them synced."""
    one = Bench(str(tmp_path / "t-0"), in_sync=(1,), replicas=(1, FOLLOWER))
    for name in "abc":
        one.append(name, build_batch([Record(0, 1_700_000_000_000, None, name.encode())]), acks=1)
        one.disk.write()
        if name == "a":
            one.disk.flush()
    return one


class Throttle:
    """A leader's throttle: what is allowed, and what was recorded; every partition is throttled."""

    def __init__(self, allowed=inf, wait_ms=0.0):
        self.allowed, self.wait, self.recorded = allowed, wait_ms, 0
        self.names = {("t", 0)}

    def is_throttled(self, *name):
        return name in self.names

    def allowed_bytes(self, _now_ms):
        return self.allowed

    def wait_ms(self, _now_ms):
        return self.wait

    def record(self, size_bytes, _now_ms):
        self.recorded += size_bytes


def reader_of(broker_id=FOLLOWER, *, version=18, throttle=None, awaited=None):
    return ReplicaReader(
        broker_id,
        BROKER_EPOCH,
        version,
        throttle=throttle or Throttle(),
        monotonic=lambda: 5.0,
        awaited=awaited or AwaitedFollowers(lambda: 5.0),
    )


def read(
    bench,
    offset,
    *,
    epoch=EPOCH,
    last_epoch=-1,
    broker_id=FOLLOWER,
    reader=None,
    version=18,
    max_bytes=1 << 20,
    unified=None,
):
    """The answer, and how many bytes it has."""
    unified = unified or UnifiedLog(bench.partition, Metrics().topic("t"))
    wanted = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=max_bytes,
    )
    answer = PartitionData(partition_index=0, high_watermark=-1, records=b"")
    reader = reader or reader_of(broker_id, version=version)
    size_bytes = reader.read(unified, wanted, answer, max_bytes, min_one_batch=True)
    return answer, size_bytes


def noted(bench):
    """The offset that the leader has of the follower."""
    return bench.leader.state.follower(FOLLOWER).log_end_offset


def test_a_follower_reads_to_the_end_of_the_files(bench):
    """Beyond the high watermark, and beyond what the leader has synced: both sync at the same time."""
    answer, size_bytes = read(bench, 0)
    assert size_bytes == sum(part.length for part in answer.records) == bench.partition.log.size_bytes
    assert (answer.high_watermark, bench.partition.log.flushed_offset) == (1, 1)
    assert read(bench, 3)[1] == 0


def test_a_follower_hears_up_to_where_its_leader_has_forgotten_tombstones(bench):
    """Only one that asks for an offset below that, and with the records alone: it has to begin again before it takes them."""
    assert read(bench, 0)[0].forgotten_below == 0
    bench.partition.log.forgotten.dropped(2)
    assert [read(bench, offset)[0].forgotten_below for offset in range(4)] == [2, 2, 0, 0]
    bench.partition.log.forgotten.dropped(9)
    assert read(bench, 3)[0].forgotten_below == 0, "there are no records"


def test_a_follower_reads_beyond_a_mark_that_stands_still_and_consumers_do_not(tmp_path):
    """Below min.insync.replicas: the follower has to read to come back, and consumers see what an eligible replica has, too."""
    one = Bench(str(tmp_path / "t-0"), in_sync=(1, FOLLOWER), replicas=(1, FOLLOWER), min_insync_replicas=2)
    for name in "ab":
        one.append(name, build_batch([Record(0, 1_700_000_000_000, None, name.encode())]), acks=1)
    one.disk.write()
    one.disk.flush()
    read(one, 1)
    one.leader.in_sync_changed((1,), 1)
    answer, size_bytes = read(one, 1)
    assert (answer.high_watermark, size_bytes > 0) == (1, True)
    assert read(one, 2)[0].high_watermark == 1
    unified, mark = UnifiedLog(one.partition, Metrics().topic("t")), one.partition.high_watermark
    consumed = unified.read("me", 0, limit=mark, max_bytes=1 << 20, committed=False, min_one_batch=True)
    assert consumed.next_offset == mark == 1


def test_a_request_is_counted_once_when_it_comes(bench):
    """While it waits the leader's end moves on, and the follower's does not."""
    reader = reader_of()
    read(bench, 2, reader=reader)
    assert noted(bench) == 2
    reader.counts = False
    read(bench, 3, reader=reader)
    assert noted(bench) == 2


def test_a_partition_that_is_led_since_a_request_waits_is_asked_for_again(bench):
    """Else its follower would never count: a session looks at idle partitions no more."""
    reader = reader_of()
    reader.counts = False
    with pytest.raises(KafkaError, match=r"t-0 is led here only since this request came") as refused:
        read(bench, 3, reader=reader)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.leader.state.follower(FOLLOWER).last_fetch_ms < 0
    read(bench, 3)
    read(bench, 3, reader=reader)


def test_a_fetch_beyond_the_common_history_hears_its_end_and_does_not_count(bench):
    """The follower cuts its log first: what it has below the offset may be another's."""
    answer, size_bytes = read(bench, 9, last_epoch=EPOCH)
    assert (answer.diverging_epoch, size_bytes) == (EpochEndOffset(epoch=EPOCH, end_offset=3), 0)
    assert noted(bench) == -1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"offset": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 0, "broker_id": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 0, "epoch": EPOCH - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"offset": 0, "epoch": EPOCH + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 0, "last_epoch": EPOCH + 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_refusals_are_kafkas_and_count_nothing(bench, fields, code):
    """A stranger's epoch is unknown: a reassignment has not been heard of here."""
    with pytest.raises(KafkaError) as caught:
        read(bench, **fields)
    assert caught.value.code is code
    assert noted(bench) == -1


@pytest.mark.parametrize(("version", "code"), [(13, "OFFSET_OUT_OF_RANGE"), (14, "OFFSET_MOVED_TO_TIERED_STORAGE")])
def test_archived_offsets_are_said_to_be_archived(bench, version, code):
    """To followers that know the word (KIP-405)."""
    bench.partition.log.roll()
    bench.partition.log.delete_local_before(3)
    bench.partition.log.start = SimpleNamespace(offset=0)
    with pytest.raises(KafkaError) as caught:
        read(bench, 1, version=version)
    assert caught.value.code.name == code


def test_a_follower_that_has_caught_up_joins(bench):
    """With the sync of the leader the mark is what both have."""
    asked = []
    bench.leader._asking = SimpleNamespace(
        may_join=lambda _key, broker_id, epoch: (broker_id, epoch) == (FOLLOWER, BROKER_EPOCH),
        ask=lambda leader, change: asked.append(change.broker_ids),
        changed=lambda before, after: asked.append((before, after)),
    )
    read(bench, 3)
    assert asked == [(1, FOLLOWER)]
    bench.disk.flush()
    assert bench.partition.high_watermark == 3
    bench.leader.in_sync_changed((1, FOLLOWER), 1)
    assert asked[-1] == (1, 2)


# -- the throttle ------------------------------------------------------------------------------------------------------


def test_a_throttled_follower_out_of_sync_gets_nothing_while_nothing_is_allowed(bench):
    """It hears the marks, its offset counts, and its request waits for no longer than the throttle says."""
    reader = reader_of(throttle=Throttle(allowed=0, wait_ms=120.5))
    answer, size_bytes = read(bench, 0, reader=reader)
    assert (answer.error_code, answer.records, size_bytes, answer.high_watermark) == (0, b"", 0, 1)
    assert noted(bench) == 0
    assert reader.wait_ms_max() == 120.5
    reader.begin()
    assert reader.wait_ms_max() == inf


def test_a_follower_in_sync_is_not_held_up_and_counts(bench):
    """Acknowledgements wait for it."""
    bench.leader.in_sync_changed((1, FOLLOWER), 1)
    throttle = Throttle(allowed=-1000)
    reader = reader_of(throttle=throttle)
    answer, size_bytes = read(bench, 0, reader=reader)
    assert size_bytes > 0
    reader.count([FetchableTopicResponse(topic="t", partitions=[answer])], {}.get)
    assert throttle.recorded == size_bytes


def test_an_answer_has_no_more_than_is_allowed_but_for_one_batch(bench):
    """The first throttled partition of an answer gets a batch, also behind others that have filled it; the next one nothing."""
    whole = read(bench, 0)[1]
    reader = reader_of(throttle=Throttle(allowed=1))
    one_batch = read(bench, 0, reader=reader)[1]
    assert 0 < one_batch < whole
    assert read(bench, 1, reader=reader)[1] == 0
    reader.begin()
    assert read(bench, 1, reader=reader)[1] > 0
    assert read(bench, 0, reader=reader_of(throttle=Throttle(allowed=10 * whole)))[1] == whole


def test_other_partitions_are_neither_held_up_nor_counted(bench):
    """The topic names its throttled replicas."""
    throttle = Throttle(allowed=0)
    throttle.names = {("t", 1)}
    reader = reader_of(throttle=throttle)
    answer, size_bytes = read(bench, 0, reader=reader)
    assert size_bytes > 0
    names = {b"i" * 16: "t"}
    reader.count([FetchableTopicResponse(topic_id=b"i" * 16, partitions=[answer])], names.get)
    assert throttle.recorded == 0
    throttle.names = {("t", 0)}
    reader.count([FetchableTopicResponse(topic_id=b"j" * 16, partitions=[answer])], names.get)
    assert throttle.recorded == 0
    reader.count([FetchableTopicResponse(topic_id=b"i" * 16, partitions=[answer])], names.get)
    assert throttle.recorded == size_bytes


def test_a_follower_that_is_awaited_waits_shortly():
    """Its next request names what this broker has begun to lead; a throttle may end the wait still earlier."""
    awaited = AwaitedFollowers(lambda: 5.0)
    assert reader_of(awaited=awaited).wait_ms_max() == inf
    awaited.expect([FOLLOWER])
    assert reader_of(awaited=awaited).wait_ms_max() == 20
    assert reader_of(FOLLOWER + 1, awaited=awaited).wait_ms_max() == inf


def test_a_batch_whose_offset_is_damaged_is_found_when_a_follower_asks_again(bench):
    """It would pass for one behind a gap of the cleaner, and the records below it for gone."""
    unified = UnifiedLog(bench.partition, Metrics().topic("t"))
    assert read(bench, 1, unified=unified)[1] > 0
    path = Path(bench.partition.log.directory, f"{0:020d}.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 3 * 2 + 7] ^= 0x20
    path.write_bytes(data)
    with pytest.raises(UnreadableBatch, match=r"offset 2 is due, the batch there has \[34, 35\)"):
        read(bench, 1, unified=unified)


@pytest.mark.parametrize("in_sync", [(1,), (1, FOLLOWER)])
def test_an_answer_that_is_checked_has_nothing_that_is_not_where_others_have_it(bench, monkeypatch, in_sync):
    """A part that the disk does not give ends the connection while it is sent: the follower would ask for it for ever."""
    bench.leader.in_sync_changed(in_sync, 1)
    unified = UnifiedLog(bench.partition, Metrics().topic("t"))
    whole = read(bench, 0, unified=unified)[1]
    monkeypatch.setattr("stratalog.broker.replicas.unified_log.CHECKED_BYTES_MAX", whole - 1)
    answer, size_bytes = read(bench, 0, unified=unified)
    assert 0 < size_bytes == sum(part.length for part in answer.records)
    assert (size_bytes < whole) == (len(in_sync) > 1)
    assert read(bench, 0, unified=unified)[1] == whole


@pytest.mark.parametrize(
    ("archive", "version", "in_sync", "code"),
    [
        ((0, 3), 18, {1}, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE),
        ((0, 3), 18, {1, FOLLOWER}, None),
        ((0, 3), 13, {1}, None),
        ((0, 2), 18, {1}, None),
        (None, 18, {1}, None),
    ],
)
def test_a_follower_goes_on_behind_the_archive_where_its_leaders_disk_has_a_hole(
    bench, archive, version, in_sync, code
):
    """The leader is the last one that has everything: its follower would stand at the hole for good.

    Else another one leads soon, and the follower has the records from there.
    """
    bench.partition.log.roll()
    bench.append("d", build_batch([Record(0, 1_700_000_000_000, None, b"d")]), acks=1)
    bench.disk.write()
    bench.disk.flush()
    remote = None if archive is None else SimpleNamespace(start_offset=archive[0], end_offset=archive[1])
    unified = UnifiedLog(bench.partition, Metrics().topic("t"), remote)
    answer, _ = read(bench, 1, unified=unified)
    path = Path(answer.records[0].file.path)
    flipped = bytearray(path.read_bytes())
    flipped[answer.records[0].position + 70] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(UnreadableBatch) as damage:
        read(bench, 1, unified=unified)
    unified.missing_after(damage.value)
    assert read(bench, 0, unified=unified)[1] > 0
    bench.leader.state.in_sync = in_sync
    with pytest.raises((KafkaError, MissingRange)) as caught:
        read(bench, 2, unified=unified, version=version)
    assert getattr(caught.value, "code", None) is code
