"""A log that is cut, begins anew or loses its oldest records between two steps of the cleaner's swap."""

import errno
from contextlib import suppress

import pytest

from stratalog.hot.config import LogConfig

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=0)
KILLED = {"clean": False, "known_gaps_below": 30, "may_have_gaps": True}


class Swap:
    """A swap that was taken through some of its steps; the names of each are durable but for the last."""

    def __init__(self, log, cleaned, stage):
        self.log = log
        self.swap = log.compaction.begin_replace(cleaned)
        if stage == "prepared":
            return
        self.carry_out(self.swap.stage(), 1 if stage == "half staged" else None)
        if stage in ("half retired", "retired"):
            assert log.compaction.put_in(self.swap)
            self.carry_out(self.swap.retire(), 1 if stage == "half retired" else None)

    def carry_out(self, steps, count=None):
        for number, _ in enumerate(steps, 1):
            if number == count:
                return
            self.swap.sync()

    def end(self):
        """As the cleaner does when it goes on."""
        compaction = self.log.compaction
        if compaction.is_pending(self.swap):
            if self.swap.is_in:
                self.carry_out(compaction.retire(self.swap))
            else:
                self.carry_out(self.swap.withdraw())
                compaction.withdrawn()


@pytest.fixture
def log(bench):
    """Thirty batches in three segments."""
    log = bench.open(CONFIG)
    bench.fill(log, 3)
    log.sync()
    return log


@pytest.fixture(params=["prepared", "half staged", "staged", "half retired", "retired"])
def pending(request, bench, log, compactor):
    """A swap at each of its steps."""
    cleaning = compactor.cleaning(log, now_ms=bench.now_ms)
    cleaning.build_map()
    return Swap(log, cleaning.clean_group(0), request.param)


def batches(bench, log, offset):
    return [(header.base_offset, header.partition_leader_epoch) for header in bench.headers(log, offset)]


def leftovers(bench):
    return [name for name in bench.names() if name.endswith((".swap", ".cleaned"))]


@pytest.mark.parametrize("goes_on", [False, True], ids=["killed at once", "killed when the cleaner has gone on"])
@pytest.mark.parametrize("offset", [0, 10, 16, 28])
def test_records_that_come_after_a_cut_are_there_and_those_cut_are_not(bench, log, pending, offset, goes_on):
    """For readers, and after a kill: an old segment may have the name of the one that begins there now."""
    log.truncate_to(offset)
    bench.append(log, 2, epoch=2)
    log.sync()
    end = log.log_end_offset
    assert batches(bench, log, offset)[-1] == (offset, 2)
    if goes_on:
        pending.end()
        log.sync()
        assert leftovers(bench) == []
    log.abandon()
    again = bench.open(CONFIG, recovery_point=min(end, 30), **KILLED)
    assert (again.log_end_offset, batches(bench, again, offset)[-1]) == (end, (offset, 2))
    assert (again.recovery.damaged_offset, again.missing_ranges()) == (None, [])


def test_a_cut_behind_the_swap_leaves_it_alone(bench, log, pending):
    """It may wait for the disk as long as it likes."""
    bench.append(log, 2)
    log.truncate_to(30)
    assert log.compaction.is_pending(pending.swap)
    pending.end()
    assert leftovers(bench) == []
    assert log.log_end_offset == 30


def test_a_log_that_begins_anew_meanwhile_has_nothing_of_the_swap(bench, log, pending):
    """A follower that is out of range goes on at its leader's log start."""
    log.truncate_fully_and_start_at(100, (), None)
    bench.append(log, 2, epoch=2)
    log.sync()
    log.abandon()
    again = bench.open(CONFIG, recovery_point=30, **KILLED)
    assert (again.log_start_offset, again.log_end_offset, again.recovery.damaged_offset) == (100, 102, None)


def test_retention_takes_the_segments_when_the_swap_has_ended(bench, log, pending):
    """Not before: a kill would bring old ones back, below a log start that others rely on."""
    bench.append(log, 2)
    log.sync()
    assert log.delete_local_before(30) == 0
    assert (log.log_start_offset, log.first_base_offset) == (0, 0)
    pending.end()
    assert log.delete_local_before(30)
    log.sync()
    log.abandon()
    for _ in range(2):
        again = bench.open(CONFIG, recovery_point=32, **KILLED)
        assert (again.log_start_offset, again.log_end_offset, again.missing_ranges()) == (30, 32, [])
        again.abandon()


@pytest.mark.parametrize("refused", range(1, 10))
def test_a_cut_that_the_disk_refuses_half_way_is_tried_again(bench, log, pending, monkeypatch, refused):
    """The swap goes on where it was, step by step."""
    files, calls = type(bench.files), []
    rename = files.rename

    def refuse(self, source, target):
        calls.append(source)
        if len(calls) == refused:
            raise OSError(errno.ENOSPC, "no space left on the device")
        rename(self, source, target)

    monkeypatch.setattr(files, "rename", refuse)
    with suppress(OSError):
        log.truncate_to(10)
    if log.tail.failed is not None:
        log.discard_unwritten()
        log.truncate_to(10)
    assert log.log_end_offset == 10
    assert leftovers(bench) == []
    bench.append(log, 2, epoch=2)
    log.sync()
    log.abandon()
    assert batches(bench, bench.open(CONFIG, recovery_point=10, **KILLED), 10) == [(10, 2)]
