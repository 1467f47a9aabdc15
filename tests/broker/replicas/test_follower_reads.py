"""Consumers at a follower (KIP-392): its marks, its transactions, and the leader epochs under which it is asked."""

import pytest

from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.metrics import Metrics
from stratalog.wire.batch import Record, assign_offset, build_batch, build_control_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from tests.broker.replicas.leader_rig import Bench
from tests.broker.replicas.test_follower import LEADER, NOW_MS, Heard, batch, data

OLDER, EPOCH, NEWER = 4, 5, 6
PRODUCER = {"producer_id": 9, "producer_epoch": 0, "transactional": True}


@pytest.fixture
def bench(tmp_path):
    """A partition that copies broker 7 in epoch 5."""
    one = Bench(str(tmp_path / "t-0"))
    one.partition.follow(LEADER, EPOCH)
    return one


def copied(bench, *batches, high_watermark):
    """The batches of an answer are in the log and on the disk."""
    bench.partition.follower.take(data(*batches, high_watermark=high_watermark), Heard())
    bench.disk.write()
    bench.disk.flush()


def read(bench, offset, *, committed=False):
    partition = bench.partition
    limit = partition.last_stable_offset if committed else partition.high_watermark
    unified = UnifiedLog(partition, Metrics().topic("t"))
    return unified.read("me", offset, limit=limit, max_bytes=1 << 20, committed=committed, min_one_batch=True)


def placed(built, offset):
    """A batch as a leader stores it."""
    assign_offset(built, 0, offset, len(built) - 12, EPOCH)
    return bytes(built)


def test_it_is_read_up_to_its_mark_and_waits_above_it(bench):
    """Beyond its end it is out of range."""
    copied(bench, *[batch(offset) for offset in range(4)], high_watermark=2)
    assert read(bench, 0).next_offset == 2
    assert [read(bench, offset).size_bytes for offset in (2, 3, 4)] == [0, 0, 0]
    with pytest.raises(KafkaError) as refused:
        read(bench, 5)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_open_and_aborted_transactions_are_known_to_a_follower(bench):
    """The last stable offset stops before an open transaction, passes it with its marker, and the abort is named."""
    own = build_batch([Record(1, NOW_MS, None, b"x")], base_sequence=0, **PRODUCER)
    copied(bench, batch(0), placed(own, 1), batch(2), high_watermark=3)
    partition = bench.partition
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
    assert read(bench, 0, committed=True).next_offset == 1
    marker = build_control_batch(0, bytes(6), offset=3, timestamp_ms=NOW_MS, leader_epoch=EPOCH, **PRODUCER)
    copied(bench, placed(marker, 3), high_watermark=3)
    assert partition.last_stable_offset == 1  # the marker is not committed yet
    copied(bench, high_watermark=4)
    assert partition.last_stable_offset == 4
    found = read(bench, 0, committed=True)
    assert (found.next_offset, found.aborted) == (4, [(9, 1)])


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (EPOCH, None),
        (OLDER, ErrorCode.FENCED_LEADER_EPOCH),
        (NEWER, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_readers_are_asked_for_the_epoch_that_is_copied(bench, epoch, code):
    """All else is the leader's: ListOffsets, epochs, produce."""
    partition = bench.partition
    if code is None:
        partition.check_reader_epoch(epoch)
    else:
        with pytest.raises(KafkaError) as refused:
            partition.check_reader_epoch(epoch)
        assert refused.value.code is code
    with pytest.raises(KafkaError) as refused:
        partition.check_leader_epoch(EPOCH)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_without_a_role_or_a_disk_nothing_is_read(bench):
    """The client asks who leads, or waits for the disk."""
    bench.disk.offline = OSError("gone")
    with pytest.raises(KafkaError) as refused:
        bench.partition.check_reader_epoch(EPOCH)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    bench.disk.offline = None
    bench.partition.resign()
    with pytest.raises(KafkaError) as refused:
        bench.partition.check_reader_epoch(EPOCH)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_readers_that_wait_hear_of_a_new_epoch_and_of_its_end(bench):
    """They are answered with it at once, and not when their time is over."""
    woken = []
    bench.partition.watchers.add(lambda: woken.append(bench.partition.leader_epoch))
    bench.partition.follow(LEADER, NEWER)
    assert woken == [NEWER]
    bench.partition.resign()
    assert woken == [NEWER, NEWER]
    assert bench.partition.follower is None
