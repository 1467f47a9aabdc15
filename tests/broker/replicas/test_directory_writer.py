"""The write and sync cycle of one log directory."""

import asyncio
import errno

import pytest

from stratalog.broker.replicas import directory_writer
from stratalog.broker.replicas.directory_writer import INLINE_BYTES_MAX, LONG_SYNC_BYTES
from tests.broker.replicas.writer_rig import Bench


@pytest.fixture
async def bench(sync_threads):
    return Bench(sync_threads)


async def test_appends_of_one_turn_are_written_once(bench):
    """Two appends of one log are one write, and all logs are written in the same turn."""
    one, two = bench.owner(), bench.owner()
    for owner in (one, two, one):
        bench.writer.enqueue(owner)
    assert one.heard == []
    await bench.turn()
    assert one.heard == two.heard == ["write", "written"]
    assert len(bench.threads.waiting) == 2
    await bench.threads.run()
    assert one.heard[-1] == two.heard[-1] == "flushed"
    assert bench.writer.sync_cycles == 1
    assert bench.writer.idle


async def test_one_cycle_at_a_time_and_the_next_takes_all(bench):
    """Records written while files are being synced share the following cycle."""
    one, two = bench.owner(), bench.owner()
    bench.writer.enqueue(one)
    await bench.turn()
    for owner in (one, two, one):
        bench.writer.enqueue(owner)
        await bench.turn()
    assert len(bench.threads.waiting) == 1
    assert not bench.writer.idle
    await bench.threads.run()
    assert len(bench.threads.waiting) == 2
    await bench.threads.run()
    assert bench.writer.sync_cycles == 2
    assert one.heard.count("flushed") == 2
    assert two.heard.count("flushed") == 1


async def test_the_next_cycle_does_not_wait_for_a_log_with_much_to_sync(bench):
    """A copy that is far behind brings megabytes at a time; a record of another topic waited for its sync, then for its own."""
    large, small = bench.owner(), bench.owner()
    large.queued_bytes = LONG_SYNC_BYTES
    await bench.written(large)
    (sync_of_large,), bench.threads.waiting[:] = list(bench.threads.waiting), []
    for owner in (small, large):
        bench.writer.enqueue(owner)
        await bench.turn()
    await bench.threads.run()
    assert small.heard[-1] == "flushed"
    assert "flushed" not in large.heard  # its own next sync waits: there is one at a time of each log
    assert bench.threads.waiting == []
    assert not bench.writer.idle
    bench.threads.waiting.append(sync_of_large)
    for _ in range(2):
        await bench.threads.run()
    assert large.heard.count("flushed") == 2
    assert bench.writer.idle


async def test_small_appends_without_a_sync_add_up(bench):
    """With Kafka's flush default a log grows for long before it is synced."""
    large, small = bench.owner(sync_on_ack=False), bench.owner()
    large.queued_bytes = LONG_SYNC_BYTES // 2
    for _ in range(2):
        bench.writer.enqueue(large)
        await bench.turn()
    bench.writer.sync(large)
    bench.writer.enqueue(small)
    await bench.turn()
    assert len(bench.threads.waiting) == 2


async def test_a_log_that_leaves_under_a_long_sync_is_forgotten_with_it(bench):
    """Its directory has another name by then; the writer is idle, and no count is left of it."""
    large, small = bench.owner(), bench.owner()
    large.queued_bytes = LONG_SYNC_BYTES
    for owner in (large, small):
        bench.writer.enqueue(owner)
    await bench.turn()
    bench.writer.remove(large)
    await bench.threads.run()
    assert "flushed" not in large.heard
    assert small.heard[-1] == "flushed"
    assert bench.writer.idle
    bench.writer.enqueue(small)
    await bench.turn()
    await bench.threads.run()
    assert small.heard.count("flushed") == 2


def new_logs(bench, count):
    """New logs, whose names are not on disk yet."""
    logs = [bench.owner(f"new {number}") for number in range(count)]
    for one in logs:
        one.dirty = True
        bench.writer.sync_unhurried(one)
    return logs


async def test_a_sync_that_is_waited_for_comes_before_those_of_many_new_logs(bench):
    """The metadata log waited 15 s while the logs of 33,000 new partitions came to disk: the quorum lost its leader."""
    logs = new_logs(bench, 1000)
    waited_for = bench.owner()
    bench.writer.enqueue(waited_for)
    await bench.turn()
    await bench.threads.run()
    assert "flushed" not in waited_for.heard
    await bench.threads.run()
    assert waited_for.heard[-1] == "flushed"
    assert sum("flushed" in one.heard for one in logs) <= 2 * directory_writer._UNHURRIED_A_CYCLE
    while bench.threads.waiting:
        await bench.threads.run()
    assert all(one.heard == ["flushed"] for one in logs)
    assert bench.writer.idle


async def test_a_new_log_that_is_written_does_not_wait_for_the_others(bench):
    """Its first append needs its names on disk."""
    *_, last = new_logs(bench, 1000)
    bench.writer.enqueue(last)
    await bench.turn()
    await bench.threads.run()
    await bench.threads.run()
    assert last.heard == ["write", "written", "flushed"]


async def test_new_logs_that_need_no_sync_any_more_do_not_keep_the_others_waiting(bench):
    """A cycle without any work is no cycle; logs that leave are forgotten."""
    logs = new_logs(bench, 500)
    for one in logs[1:-1]:
        one.dirty = False
    bench.writer.remove(logs[200])
    await bench.threads.run()
    await bench.threads.run()
    assert logs[-1].heard == ["flushed"]
    assert bench.writer.idle


async def test_a_log_is_not_synced_before_it_is_due(bench):
    """flush.messages above the written count leaves it to the system, until a sync is asked for."""
    owner = bench.owner(sync_on_ack=False)
    bench.writer.enqueue(owner)
    await bench.turn()
    assert bench.threads.waiting == []
    bench.writer.sync(owner)
    assert len(bench.threads.waiting) == 1
    await bench.threads.run()
    assert owner.heard == ["write", "written", "flushed"]


async def test_much_is_written_in_several_turns(bench):
    """Other connections get their turn after 4 MiB."""
    owners = [bench.owner() for _ in range(3)]
    for owner in owners:
        owner.queued_bytes = INLINE_BYTES_MAX
        bench.writer.enqueue(owner)
    counts = []
    for _ in range(5):
        await asyncio.sleep(0)
        counts.append(sum("written" in owner.heard for owner in owners))
    assert set(counts) == {0, 1, 2, 3} or set(counts) == {1, 2, 3}


@pytest.mark.parametrize("where", ["write", "sync"])
async def test_a_failed_write_or_sync_takes_the_directory_offline(bench, where):
    """Every log in it hears of that once, no write is tried again, and later calls change nothing."""
    bad, other = bench.owner(), bench.owner()
    setattr(bad, f"{where}_error", OSError(errno.EIO, "broken"))
    bench.writer.enqueue(bad)
    bench.writer.enqueue(other)
    await bench.turn()
    await bench.threads.run()
    assert bench.writer.offline is bench.failures[0]
    assert len(bench.failures) == 1
    assert bad.heard.count("failed") == other.heard.count("failed") == 1
    assert "flushed" not in bad.heard
    before = list(bad.heard), list(other.heard)
    bad.write_error = bad.sync_error = None
    for owner in (bad, other):
        bench.writer.enqueue(owner)
        bench.writer.sync(owner)
    bench.writer.fail(OSError("again"))
    await bench.turn()
    await bench.threads.run()
    assert (bad.heard, other.heard) == before
    assert len(bench.failures) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
async def test_a_shortage_refuses_and_goes_on(bench, code):
    """Only what did not fit is refused; the directory stays, and the others in it too."""
    bad, other = bench.owner(), bench.owner()
    bad.write_error = OSError(code, "full")
    bench.writer.enqueue(bad)
    bench.writer.enqueue(other)
    await bench.turn()
    await bench.threads.run()
    assert bad.heard == ["discarded", "refused"]
    assert other.heard == ["write", "written", "flushed"]
    assert bench.writer.offline is None
    bad.write_error = None
    bench.writer.enqueue(bad)
    await bench.turn()
    assert bad.heard[-1] == "written"


async def test_a_lack_of_descriptors_ends_the_wait_of_written_appends(bench):
    """Where nothing asks for a sync soon, files would stay open until then, and the lack with them."""
    written, idle = bench.owner(sync_on_ack=False), bench.owner(sync_on_ack=False)
    bench.writer.enqueue(written)
    await bench.turn()
    bench.writer.report(OSError(errno.ENOSPC, "full"))
    await bench.threads.run()
    assert written.heard == ["write", "written"]
    bench.writer.report(OSError(errno.EMFILE, "too many open files"))
    await bench.threads.run()
    assert (written.heard, idle.heard) == (["write", "written", "flushed"], [])


async def test_a_log_that_cannot_be_put_in_order_is_tried_again(bench):
    """Housekeeping asks until there is room; another error is the end of the directory."""
    owner = bench.owner()
    owner.write_error = owner.discard_error = OSError(errno.ENOSPC, "full")
    bench.writer.enqueue(owner)
    await bench.turn()
    assert owner.heard == ["refused"]
    bench.writer.retry_refused()
    assert owner.heard == ["refused"]
    owner.discard_error = None
    bench.writer.retry_refused()
    bench.writer.retry_refused()
    assert owner.heard == ["refused", "discarded"]
    owner.discard_error = OSError(errno.EIO, "broken")
    bench.writer.enqueue(owner)
    await bench.turn()
    assert bench.writer.offline is owner.discard_error


async def test_errors_met_by_others_are_sorted_the_same_way(bench):
    """A full disk is waited for wherever it is met, anything else takes the directory offline."""
    owner = bench.owner()
    bench.writer.report(OSError(errno.ENOSPC, "full"))
    bench.writer.report(OSError(errno.ENOSPC, "full"), owner)
    bench.writer.report(OSError(errno.EMFILE, "too many open files"))
    assert bench.writer.offline is None
    assert owner.heard == ["discarded", "refused"]
    bench.writer.report(OSError(errno.EIO, "broken"), owner)
    assert bench.writer.offline is not None
    assert owner.heard[-1] == "failed"


async def test_a_log_that_is_let_go_hears_nothing_more(bench):
    """Its queue and the sync under way report nothing to a removed log."""
    syncing, queued = bench.owner(), bench.owner()
    bench.writer.enqueue(syncing)
    await bench.turn()
    bench.writer.enqueue(queued)
    bench.writer.remove(syncing)
    bench.writer.remove(queued)
    await bench.turn()
    await bench.threads.run()
    assert syncing.heard == ["write", "written"]
    assert queued.heard == []
    assert bench.writer.idle


async def test_a_mistake_in_one_owner_does_not_stop_the_others(bench):
    """An owner that raises when it hears of its write leaves the others written and everything synced."""
    one, two = bench.owner(), bench.owner()

    def mistaken():
        raise RuntimeError("answered twice")

    one.on_written = mistaken
    bench.writer.enqueue(one)
    bench.writer.enqueue(two)
    await bench.turn()
    await bench.turn()
    assert two.heard == ["write", "written"]
    while bench.threads.waiting:
        await bench.threads.run()
    assert one.heard[-1] == two.heard[-1] == "flushed"
    assert bench.writer.idle


async def test_a_sync_that_ends_in_a_mistake_counts_as_failed(bench):
    """An exception that is no OSError leaves nothing waiting for ever: the directory goes offline."""
    owner = bench.owner()
    owner.sync_error = ValueError("closed")
    bench.writer.enqueue(owner)
    await bench.turn()
    await bench.threads.run()
    assert owner.heard[-1] == "failed"
    assert bench.writer.offline is not None
    assert bench.writer.idle


async def test_a_partition_deleted_during_its_sync_harms_no_other(bench):
    """Its directory is gone by its name then; the disk is well, and the next cycle begins."""
    deleted, other = bench.owner(), bench.owner()
    deleted.sync_error = FileNotFoundError(errno.ENOENT, "gone")
    bench.writer.enqueue(deleted)
    await bench.turn()
    bench.writer.enqueue(other)
    await bench.turn()
    bench.writer.remove(deleted)
    await bench.threads.run()
    await bench.threads.run()
    assert bench.failures == []
    assert other.heard[-1] == "flushed"


async def test_a_sync_that_finds_no_descriptor_is_taken_up_again(bench, monkeypatch):
    """No record is lost and none acknowledged meanwhile, and the directory stays in service."""
    monkeypatch.setattr(directory_writer, "_SHORTAGE_WAIT_SECONDS", 0)
    owner = bench.owner()
    owner.sync_error = OSError(errno.EMFILE, "too many open files")
    bench.writer.enqueue(owner)
    await bench.turn()
    await bench.threads.run()
    assert owner.heard == ["write", "written"]
    assert not bench.writer.idle
    owner.sync_error = None
    await bench.turn()
    await bench.threads.run()
    assert owner.heard == ["write", "written", "flushed"]
    assert bench.writer.idle
    assert bench.failures == []


async def test_a_name_that_is_missing_under_a_living_log_is_a_failure(bench):
    """Its files have been taken away."""
    owner = bench.owner()
    owner.sync_error = FileNotFoundError(errno.ENOENT, "gone")
    bench.writer.enqueue(owner)
    await bench.turn()
    await bench.threads.run()
    assert len(bench.failures) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
async def test_a_sync_that_cannot_begin_for_want_of_room_is_tried_again(bench, monkeypatch, number):
    """The records are written; what has to be written beside them waits, and so do their acknowledgements."""
    monkeypatch.setattr(directory_writer, "_SHORTAGE_WAIT_SECONDS", 0)
    owner, other = bench.owner(), bench.owner()
    owner.begin_error = OSError(number, "no room")
    bench.writer.enqueue(owner)
    bench.writer.enqueue(other)
    await bench.turn()
    await bench.threads.run()
    assert (owner.heard, other.heard[-1]) == (["write", "written"], "flushed")
    assert bench.writer.postponed
    owner.begin_error = None
    await bench.turn()
    await bench.threads.run()
    assert owner.heard == ["write", "written", "flushed"]
    assert not bench.writer.postponed
    assert bench.failures == []


async def test_a_sync_that_was_postponed_is_forgotten_with_its_partition(bench, monkeypatch):
    """No append waits for it any more."""
    monkeypatch.setattr(directory_writer, "_SHORTAGE_WAIT_SECONDS", 0)
    owner = bench.owner()
    owner.begin_error = OSError(errno.ENOSPC, "no room")
    bench.writer.enqueue(owner)
    await bench.turn()
    bench.writer.remove(owner)
    assert not bench.writer.postponed
    owner.begin_error = None
    await bench.turn()
    await bench.threads.run()
    assert owner.heard == ["write", "written"]


async def test_a_sync_that_cannot_begin_for_another_reason_is_the_end(bench):
    """The directory goes offline, as with any failed write."""
    owner = bench.owner()
    owner.begin_error = OSError(errno.EIO, "gone")
    bench.writer.enqueue(owner)
    await bench.turn()
    assert owner.heard[-1] == "failed"
    assert len(bench.failures) == 1


async def test_a_held_log_is_not_written_until_it_is_let_go(bench):
    """Others are; what was queued meanwhile is written at once afterwards."""
    held, other = bench.owner(), bench.owner()
    bench.writer.hold(held)
    for owner in (held, other):
        bench.writer.enqueue(owner)
    await bench.turn()
    assert (held.heard, other.heard) == ([], ["write", "written"])
    assert bench.writer.holds(held)
    bench.writer.let_go(held)
    await bench.turn()
    assert held.heard == ["write", "written"]
    assert not bench.writer.holds(held)


async def test_a_held_log_that_leaves_is_forgotten(bench):
    """It has moved, or was deleted: to let it go does nothing."""
    owner = bench.owner()
    bench.writer.hold(owner)
    bench.writer.remove(owner)
    bench.writer.let_go(owner)
    await bench.turn()
    assert owner.heard == []
