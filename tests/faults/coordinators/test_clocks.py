"""A wall clock that jumps, by hours and by years: time-outs are about time that passes, and nothing waits for ever."""

import time

import pytest

from stratalog.broker.runtime.clock import SystemClock
from stratalog.client.records import fetch
from stratalog.wire.topic import TopicPartition

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
JUMPS_MS = (HOUR_MS, -HOUR_MS, 10 * YEAR_MS, -20 * YEAR_MS, 30 * YEAR_MS)
SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 100,
    "group_consumer_min_session_timeout_ms": 100,
    "group_consumer_session_timeout_ms": 45_000,
    "group_consumer_assignment_interval_ms": 1_000,
    "offsets_retention_check_interval_ms": 20,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 20,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 20,
}


class SetClock(SystemClock):
    """The machine's clocks, with a wall clock that is set by hand, and time that passes when the test says so."""

    def __init__(self):
        self.ahead_ms = self.passed_ms = 0

    def wall_ms(self):
        return super().wall_ms() + self.ahead_ms + self.passed_ms

    def monotonic(self):
        return time.monotonic() + self.passed_ms / 1000


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def start(start_node, clock, wire_to):
    """Starts a broker under the clock, with a topic; the node and a connection."""

    def begin(**settings):
        node = start_node(clock=clock, **{**SETTINGS, **settings})
        node.create("t", 4)
        return node, wire_to(node.port).ready()

    return begin


def looked(node):
    """Wait until every shard has looked for what has expired, after this moment; one that keeps nothing does not look."""
    shards = [one.shard for one in node.node.groups.drivers()]
    shards += [one.shard for one in node.node.transactions.drivers() if one.shard.transactions]
    for shard in shards:
        before = node.run(lambda shard=shard: shard._next_expiry_ms)
        node.wait_until(lambda shard=shard, before=before: shard._next_expiry_ms > before + 20)


def test_jumps_expire_no_member(start, clock):
    """Sessions, rebalances, open transactions, committed offsets and transactional ids outlive every jump."""
    node, wire = start()
    (member,) = wire.stable("classic", None)
    epoch = wire.consume("new", "m", 0, topics=["t"]).member_epoch
    assert wire.commit("simple", 5) == "NONE"
    (left,) = wire.stable("left", None, session_ms=100)
    assert wire.commit("left", 6, member=left.member_id, epoch=left.generation) == "NONE"
    node.wait_until(lambda: node.node.groups.drivers()[0].shard.groups["left"].state == "Empty")
    idle, busy = wire.producer("idle"), wire.producer()
    assert wire.produce(busy, version=12) == "NONE"
    assert wire.commit_in_transaction(busy, "classic", 9, version=5) == "NONE"
    for jump_ms in JUMPS_MS:
        clock.ahead_ms += jump_ms
        looked(node)
        assert wire.beat(member) == "NONE"
        same = wire.consume("new", "m", epoch)
        assert (same.error_code, same.member_epoch) == (0, epoch)
        assert wire.state() == "Ongoing"
        assert wire.state("idle") == "Empty"
        assert wire.offsets("simple") == [("t", 0, 5, "", "NONE")]
        assert wire.offsets("left") == [("t", 0, 6, "", "NONE")]
    assert wire.end(busy, version=5).error_code == 0
    assert wire.settled() == "CompleteCommit"
    assert wire.offsets("classic", stable=True) == [("t", 0, 9, "in transaction", "NONE")]
    assert wire.producer("idle") == (idle.producer_id, idle.producer_epoch + 1)


@pytest.mark.parametrize("jump_ms", [-20 * YEAR_MS, 20 * YEAR_MS])
def test_no_request_waits_for_ever_after_a_jump(start, clock, jump_ms):
    """Sessions end, transactions are aborted, members get their new assignments, as if the clock had not jumped."""
    node, wire = start(transaction_max_timeout_ms=900_000)
    late = wire.another()
    first = wire.consume("new", "first", 0, topics=["t"])
    (member,) = wire.stable("classic", None, session_ms=300)
    busy = wire.producer(timeout_ms=300)
    assert wire.produce(busy, version=12) == "NONE"
    clock.ahead_ms += jump_ms
    late.producer("later", timeout_ms=300)
    wire.settled()
    assert wire.state() == "CompleteAbort"
    node.wait_until(lambda: "classic" not in node.node.groups.drivers()[0].shard.groups)
    assert wire.beat(member) == "UNKNOWN_MEMBER_ID"
    late.consume("new", "second", 0, topics=["t"])
    epoch, owned = first.member_epoch, first.assignment.topic_partitions
    end = time.monotonic() + 30
    while True:
        answer = wire.consume("new", "first", epoch, owned=[(one.topic_id, one.partitions) for one in owned])
        assert answer.error_code == 0
        if answer.assignment is not None:
            owned = answer.assignment.topic_partitions
        if len(owned[0].partitions) == 2 and answer.member_epoch > epoch:
            break
        assert time.monotonic() < end, "no new assignment after the jump"
        time.sleep(0.01)


def test_offsets_expire_after_their_time_whatever_the_clock_says(start, clock):
    """A jump forwards is believed when what it made old has really been kept for so long."""
    node, wire = start(offsets_retention_minutes=1)
    shard = node.node.groups.drivers()[0].shard
    assert wire.commit("g", 5) == "NONE"
    clock.ahead_ms += YEAR_MS
    looked(node)
    assert wire.offsets("g") == [("t", 0, 5, "", "NONE")]
    clock.passed_ms += 59_000 - 20_000
    looked(node)
    assert wire.offsets("g") == [("t", 0, 5, "", "NONE")]
    clock.passed_ms += 21_000
    node.wait_until(lambda: "g" not in shard.groups)


def test_a_restart_under_another_clock(start, clock, wire_to):
    """Members and the open transaction are there again; a transaction whose time is over by the clock is aborted, as in
    Kafka, and one from the future has its whole time-out before it.
    """
    node, wire = start()
    (member,) = wire.stable("classic", None)
    epoch = wire.consume("new", "m", 0, topics=["t"]).member_epoch
    busy = wire.producer(timeout_ms=60_000)
    assert wire.produce(busy, version=12) == "NONE"
    clock.ahead_ms -= YEAR_MS
    wire = wire_to(node.restart().port).ready()
    assert wire.beat(member) == "NONE"
    assert wire.consume("new", "m", epoch).member_epoch == epoch
    assert wire.state() == "Ongoing"
    clock.ahead_ms += 2 * HOUR_MS + YEAR_MS
    wire = wire_to(node.restart().port).ready()
    assert wire.beat(member) == "NONE"
    assert wire.consume("new", "m", epoch).member_epoch == epoch
    assert wire.settled() == "CompleteAbort"
    later = wire.producer(timeout_ms=60_000)
    assert wire.produce(later, version=12) == "NONE"
    clock.ahead_ms -= YEAR_MS
    wire = wire_to(node.restart().port).ready()
    clock.passed_ms += 59_000 - 20_000
    assert wire.state() == "Ongoing"
    clock.passed_ms += 22_000
    assert wire.settled() == "CompleteAbort"


def test_records_keep_their_times(start, clock):
    """CreateTime is the producer's; LogAppendTime is the clock's, and every offset is found again by what it says."""
    node, _ = start()
    node.create("appended", message_timestamp_type="LogAppendTime")
    stamps = []
    for number, jump_ms in enumerate(JUMPS_MS):
        clock.ahead_ms += jump_ms
        before = clock.wall_ms()
        node.produce("appended", b"%d" % number)
        (record,) = node.read("appended", offset=number)
        assert before <= record.timestamp_ms <= clock.wall_ms()
        stamps.append(record.timestamp_ms)
    assert node.values("appended") == [b"0", b"1", b"2", b"3", b"4"]
    for stamp in stamps:
        assert node.end("appended", timestamp=stamp) == next(n for n, one in enumerate(stamps) if one >= stamp)
    (found,) = fetch(node.client(), {TopicPartition("appended", 0): 0}, max_wait_ms=0)
    assert found.high_watermark == len(JUMPS_MS)
