"""Periodic work: rolls, retention, checkpoints, time-outs."""

import asyncio
import errno
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

from stratalog.broker import housekeeping
from stratalog.broker.coordinators import late
from stratalog.broker.housekeeping import PAUSE_SECONDS_MIN
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.slices import to_the_end
from stratalog.client.admin import delete_topics
from stratalog.client.records import NewRecord
from stratalog.hot.log.doomed_files import DoomedFiles

DAY_MS = 86_400_000
THEN_MS = 1_385_856_000_000  # 2013


class MovableClock(SystemClock):
    """The machine's clock, and more when the test says so."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


def bases(node, topic="t"):
    """The base offsets of the local segments."""
    return [segment.base_offset for segment in node.partition(topic).log.segments()]


def test_an_idle_segment_freezes_by_wall_clock_time(start_node):
    """segment.ms after its first append, without another append, and only once."""
    clock = MovableClock()
    node = start_node(clock=clock)
    node.create("t", segment_ms=60_000, retention_ms=-1)
    node.produce("t", NewRecord(b"v", THEN_MS, partition=0))
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert bases(node) == [0]
    clock.ahead_ms = 60_001
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert bases(node) == [0, 1]
    clock.ahead_ms = 600_000
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert bases(node) == [0, 1]
    assert node.values("t") == [b"v"]


def test_records_of_2013_do_not_roll_on_every_tick(start_node):
    """The tick never looks at record time."""
    node = start_node()
    node.create("t", segment_ms=60_000, retention_ms=-1)
    for day in range(5):
        node.produce("t", NewRecord(b"v", THEN_MS + day * 10, partition=0))
        node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert bases(node) == [0]


def test_many_partitions_have_their_turns(start_node, monkeypatch):
    """A share of them in each tick, every one of them in a round, also while some come and go."""
    monkeypatch.setattr(housekeeping, "_PARTITIONS_A_TICK", 2)
    monkeypatch.setattr(housekeeping, "_TICKS_A_ROUND", 4)
    node = start_node()
    keeper = node.node.housekeeping
    keeper.stop()  # before the topics are there: a tick between them would begin a round without the second
    node.create("t", 10)
    node.create("u", 2)
    turns = [[str(one.topic_partition) for one in node.run(lambda: list(keeper._next_partitions()))] for _ in range(8)]
    assert {len(turn) for turn in turns} == {3}
    assert Counter(chain(*turns)) == dict.fromkeys([f"t-{number}" for number in range(10)] + ["u-0", "u-1"], 2)
    node.run(lambda: list(keeper._next_partitions()))
    delete_topics(node.client(), ["t"])
    node.wait_until(lambda: len(node.node.partitions) == 2)
    seen = [one for _ in range(3) for one in node.run(lambda: list(keeper._next_partitions()))]
    assert {str(one.topic_partition) for one in seen} == {"u-0", "u-1"}


def test_retention_removes_whole_segments_by_their_newest_record(start_node):
    """A segment with one unexpired record stays; it goes when that one has expired too."""
    clock = MovableClock()
    node = start_node(clock=clock)
    now_ms = clock.wall_ms()
    node.create("t", segment_bytes=1 << 20, retention_ms=DAY_MS)
    for age_ms in (DAY_MS + 5000, DAY_MS // 2):
        node.produce("t", NewRecord(b"x" * 400_000, now_ms - age_ms, partition=0))
    node.produce("t", NewRecord(b"x" * 400_000, now_ms, partition=0))
    assert bases(node) == [0, 2]
    node.run(lambda: to_the_end(node.node.housekeeping._retain()))
    assert bases(node) == [0, 2]
    clock.ahead_ms = DAY_MS // 2 + 1000
    node.run(lambda: to_the_end(node.node.housekeeping._retain()))
    assert bases(node) == [2]
    assert node.end("t", timestamp=-2) == 2
    assert node.end("t") == 3


def test_an_expired_active_segment_rolls_and_goes(start_node):
    """The log is empty then and goes on counting."""
    clock = MovableClock()
    node = start_node(clock=clock)
    node.create("t", retention_ms=1000)
    node.produce("t", b"v")
    clock.ahead_ms = 10_000
    node.run(lambda: to_the_end(node.node.housekeeping._retain()))
    assert (bases(node), node.end("t", timestamp=-2)) == ([1], 1)
    assert node.produce("t", b"next") == [1]


def test_retention_by_size_keeps_the_newest(start_node):
    """As many whole segments go as are above retention.bytes."""
    node = start_node()
    node.create("t", segment_bytes=1 << 20, retention_ms=-1, retention_bytes=1_300_000)
    for _ in range(7):
        node.produce("t", b"x" * 500_000)
    before = bases(node)
    node.run(lambda: to_the_end(node.node.housekeeping._retain()))
    after = bases(node)
    assert before == [0, 2, 4, 6]
    assert after == [4, 6]


def test_checkpoints_are_written_while_running(start_node):
    """So that a kill costs no verification of what was flushed long ago."""
    node = start_node(log_flush_offset_checkpoint_interval_ms=20)
    node.create("t")
    node.produce("t", b"a", b"b")
    data = Path(node.directory, "data")

    def stored(name):
        path = data / name
        return path.exists() and "t 0 2" in path.read_text()

    node.wait_until(lambda: stored("recovery-point-offset-checkpoint"))
    node.wait_until(lambda: stored("replication-offset-checkpoint"))


def test_segments_that_leave_do_so_a_few_in_a_turn_and_the_log_start_is_kept_meanwhile(start_node):
    """A kill would bring those back that have their names still: the log would begin before its start of now."""
    node = start_node()
    node.create("t", retention_ms=-1, retention_bytes=1)
    log = node.partition("t").log
    for _ in range(20):
        node.produce("t", b"v")
        node.run(log.roll)
    node.run(node.node.housekeeping.stop)
    assert node.run(lambda: sum(1 for _ in node.node.housekeeping._retain())) == 1
    assert (log.log_start_offset, log.start.is_leaving) == (19, True)
    node.wait_until(lambda: log.start.kept_offset == 19)
    assert node.run(lambda: sum(1 for _ in node.node.housekeeping._tick())) == 1
    node.wait_until(lambda: not log.start.is_leaving)
    assert sorted(path.name for path in Path(log.directory).glob("*.log")) == [f"{19:020d}.log", f"{20:020d}.log"]
    assert node.end("t", timestamp=-2) == 19


def test_all_segments_that_leave_have_done_so_soon_after_one_tick(start_node):
    """A log may roll more often than a few times in a tick: its disk would fill up with what has left."""
    node = start_node()
    node.create("t", retention_ms=-1, retention_bytes=1)
    log = node.partition("t").log
    node.run(node.node.housekeeping.stop)
    for _ in range(2):
        for _ in range(30):
            node.produce("t", b"v")
            node.run(log.roll)
        node.run(lambda: to_the_end(node.node.housekeeping._retain()))
        assert log.start.is_leaving
        node.run(lambda: to_the_end(node.node.housekeeping._tick()))
        node.wait_until(lambda: not log.start.is_leaving)
    assert len(list(Path(log.directory).glob("*.log"))) == 2


def test_segments_of_a_topic_that_is_deleted_while_they_leave_hold_no_other_up(start_node):
    """A log of the next topic of that name loses none of its own."""
    node = start_node()
    for topic in ("a", "b"):
        node.create(topic, retention_ms=-1, retention_bytes=1)
        for _ in range(20):
            node.produce(topic, b"v")
            node.run(node.partition(topic).log.roll)
    node.run(node.node.housekeeping.stop)
    node.run(lambda: to_the_end(node.node.housekeeping._retain()))
    both = [node.partition(topic) for topic in ("a", "b")]
    steps = node.node.housekeeping._leaving(both)
    node.run(lambda: next(steps))
    delete_topics(node.client(), ["a"])
    node.wait_until(lambda: "a" not in node.node.image.topics.by_name)
    node.create("a")
    node.produce("a", b"new")
    node.run(lambda: to_the_end(steps))
    assert [one.log.start.is_leaving for one in both] == [True, False]
    assert node.values("a") == [b"new"]


def test_segments_that_cannot_leave_for_want_of_a_descriptor_leave_later(start_node, watched_files):
    """And cost no batch that waits to be written."""
    node = start_node(files=watched_files)
    node.create("t", retention_ms=-1, retention_bytes=1)
    log = node.partition("t").log
    for _ in range(20):
        node.produce("t", b"v")
        node.run(log.roll)
    node.run(node.node.housekeeping.stop)
    node.run(lambda: to_the_end(node.node.housekeeping._retain()))
    assert node.run(lambda: log.start.is_leaving)
    generation = log.cycles.generation
    watched_files.fail("rename", ".log", errno.EMFILE)
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert node.run(lambda: log.start.is_leaving)
    assert log.cycles.generation == generation, "nothing was cut"
    watched_files.faults.clear()
    for _ in range(4):
        node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert not node.run(lambda: log.start.is_leaving)
    assert node.produce("t", b"next") == [20]


def test_a_log_start_that_is_waited_for_is_written_down_at_once(start_node):
    """A follower tells its leader of it then; the checkpoints are a minute apart."""
    node = start_node()
    node.create("t")
    node.produce("t", b"a", b"b")
    partition = node.partition("t").partition
    heard = []

    def begin():
        partition.log.advance_log_start(1)
        partition.on_flushed = lambda: heard.append(partition.log.start.is_kept)
        partition.directory.await_bounds(partition)

    node.run(begin)
    node.wait_until(lambda: heard)
    del partition.on_flushed
    assert heard == [True]
    assert "t 0 1" in Path(node.directory, "data", "log-start-offset-checkpoint").read_text()


def test_a_log_that_may_have_gaps_has_its_row_soon_also_at_its_leader(start_node):
    """Until then a start takes a tail that a power cut took at a roll for a gap: of a new log, or one that is compacted from now on."""
    hours = {
        f"{name}_checkpoint_interval_ms": 10_000_000
        for name in ("log_flush_offset", "log_flush_start_offset", "replica_high_watermark")
    }
    node = start_node(**hours)
    node.create("t", cleanup_policy="compact")
    node.create("later")
    log, later = node.partition("t").log, node.partition("later").log

    def compact():
        later.update_config(log.config)
        return later.gaps.lacks_row(later.may_have_gaps)

    node.wait_until(lambda: not log.gaps.lacks_row(log.may_have_gaps))
    assert node.run(compact)
    node.wait_until(lambda: not later.gaps.lacks_row(later.may_have_gaps))


def test_those_that_wait_for_bounds_again_and_again_leave_others_their_turns(start_node):
    """A log that is never satisfied holds up no broker."""
    node = start_node()
    node.create("t")
    partition = node.partition("t").partition
    heard = []

    def begin():
        partition.on_flushed = lambda: (heard.append(1), partition.directory.await_bounds(partition))
        partition.directory.await_bounds(partition)

    node.run(begin)
    node.wait_until(lambda: len(heard) > 3)

    def end():
        del partition.on_flushed

    node.run(end)
    node.produce("t", b"a")


def test_a_log_start_that_finds_no_room_is_written_down_later(start_node, watched_files):
    """It is not told before."""
    node = start_node(files=watched_files)
    node.create("t")
    node.produce("t", b"a", b"b")
    partition = node.partition("t").partition
    watched_files.fail("write", "log-start-offset-checkpoint.tmp", errno.ENOSPC)

    def begin():
        partition.log.advance_log_start(1)
        partition.directory.await_bounds(partition)

    node.run(begin)
    node.wait_until(lambda: partition in partition.directory.unkept and not node.node.housekeeping._under_way)
    assert not partition.log.start.is_kept
    watched_files.faults.clear()
    node.wait_until(lambda: partition.log.start.is_kept)
    assert not partition.directory.unkept


def test_files_that_cannot_be_removed_take_their_directory_offline(start_node, monkeypatch):
    """It was four tracebacks a second until the restart, and the metadata log had no ticks."""
    node = start_node()
    node.create("t")

    def fail(_self, _now_ms):
        raise FileNotFoundError(errno.ENOENT, "the directory is gone")

    monkeypatch.setattr(DoomedFiles, "take_removal", fail)
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert node.partition("t").partition.directory.offline is not None
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert node.node.failed.is_set()


def test_a_removed_log_leaves_the_checkpoints_before_its_files_leave_the_disk(start_node):
    """Until then its directory says that it was removed: a start would miss it else."""
    node = start_node(log_segment_delete_delay_ms=3_600_000)
    node.create("t")
    node.produce("t", b"v")
    (directory,) = node.node.directories.all
    points = Path(node.directory, "data", "recovery-point-offset-checkpoint")
    node.run(lambda: to_the_end(node.node.housekeeping._checkpoint()))
    delete_topics(node.client(), ["t"])
    node.wait_until(lambda: directory.files.doomed)
    assert "t 0 1" in points.read_text()
    node.run(lambda: to_the_end(node.node.housekeeping._remove_doomed()))
    assert "t 0 1" not in points.read_text()
    assert not directory.files.stale


def test_a_job_that_fails_is_done_again(start_node, caplog):
    """Its error is logged; the other jobs and the broker go on."""
    node = start_node()
    calls = []

    def job():
        calls.append(1)
        raise ZeroDivisionError

    node.run(lambda: node.node.housekeeping._repeat("odd job", 0.001, job))
    node.wait_until(lambda: len(calls) >= 3)
    assert "odd job failed" in caplog.text
    node.create("t")


def test_a_job_without_a_pause_of_its_own_does_not_keep_the_loop_busy(start_node):
    """As with log.segment.delete.delay.ms=0: there is a pause between any two runs."""
    node = start_node(log_segment_delete_delay_ms=0)
    housekeeping = node.node.housekeeping
    due = []

    def job():
        due.append(housekeeping._timers["odd job"].when())

    node.run(lambda: (due.append(asyncio.get_running_loop().time()), housekeeping._repeat("odd job", 0, job)))
    node.wait_until(lambda: len(due) >= 4)
    assert all(later - earlier > 0.9 * PAUSE_SECONDS_MIN for earlier, later in pairwise(due))


def test_a_roll_that_finds_no_room_is_done_later(start_node, watched_files):
    """The directory stays online, and the log goes on."""
    clock = MovableClock()
    node = start_node(files=watched_files, clock=clock)
    node.create("t", segment_ms=60_000)
    node.produce("t", b"v")
    clock.ahead_ms = 60_001
    watched_files.fail("write", "/t-0/00000000000000000000.timeindex", errno.ENOSPC)
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert node.node.not_ready() == []
    assert node.values("t") == [b"v"]
    watched_files.faults.clear()
    directory = node.partition("t").partition.directory
    node.wait_until(lambda: not directory._refused and bases(node) == [0, 1])
    assert node.produce("t", b"w") == [1]


def test_a_roll_that_fails_takes_the_directory_offline(start_node, watched_files):
    """As any other failed write does."""
    clock = MovableClock()
    node = start_node(files=watched_files, clock=clock)
    node.create("t", segment_ms=60_000)
    node.produce("t", b"v")
    clock.ahead_ms = 60_001
    watched_files.fail("write", "/t-0/00000000000000000000.timeindex")
    node.run(lambda: to_the_end(node.node.housekeeping._tick()))
    assert node.node.failed.is_set()
    watched_files.faults.clear()


def test_transactions_that_hang_are_looked_for(start_node, monkeypatch, caplog, new_batch):
    """One that no coordinator knows is named once it is late."""
    monkeypatch.setattr(housekeeping, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(late, "_LATE_MS", 0)
    node = start_node(transaction_max_timeout_ms=1)
    node.create("t")
    batch = new_batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    log = node.partition("t").log
    node.run(
        lambda: log.append_as_leader(
            memoryview(batch), leader_epoch=log.leader_epochs.latest_epoch, now_ms=node.node.clock.wall_ms()
        )
    )
    node.wait_until(lambda: "the transaction of producer 9 from offset 0 on is open" in caplog.text)
