"""A log takes another place while it is open: it has to be what was copied, and goes on as if nothing had been."""

import shutil
from pathlib import Path

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.scan import UnreadableBatch


def everything(log):
    """The bytes of all batches."""
    read = log.read(log.local_log_start_offset, max_bytes=1 << 30, max_offset=log.log_end_offset)
    return b"".join(part.file.pread(part.length, part.position) for part in read.parts)


@pytest.fixture
def log(bench):
    """Three frozen segments and an active one with an aborted transaction, all synced."""
    log = bench.open(LogConfig(index_interval_bytes=100))
    bench.fill(log, 3)
    bench.write_mixed(log, 12)
    log.sync()
    return log


def relocated(log, bench):
    """Copy the files with the system's means, and use them."""
    log.moving.begin()
    target = bench.directory + ".copy"
    shutil.copytree(log.directory, target)
    for base in (one.base_offset for one in log.segments() if one.active):
        for suffix in (".index", ".timeindex", ".txnindex"):
            Path(target, f"{base:020d}{suffix}").unlink(missing_ok=True)
    shutil.rmtree(log.directory)
    log.moving.relocate(target)
    bench.directory = target
    return target


def test_a_log_goes_on_in_its_new_place(log, bench):
    """Old batches are read there, new ones appended, rolled and found again, and the next start finds all of it."""
    before, producers = everything(log), log.producer_state.to_bytes()
    target = relocated(log, bench)
    assert log.directory == target
    assert everything(log) == before
    assert log.producer_state.to_bytes() == producers
    assert log.flushed_offset == log.written_offset
    bench.write_mixed(log, 6, seed=2, epoch=3)
    log.roll()
    bench.append(log, 2, epoch=3)
    log.sync()
    whole, end, epochs = everything(log), log.log_end_offset, log.leader_epochs.entries
    aborted = log.aborted_transactions(0, end)
    log.abandon()
    again = bench.open(clean=False, recovery_point=end)
    assert (everything(again), again.log_end_offset, again.leader_epochs.entries) == (whole, end, epochs)
    assert again.aborted_transactions(0, end) == aborted
    assert not again.recovery.frozen_indexes_rebuilt


def test_batches_that_are_queued_are_written_in_the_new_place(log, bench):
    """Writes are held while a log moves: they may have begun a segment."""
    view = log.moving.view()
    bench.append(log, 3)
    log.tail.begin_segment(log.log_end_offset)
    bench.append(log, 2)
    assert log.moving.is_at(view)
    relocated(log, bench)
    log.write_queued()
    log.sync()
    whole, end = everything(log), log.log_end_offset
    log.abandon()
    again = bench.open(clean=False, recovery_point=end)
    assert (everything(again), again.log_end_offset) == (whole, end)


@pytest.mark.parametrize(
    "change",
    [
        lambda log, bench: bench.append(log) and log.write_queued(),
        lambda log, _: log.roll(),
        lambda log, _: log.delete_local_before(log.segments()[1].base_offset),
        lambda log, _: log.truncate_to(log.log_end_offset - 1),
        lambda log, _: log.truncate_fully_and_start_at(log.log_end_offset, (), None),
        lambda log, _: setattr(log.tail, "failed", OSError("full")),
    ],
    ids=["written", "rolled", "deleted", "cut", "begun anew", "failed"],
)
def test_a_view_is_void_after_a_change_of_the_files(log, bench, change):
    """The files have changed: the copy is not the log."""
    view = log.moving.view()
    assert log.moving.is_at(view)
    change(log, bench)
    assert not log.moving.is_at(view)


def test_segments_that_are_leaving_do_not_move(log, bench):
    """They have left the log: only the place of before has their names and their snapshots."""
    bench.fill(log, 12, per_segment=1)
    log.sync()
    view = log.moving.view()
    log.delete_local_before(log.active_base_offset)
    assert log.start.is_leaving
    left = log.moving.view()
    assert set(left.snapshots) < set(view.snapshots)
    log.sync()
    relocated(log, bench)
    assert not log.start.is_leaving
    assert log.moving.view().snapshots == left.snapshots
    assert log._parts.snapshots.offsets == list(left.snapshots)


def test_a_cut_is_seen_also_when_as_much_was_appended_again(log, bench):
    """Sizes and offsets are those of before, the bytes are not."""
    view, end = log.moving.view(), log.log_end_offset
    bench.append(log, value=b"one")
    log.write_queued()
    log.truncate_to(end)
    log.sync()
    assert log.moving.view() != view
    assert log.moving.view()._replace(generation=view.generation) == view


def test_a_log_waits_for_a_sync_that_runs(log, bench):
    """Its end would be reported for the directory of before."""
    bench.append(log)
    log.write_queued()
    ticket, view = log.begin_sync(), log.moving.view()
    assert not log.moving.is_at(view)
    ticket.run()
    log.finish_sync(ticket)
    assert log.moving.is_at(view)


def test_a_damaged_log_does_not_move(log):
    """The range that is missing is known of this disk alone."""
    path = Path(log.directory, f"{0:020d}.log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    position = len(content) // 5 * 4
    assert isinstance(log.set_aside(UnreadableBatch(str(path), position, "its CRC is another")), MissingRange)
    assert "lost" in log.moving.why_not()
