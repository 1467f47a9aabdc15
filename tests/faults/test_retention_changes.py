"""Retention over hot and cold at once on a live topic, against a model of what has to be readable."""

import random

import pytest

from stratalog.broker.runtime.slices import to_the_end
from stratalog.tier.stores.faulty_store import Fault, FaultRule
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

QUICK = {"stratalog_trash_check_interval_ms": "50", "stratalog_trash_grace_ms": "0"}
HOUR = 3_600_000
DOWN = FaultRule(Fault.FAIL_BEFORE, count=None)


@pytest.fixture
def tiered(start_tiered):
    """A broker that empties the trash at once."""
    return start_tiered(**QUICK)


def starts(tiered, topic="t", partition=0):
    """Log start, for conditions that are asked on the broker's loop."""
    return tiered.node.partition(topic, partition).log.log_start_offset


def settled(tiered, topic="t", partition=0):
    """Wait until retention has nothing more to do, the manifest knows it, and the trash is empty."""

    def done():
        unified = tiered.node.partition(topic, partition)
        manifest = tiered.manifest(topic, partition)
        return manifest.log_start_offset == unified.log.log_start_offset and not manifest.trash

    for _ in range(2):
        tiered.node.run(lambda: to_the_end(tiered.node.node.housekeeping._retain()))
        tiered.node.wait_until(done)


def check(tiered, topic="t", partition=0):
    """Exactly the acknowledged records from the log start on are readable; the bucket holds that and no more."""
    start = tiered.offsets(topic, partition)[0]
    tiered.check_bucket(topic, partition, orphans=False)
    tiered.check_reads(topic, partition, start)
    assert all(entry.end > start for entry in tiered.manifest(topic, partition).entries)
    return start


@pytest.mark.story
def test_lowering_and_raising_the_size_on_a_live_topic(tiered):
    """Lower: the oldest ranges go from both places. Higher: nothing comes back, and nothing more goes."""
    tiered.topic("t", local_retention_bytes=4_000, retention_bytes=-1)
    tiered.write("t", 60)
    tiered.archived("t", evicted=False)
    assert check(tiered) == 0
    at = 0
    for limit in (25_000, 10_000):
        tiered.configure("t", retention_bytes=limit)
        tiered.node.wait_until(lambda at=at: starts(tiered) > at)
        settled(tiered)
        at = check(tiered)
        kept = sum(len(value) for _, _, value in tiered.written["t", 0][at:])
        assert kept <= limit, "records alone are less than their batches"
    tiered.configure("t", retention_bytes=100_000)
    tiered.write("t", 20)
    tiered.archived("t", evicted=False)
    settled(tiered)
    assert check(tiered) == at


@pytest.mark.story
def test_lowering_and_raising_the_time_on_a_live_topic(tiered):
    """By the newest record of each range, wherever it lies."""
    now_ms = tiered.node.node.clock.wall_ms()
    tiered.topic("t", local_retention_bytes=4_000, retention_ms=-1)
    tiered.write("t", 60, timestamp_ms=lambda n: now_ms - 10 * HOUR + n * 60_000)
    tiered.archived("t", evicted=False)
    tiered.configure("t", retention_ms=8 * HOUR)
    tiered.node.wait_until(lambda: starts(tiered) > 0)
    settled(tiered)
    at = check(tiered)
    assert 0 < at <= 120
    tiered.configure("t", retention_ms=20 * HOUR)
    settled(tiered)
    assert check(tiered) == at
    tiered.configure("t", retention_ms=6 * HOUR)
    tiered.node.wait_until(lambda: starts(tiered) > at)
    settled(tiered)
    assert at < check(tiered) <= 240


@pytest.mark.story
def test_a_limit_that_was_raised_in_time_keeps_the_objects(start_tiered):
    """Records moved to the trash by mistake are still in the bucket: not readable, and not lost."""
    tiered = start_tiered(**{**QUICK, "stratalog_trash_grace_ms": "1500"})
    tiered.topic("t", retention_bytes=-1)
    tiered.write("t", 60)
    tiered.archived("t")
    before = set(tiered.objects("t"))
    tiered.configure("t", retention_bytes=10_000)
    tiered.node.wait_until(lambda: starts(tiered) > 0 and tiered.manifest("t").trash)
    tiered.configure("t", retention_bytes=-1)
    trash = {item.key for item in tiered.manifest("t").trash}
    last = max(item.seq for item in tiered.manifest("t").trash)
    tiered.node.wait_until(
        lambda: all(0 <= item.since_ms < now_ms(tiered) - 2_000 for item in tiered.manifest("t").trash)
    )
    assert trash <= set(tiered.objects("t")) <= before
    assert {item.key for item in tiered.manifest("t").trash} >= trash
    assert last > 0
    tiered.configure("t", retention_bytes=10_000)
    tiered.node.wait_until(lambda: not tiered.manifest("t").trash)
    assert not trash & set(tiered.objects("t"))
    check(tiered)


def now_ms(tiered):
    """The broker's wall clock."""
    return tiered.node.node.clock.wall_ms()


@pytest.mark.story
@pytest.mark.parametrize("offset", [3, 47, 200, 299])
def test_deleted_records_leave_the_bucket(tiered, offset):
    """A deletion by hand stays when retention changes."""
    tiered.topic("t", retention_bytes=10**9, retention_ms=HOUR)
    tiered.write("t", 60)
    tiered.archived("t")
    gone = {entry.key for entry in tiered.manifest("t").entries if entry.end <= offset}
    tiered.delete_records("t", offset)
    tiered.node.wait_until(lambda: tiered.manifest("t").log_start_offset == offset and not tiered.manifest("t").trash)
    assert not gone & set(tiered.objects("t"))
    assert check(tiered) == offset


@pytest.mark.story
def test_more_partitions_of_a_tiered_topic(tiered):
    """The new one has an archive of its own; the old ones go on, also over a restart."""
    tiered.topic("t")
    tiered.write("t", 20)
    tiered.archived("t")
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=5000, validate_only=False
    )
    assert tiered.node.client().call(request).results[0].error_code == 0
    tiered.node.wait_until(lambda: all(tiered.node.partition("t", n) for n in range(3)))
    tiered._client = None
    tiered.client.refresh(["t"])
    for partition in range(3):
        tiered.write("t", 20, partition=partition)
        tiered.archived("t", partition)
        check(tiered, "t", partition)
    tiered.node.restart()
    for partition in range(3):
        check(tiered, "t", partition)


@pytest.mark.story
@pytest.mark.parametrize("seed", range(3))
def test_a_life_of_changes(start_tiered, seed):
    """Writes, limits up and down, deletions, restarts and a failing bucket, in any order: the model holds after each."""
    dice = random.Random(seed)
    tiered = start_tiered(**QUICK)
    tiered.topic("t", local_retention_bytes=4_000, retention_bytes=-1)
    least = 0
    for _ in range(10):
        match dice.choice(["write", "write", "size", "time", "delete", "restart", "fail"]):
            case "write":
                tiered.write("t", dice.randrange(5, 25))
            case "size":
                tiered.configure("t", retention_bytes=dice.choice([-1, 8_000, 20_000]))
            case "time":
                tiered.configure("t", retention_ms=dice.choice([-1, HOUR]))
            case "delete":
                start, *_, end = tiered.offsets("t")
                tiered.delete_records("t", dice.randrange(start, end + 1))
            case "restart":
                tiered.node.restart()
            case "fail":
                fault = dice.choice([Fault.FAIL_BEFORE, Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT])
                tiered.spoil(FaultRule(fault, count=dice.randrange(1, 12), probability=0.5))
        start = tiered.offsets("t")[0]
        assert start >= least, "a log start went back"
        least = start
        if ("t", 0) in tiered.written:
            tiered.check_reads("t", 0, start)
    tiered.spoil()
    tiered.write("t", 10)
    tiered.roll("t")
    tiered.archived("t", evicted=False)
    settled(tiered)
    tiered.check_bucket("t")
    tiered.check_reads("t", 0, tiered.offsets("t")[0])
