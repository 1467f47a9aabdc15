"""A cleaner's swap on a node that meets a full disk, or a log that is cut while a thread waits for the disk."""

import errno
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from stratalog.hot.cleaner.swap import SegmentSwap
from stratalog.wire.batch import Record, build_batch, iter_records
from tests.broker.replicas.test_compaction import append, broker, clean, fill, names  # noqa: F401 - a fixture


@pytest.mark.story
@pytest.mark.parametrize("refused", range(1, 9))
def test_a_swap_that_meets_a_full_disk_is_finished_or_withdrawn(broker, monkeypatch, refused):  # noqa: F811
    """Whichever step it is: the log is cleaned again later, and may be moved to another disk."""
    fill(broker, "t")
    real, calls = SegmentSwap.sync, []

    def sync(self):
        calls.append(1)
        if len(calls) == refused:
            raise OSError(errno.ENOSPC, "no space left on the device")
        real(self)

    monkeypatch.setattr(SegmentSwap, "sync", sync)
    for _ in range(3):
        clean(broker)
        append(broker, "t")
    assert broker.partition("t").partition.directory.offline is None
    assert names(broker, "t", ".swap") == names(broker, "t", ".cleaned") == []
    assert broker.run(broker.partition("t").log.moving.why_not) is None


@pytest.mark.story
def test_a_swap_whose_files_get_their_names_late_is_finished(broker, monkeypatch):  # noqa: F811
    """The disk refused the last step once: retention, moves and the next cleaning wait for no restart."""
    fill(broker, "t")
    settle, calls = SegmentSwap.settle, []

    def refuse(self):
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "no space left on the device")
        settle(self)

    monkeypatch.setattr(SegmentSwap, "settle", refuse)
    clean(broker)
    log = broker.partition("t").log
    assert (names(broker, "t", ".swap"), broker.run(log.moving.why_not)) == ([], None)
    assert broker.run(lambda: log.delete_local_before(log.active_base_offset))


@pytest.mark.story
def test_a_cut_in_the_middle_of_a_swap_takes_no_record_that_comes_after_it(broker, monkeypatch):  # noqa: F811
    """A follower cuts its log where its new leader's history parts, while a thread syncs the third step of a swap."""
    fill(broker, "t")
    real, calls = SegmentSwap.sync, []
    reached, go_on = threading.Event(), threading.Event()

    def sync(self):
        calls.append(1)
        if len(calls) == 3:
            reached.set()
            assert go_on.wait(20)
        real(self)

    monkeypatch.setattr(SegmentSwap, "sync", sync)
    broker.run(broker.node.compaction.look)
    assert reached.wait(20)
    log = broker.partition("t").log

    def cut_and_go_on():
        log.truncate_to(3)  # as `Follower.truncate`
        log.append_as_leader(bytearray(build_batch([Record(0, 1, b"new", b"acknowledged")])), leader_epoch=50, now_ms=1)
        log.sync()
        return log.flushed_offset

    calls.append(1)  # the cut ends the swap itself, and waits for no one
    assert broker.run(cut_and_go_on) == 4
    go_on.set()
    broker.wait_until(lambda: broker.node.compaction.idle)

    def read():
        found = log.read(3, max_bytes=1 << 20, max_offset=log.written_offset)
        data = b"".join(part.file.pread(part.length, part.position) for part in found.parts)
        return [(record.offset, record.value) for record in iter_records(data)]

    assert Path(log.directory, f"{3:020d}.log").exists()
    assert names(broker, "t", ".swap") == []
    assert broker.run(read) == [(3, b"acknowledged")]


@pytest.mark.story
def test_a_swap_gives_way_to_an_archive_that_has_been_begun_meanwhile(broker, monkeypatch):  # noqa: F811
    """Its upload may be under way from the file that the swap replaces, which then looks damaged."""
    fill(broker, "t")
    real, reached, go_on = SegmentSwap.sync, threading.Event(), threading.Event()

    def sync(self):
        reached.set()
        assert go_on.wait(20)
        real(self)

    monkeypatch.setattr(SegmentSwap, "sync", sync)
    log = broker.partition("t").log

    def sizes():
        return [(one.base_offset, one.size_bytes) for one in log.segments()]

    before, plain = broker.run(sizes), log.config
    broker.run(broker.node.compaction.look)
    assert reached.wait(20)
    broker.run(lambda: log.update_config(replace(plain, remote_storage_enable=True)))
    go_on.set()
    broker.wait_until(lambda: broker.node.compaction.idle)
    assert (broker.run(sizes), broker.node.compaction.cleanings) == (before, 0)
    assert names(broker, "t", ".swap") == names(broker, "t", ".cleaned") == []
    broker.run(lambda: log.update_config(plain))
    clean(broker)
    assert broker.run(sizes) != before
