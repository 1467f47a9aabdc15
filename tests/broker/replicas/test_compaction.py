"""Tests of broker/replicas/compaction.py."""

import asyncio
import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from stratalog.broker.workers.cleaner_worker import BeginCleaning, CleanerSessions, CleanGroup
from stratalog.broker.workers.workers import ThreadWorkers
from stratalog.client.admin import alter_topic_configs, delete_topics
from stratalog.client.records import NewRecord
from stratalog.hot.state.log_bounds import LOG_BOUNDS, bounds_from_bytes


@pytest.fixture
def broker(start_node):
    """It cleans when a test says so, and takes small segments."""
    return start_node(log_cleaner_backoff_ms=3_600_000)


def fill(broker, topic: str, keys: int = 3, batches: int = 4, **configs) -> None:
    """A compacted topic of one frozen segment a batch, the same keys in each."""
    broker.create(topic, cleanup_policy="compact", **configs)
    for _ in range(batches):
        append(broker, topic, keys)


def append(broker, topic: str, keys: int = 3) -> None:
    append_unrolled(broker, topic, keys)
    broker.run(broker.partition(topic).log.roll)


def append_unrolled(broker, topic: str, keys: int = 3) -> None:
    now_ms = broker.node.clock.wall_ms()
    broker.produce(topic, *(NewRecord(b"v" * 100, now_ms, key=b"%d" % key, partition=0) for key in range(keys)))


def clean(broker) -> None:
    broker.run(broker.node.compaction.look)
    broker.wait_until(lambda: broker.node.compaction.idle)


def offsets(broker, topic: str) -> list[int]:
    return [record.offset for record in broker.read(topic)]


def names(broker, topic: str, suffix: str) -> list[str]:
    return sorted(path.name for path in Path(broker.directory, "data", f"{topic}-0").glob(f"*{suffix}"))


class Gate(CleanerSessions):
    """Sessions that wait at a command until they are let on, in threads of this process."""

    def __init__(self, at: type) -> None:
        super().__init__()
        self.at = at
        self.reached, self.open = threading.Event(), threading.Event()
        self.commands: list[object] = []
        self.fail: BaseException | None = None

    def execute(self, command):
        self.commands.append(command)
        if isinstance(command, self.at):
            self.reached.set()
            assert self.open.wait(20)
            if self.fail is not None:
                raise self.fail
        return super().execute(command)

    def put_into(self, broker) -> "Gate":
        def put() -> None:
            broker.node.compaction.process.workers = ThreadWorkers(asyncio.get_running_loop(), self)

        broker.run(put)
        return self


@pytest.mark.story
def test_the_dirtiest_log_first_and_then_the_others(broker, caplog):
    """One look cleans all that is due; the worker process is the same for all of them."""
    caplog.set_level("INFO")
    fill(broker, "some", batches=3)
    clean(broker)
    append(broker, "some", keys=6)
    fill(broker, "more", batches=3)
    pids = set()

    def look() -> bool:
        workers = broker.node.compaction.process.workers
        pids.add(None if workers is None else workers.pid)
        return broker.node.compaction.idle

    broker.run(broker.node.compaction.look)
    broker.wait_until(look)
    told = [record.message.split(":")[0] for record in caplog.records if "cleaned up to" in record.message]
    assert told == ["some-0", "more-0", "some-0"]
    assert offsets(broker, "some") == [9, 10, 11, 12, 13, 14]
    assert offsets(broker, "more") == [6, 7, 8]
    assert pids - {None}
    broker.run(broker.node.compaction.process.close)
    for pid in pids - {None}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.story
def test_a_corrupt_log_is_marked_and_skipped(broker, caplog):
    """It is logged once, shown in the figures, read as before; other logs are cleaned."""
    fill(broker, "bad")
    fill(broker, "good", batches=3)
    segment = broker.run(lambda: broker.partition("bad").log.segments()[1])
    with Path(segment.path).open("r+b") as file:
        file.seek(70)
        file.write(b"\xff\xff")
    clean(broker)
    clean(broker)
    assert len([record for record in caplog.records if "bad-0 cannot be compacted" in record.message]) == 1
    assert offsets(broker, "good") == [6, 7, 8]
    assert len(broker.run(broker.partition("bad").log.segments)) == 5
    assert b"uncleanable_partitions_count{logDirectory=" in broker.node.metrics.render()
    assert broker.run(lambda: list(broker.node.compaction._uncleanable_counts().values())) == [1]
    delete_topics(broker.client(), ["bad"])
    assert broker.run(broker.node.compaction.uncleanable) == {}


@pytest.mark.story
def test_a_topic_deleted_meanwhile_is_left_alone(broker):
    """Also when another of its name has taken its place: not one of its files is touched."""
    fill(broker, "t")
    gate = Gate(CleanGroup).put_into(broker)
    broker.run(broker.node.compaction.look)
    assert gate.reached.wait(20)
    delete_topics(broker.client(), ["t"])
    fill(broker, "t", batches=2)
    gate.open.set()
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert offsets(broker, "t") == list(range(6))
    assert names(broker, "t", ".cleaned") == names(broker, "t", ".swap") == []
    clean(broker)
    assert offsets(broker, "t") == [3, 4, 5]


@pytest.mark.story
def test_segments_that_retention_takes_meanwhile_are_not_brought_back(broker):
    """The cleaning is given up and begun again at the next look."""
    broker.create("t", cleanup_policy="compact,delete")
    for _ in range(4):
        append(broker, "t")
    gate = Gate(CleanGroup).put_into(broker)
    broker.run(broker.node.compaction.look)
    assert gate.reached.wait(20)
    broker.run(lambda: broker.partition("t").log.delete_local_before(3))
    gate.open.set()
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert broker.node.compaction.cleanings == 0
    assert names(broker, "t", ".cleaned") == names(broker, "t", ".swap") == []
    assert broker.run(lambda: broker.partition("t").log.segments()[0].base_offset) == 3
    clean(broker)
    assert [record.offset for record in broker.read("t", offset=3)] == [9, 10, 11]


@pytest.mark.story
def test_a_worker_that_dies_costs_a_cleaning_not_a_record(broker):
    """The next look starts another one."""
    fill(broker, "t", keys=200, batches=40)

    def kill() -> bool:
        workers = broker.node.compaction.process.workers
        if workers is None or workers.pid is None:
            return False
        os.kill(workers.pid, signal.SIGKILL)
        return True

    broker.run(broker.node.compaction.look)
    broker.wait_until(kill)
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert broker.node.compaction.cleanings == 0
    clean(broker)
    assert offsets(broker, "t") == list(range(39 * 200, 40 * 200))


@pytest.mark.story
def test_a_full_disk_is_waited_for(broker, caplog):
    """The unfinished output goes: it may be what fills the disk."""
    fill(broker, "t")
    gate = Gate(CleanGroup).put_into(broker)
    gate.fail = OSError(errno.ENOSPC, "no space left")
    Path(broker.directory, "data", "t-0", f"{0:020d}.log.cleaned").write_bytes(b"half")
    gate.open.set()
    clean(broker)
    assert broker.partition("t").partition.directory.offline is None
    assert names(broker, "t", ".cleaned") == []
    assert any("is full" in record.message for record in caplog.records)
    gate.fail = None
    clean(broker)
    assert offsets(broker, "t") == [9, 10, 11]


@pytest.mark.parametrize("at", [BeginCleaning, CleanGroup])
def test_a_log_that_is_cut_meanwhile_is_not_damaged(broker, at):
    """As a follower's after an unclean election: its files are not those of the job, and the next look has another."""
    broker.create("t", cleanup_policy="compact")
    for _ in range(3):
        append_unrolled(broker, "t")
        append(broker, "t")
    gate = Gate(at).put_into(broker)
    broker.run(broker.node.compaction.look)
    assert gate.reached.wait(20)
    broker.run(lambda: broker.partition("t").log.truncate_to(9))
    gate.open.set()
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert broker.run(broker.node.compaction.uncleanable) == {}


def test_a_disk_that_fails_takes_its_directory_offline(broker):
    """As with any other of its files; an offline directory is not looked at."""
    fill(broker, "t")
    gate = Gate(CleanGroup).put_into(broker)
    gate.fail = OSError(errno.EIO, "broken")
    gate.open.set()
    clean(broker)
    assert broker.partition("t").partition.directory.offline is not None
    gate = Gate(BeginCleaning).put_into(broker)
    broker.run(broker.node.compaction.look)
    assert broker.run(lambda: broker.node.compaction.idle)


@pytest.fixture
def look(broker, monkeypatch):
    """Begins a look at the logs, and takes it from its first pause to its end when the result is called; how often it paused."""
    begun = []

    def begin():
        with monkeypatch.context() as patch:
            patch.setattr(broker.node.dispatcher.slices, "start", lambda *work: begun.append(work))
            broker.node.compaction.look()
            broker.node.compaction.look()
        next(begun[0][0])

    def end() -> int:
        (steps, done), pauses = begun.pop(), 1
        assert not begun
        while True:
            try:
                next(steps)
            except StopIteration as found:
                done(found.value, None)
                return pauses
            pauses += 1

    def looking():
        broker.run(begin)
        return lambda: broker.run(end)

    return looking


def test_many_logs_are_looked_at_in_slices(broker, look):
    """With a pause for each: thousands took some tenths of a second in one turn, whenever a cleaning had ended."""
    for topic in ("a", "b", "c"):
        fill(broker, topic, batches=2)
    broker.create("plain")
    end = look()
    assert not broker.run(lambda: broker.node.compaction.idle)
    assert end() == 3
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert broker.node.compaction.cleanings == 3


def test_a_log_that_leaves_or_is_cut_between_two_slices_is_not_cleaned_as_it_was(broker, look):
    """It is looked at once more before its cleaning begins."""
    fill(broker, "t")
    end = look()
    broker.run(lambda: broker.partition("t").log.truncate_to(0))
    end()
    broker.wait_until(lambda: broker.node.compaction.idle)
    fill(broker, "u")
    end = look()
    delete_topics(broker.client(), ["u"])
    end()
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert broker.run(broker.node.compaction.uncleanable) == {}
    assert broker.node.compaction.cleanings == 0


@pytest.mark.story
def test_a_broker_that_stops_meanwhile_loses_nothing(broker):
    """It does not wait for the cleaning; the next start removes what was written."""
    fill(broker, "t")
    gate = Gate(CleanGroup).put_into(broker)
    broker.run(broker.node.compaction.look)
    assert gate.reached.wait(20)
    broker.stop()
    gate.open.set()
    broker.start()
    assert offsets(broker, "t") == list(range(12))
    clean(broker)
    assert offsets(broker, "t") == [9, 10, 11]


def test_the_settings_of_the_broker_reach_the_worker(start_node):
    """The dedupe buffer is shared by the threads; topic settings travel with the job."""
    broker = start_node(
        log_cleaner_backoff_ms=3_600_000,
        log_cleaner_threads=2,
        log_cleaner_dedupe_buffer_size=4_000_000,
        log_cleaner_io_buffer_load_factor="0.5",
        log_cleaner_io_max_bytes_per_second="1000000",
    )
    fill(broker, "t", delete_retention_ms=77)
    gate = Gate(BeginCleaning).put_into(broker)
    gate.open.set()
    clean(broker)
    begin = gate.commands[0]
    assert begin.bytes_per_second == 1_000_000
    assert (begin.job.map_bytes, begin.job.map_load_factor) == (2_000_000, 0.5)
    assert begin.job.delete_retention_ms == 77


@pytest.mark.parametrize("setting", [{"log_cleaner_enable": "false"}, {"log_cleaner_threads": 0}])
def test_it_may_be_switched_off(start_node, setting):
    """Then compacted topics only grow."""
    broker = start_node(log_cleaner_backoff_ms=1, **setting)
    fill(broker, "t")
    broker.run(asyncio.sleep, 0.2)
    assert broker.node.compaction.cleanings == 0
    assert offsets(broker, "t") == list(range(12))


@pytest.mark.story
def test_young_records_stay_and_overdue_ones_go(broker):
    """``min.compaction.lag.ms`` and ``max.compaction.lag.ms``."""
    fill(broker, "young", min_compaction_lag_ms=3_600_000)
    fill(broker, "due", min_cleanable_dirty_ratio="1.0")
    clean(broker)
    assert offsets(broker, "young") == offsets(broker, "due") == list(range(12))
    fill(broker, "overdue", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms=1)
    clean(broker)
    assert offsets(broker, "overdue") == [9, 10, 11]


@pytest.mark.story
def test_an_undecided_transaction_holds_the_cleaner_back(broker, new_batch):
    """No batch at or above the first unstable offset is cleaned."""
    fill(broker, "t", batches=2)
    batch = new_batch(b"v", key=b"k", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    appended = threading.Event()
    broker.run(lambda: broker.partition("t").partition.leader.append_as_leader(batch, lambda _: appended.set()))
    assert appended.wait(20)
    broker.run(broker.partition("t").log.roll)
    append(broker, "t")
    clean(broker)
    files = broker.node.directories.all[0].files
    assert list(files.cleaner_offsets.values()) == [6]
    assert [record.offset for record in broker.read("t", read_committed=False)] == [3, 4, 5, 6, 7, 8, 9]


def test_a_log_that_was_cleaned_may_be_a_plain_one_later(broker):
    """Its gaps are not taken for damage after a kill: they are written down before the first segment is replaced."""
    fill(broker, "t")
    gate = Gate(CleanGroup).put_into(broker)
    broker.run(broker.node.compaction.look)
    assert gate.reached.wait(20)
    name = broker.partition("t").topic_partition
    assert broker.node.directories.all[0].files.cleaner_offsets[name] == 0
    bounds = bounds_from_bytes(Path(broker.directory, "data", LOG_BOUNDS).read_bytes())
    assert bounds[name].gaps_below == broker.partition("t").log.active_base_offset
    gate.open.set()
    broker.wait_until(lambda: broker.node.compaction.idle)
    alter_topic_configs(broker.client(), "t", set_to={"cleanup.policy": "delete"})
    broker.stop()
    data = Path(broker.directory, "data")
    (data / ".kafka_cleanshutdown").unlink()
    (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    broker.start()
    assert broker.partition("t").log.recovery.damaged_offset is None
    assert offsets(broker, "t") == [9, 10, 11]
    assert broker.partition("t").log.may_have_gaps


def test_a_log_whose_gaps_cannot_be_noted_is_cleaned_later(start_node, watched_files):
    """No gap comes before its note, which is written in slices: other logs of the directory have rows in the same file."""
    broker = start_node(log_cleaner_backoff_ms=3_600_000, files=watched_files)
    fill(broker, "t")
    watched_files.fail("write", "log-start-offset-checkpoint.tmp", errno.ENOSPC)
    clean(broker)
    assert (broker.node.compaction.cleanings, offsets(broker, "t")) == (0, list(range(12)))
    assert broker.run(broker.node.compaction.uncleanable) == {}
    watched_files.faults.clear()
    clean(broker)
    assert offsets(broker, "t") == [9, 10, 11]
    name = broker.partition("t").topic_partition
    bounds = bounds_from_bytes(Path(broker.directory, "data", LOG_BOUNDS).read_bytes())
    assert bounds[name].gaps_below == broker.partition("t").log.active_base_offset


def test_a_topic_that_is_made_again_is_not_clean_where_the_one_before_was(broker):
    """The row of the deleted one came back with the next start."""
    fill(broker, "t", batches=4)
    clean(broker)
    name = broker.partition("t").topic_partition
    assert broker.node.directories.all[0].files.cleaner_offsets[name] > 0
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: broker.node.hosted.table.get(name) is None)
    fill(broker, "t", batches=2)
    broker.restart()
    assert name not in broker.node.directories.all[0].files.cleaner_offsets
