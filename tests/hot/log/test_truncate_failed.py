"""Tests of hot/log/truncate.py and hot/log/restart.py on a disk that fails once: memory and disk go on in step."""

import errno
import os
from itertools import pairwise

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.log.snapshots import ProducerSnapshots
from stratalog.hot.state.leader_epochs import EpochEntry
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.storage.filesystem import RealFile, RealFilesystem
from stratalog.wire.errors import ErrorCode, KafkaError

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=0)
CALLS_MAX = 200
"""More than any story here has."""


class FailsOnce(RealFilesystem):
    """A disk whose call number ``fails_at`` that changes something fails, counted from the moment that is set."""

    def __init__(self):
        self.fails_at = -1
        self.failed = False
        self.room = 1 << 30

    def _call(self):
        self.fails_at -= 1
        if self.fails_at == 0:
            self.failed = True
            raise OSError(errno.EIO, "the disk fails")

    def open_append(self, path):
        self._call()
        file = super().open_append(path)
        files = self

        class Counted(RealFile):
            def writev(self, buffers):
                if files.room <= 0:
                    raise OSError(errno.ENOSPC, "no space left")
                taken = super().writev([b"".join(buffers)[: files.room]])
                files.room -= taken
                return taken

            def truncate(self, size_bytes):
                files._call()
                super().truncate(size_bytes)

            def fdatasync(self):
                files._call()
                super().fdatasync()

        counted = Counted(os.dup(file.fileno()), path)
        file.close()
        return counted

    def rename(self, source, target):
        self._call()
        super().rename(source, target)

    def unlink(self, path):
        self._call()
        super().unlink(path)

    def sync_directory(self, path):
        self._call()
        super().sync_directory(path)


@pytest.fixture
def faulty(bench):
    bench.files = FailsOnce()
    return bench


def logs(bench, every, first=1):
    """The number of the call that fails, and a log of some segments with a transaction that was aborted and an open one."""
    for number in range(first, CALLS_MAX, every):
        bench.begin_anew()
        bench.files.fails_at, bench.files.failed = -1, False
        log = bench.open(SMALL)
        sequence = 0
        for one in range(16):
            bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            sequence += 2
            if one == 6:
                log.append_as_leader(bench.marker(commit=False), leader_epoch=1, now_ms=bench.now_ms, origin=1)
        log.sync()
        assert len(log.segments()) > 3
        yield number, log
        if not bench.files.failed:
            return
    raise AssertionError("the story never came to its end")


def agrees_with_disk(bench, log):
    """A start after a kill finds what the log in memory has, and no damage; then it goes on."""
    bench.files.fails_at = -1
    log.sync()
    expected = [segment.base_offset for segment in log.segments()], bench.headers(log), log.log_end_offset
    producers = log.producer_state.to_bytes()
    flushed = log.flushed_offset
    log.abandon()
    log = bench.open(SMALL, clean=False, recovery_point=flushed)
    assert log.recovery.damaged_offset is None
    assert ([segment.base_offset for segment in log.segments()], bench.headers(log), log.log_end_offset) == expected
    assert log.producer_state.to_bytes() == producers
    end_offset = log.log_end_offset
    while len(log.segments()) < 6:  # over every name that was cut away
        bench.append(log, 2)
    log.sync()
    headers = [header.base_offset for header in bench.headers(log, end_offset)]
    assert headers == list(range(end_offset, log.log_end_offset, 2))


SWEEPS = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])


@SWEEPS
@pytest.mark.parametrize("offset", [2, 13, 20])
def test_a_truncation_that_fails_anywhere_is_finished_before_the_next_append(faulty, offset, every):
    """It refuses appends until then, and no file of what was cut stays under a name of the log."""
    for number, log in logs(faulty, every, min(2, every)):
        whole = [header.base_offset for header in faulty.headers(log)]
        kept = [base for base, after in pairwise(whole) if after <= offset]
        faulty.files.fails_at = number
        try:
            log.truncate_to(offset)
        except OSError:
            with pytest.raises(KafkaError):
                faulty.append(log, 2)
            log.discard_unwritten()
            log.truncate_to(offset)
        assert [header.base_offset for header in faulty.headers(log)] == kept
        agrees_with_disk(faulty, log)


@SWEEPS
@pytest.mark.parametrize("kept", [False, True], ids=["removed", "kept-aside"])
def test_a_log_whose_new_beginning_fails_anywhere_refuses_appends_and_starts_again(faulty, kept, every):
    """Readers of the log in memory meet segments, never none; a start finds the log before or after, or its beginning."""
    for number, log in logs(faulty, every):
        before = [header.base_offset for header in faulty.headers(log)]
        faulty.files.fails_at = number
        begin = [500, [EpochEntry(1, 0)], None]
        try:
            if kept:
                log.quarantine_and_restart_at(*begin, now_ms=7, reason="the archive wins")
            else:
                log.truncate_fully_and_start_at(*begin)
        except OSError:
            with pytest.raises(KafkaError):
                faulty.append(log, 2)
            with pytest.raises(OSError, match="the disk fails"):
                log.discard_unwritten()
            assert log.segments()
            assert log.local_log_start_offset in (0, 500)
            log.abandon()
            faulty.files.fails_at = -1
            log = faulty.open(SMALL, clean=False)
            found = [header.base_offset for header in faulty.headers(log)]
            assert found == before[: len(found)]
        else:
            assert (log.local_log_start_offset, log.log_end_offset) == (500, 500)
        agrees_with_disk(faulty, log)


@SWEEPS
@pytest.mark.parametrize("is_full", [True, False])
def test_refused_batches_leave_no_segment_wherever_giving_them_up_fails(faulty, every, is_full):
    """A full disk refuses batches of several new segments; the first try to take these away fails, the second succeeds.

    It is the same where no write has failed: retention found no descriptor while batches were queued.
    """
    for number, log in logs(faulty, every):
        whole, written = faulty.headers(log), log.written_offset
        count = len(log.segments())
        while len(log.segments()) < count + 3:
            faulty.append(log, 2)
        if is_full:
            faulty.files.room = 1_700
            with pytest.raises(OSError, match="no space"):
                log.write_queued()
            faulty.files.room = 1 << 30
        faulty.files.fails_at = number
        try:
            log.discard_unwritten()
        except OSError:
            with pytest.raises(KafkaError):
                faulty.append(log, 2)
            log.discard_unwritten()
        assert (faulty.headers(log), log.log_end_offset) == (whole, written)
        agrees_with_disk(faulty, log)


def test_batches_that_find_no_room_have_no_segment_read_again(bench, full_disk, monkeypatch):
    """A full disk refuses one batch after the other: to read all of a large segment for each of them stopped the loop for seconds."""
    bench.files = full_disk
    log = bench.open()
    bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0)
    log.sync()
    expected = log.producer_state.to_bytes()
    full_disk.room = 0
    bench.append(log, 2, producer_id=7, producer_epoch=0, base_sequence=2)
    with pytest.raises(OSError, match="no space"):
        log.write_queued()
    monkeypatch.setattr(ProducerSnapshots, "state_at", None)
    log.discard_unwritten()
    assert log.producer_state.to_bytes() == expected


def test_a_producer_that_only_a_marker_tells_of_begins_with_its_refused_batch_again(bench, full_disk):
    """Any other would be taken, and that one be out of order for ever; the marker alone awaits none, and ends the waiting."""
    bench.files = full_disk
    log = bench.open()

    def end(producer_id):
        marker, origin = bench.marker(commit=True, producer_id=producer_id), AppendOrigin.COORDINATOR
        log.append_as_leader(marker, leader_epoch=1, now_ms=bench.now_ms, origin=origin)

    def refuse(append):
        bench.files.room = 0
        append()
        with pytest.raises(OSError, match="no space"):
            log.write_queued()
        bench.files.room = 1 << 30
        log.discard_unwritten()

    def send(producer_id, sequence):
        return bench.append(
            log, 2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    end(7)
    end(9)
    log.sync()
    for _ in range(2):
        refuse(lambda: send(7, 5))
    with pytest.raises(KafkaError) as failure:
        send(7, 7)
    assert failure.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(7, 5).duplicate
    log.sync()
    refuse(lambda: end(8))
    assert not send(8, 3).duplicate
    log.sync()
    refuse(lambda: send(9, 5))
    end(9)
    assert not send(9, 8).duplicate
