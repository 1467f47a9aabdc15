"""Tests of hot/log.py: a whole log against a list, and its life from open to close."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stratalog.hot.config import LogConfig
from stratalog.hot.filesystem import RealFilesystem
from stratalog.hot.log import Log
from stratalog.hot.segment_cache import SegmentCache
from stratalog.wire.batch import Record, build_batch, iter_headers
from stratalog.wire.topic import TopicPartition

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)


class AgainstAList(RuleBasedStateMachine):
    """Every operation on a log and on a list of (base, next, bytes); reads must agree at every offset."""

    @initialize()
    def begin(self) -> None:
        self.root = tempfile.mkdtemp()
        self.batches: list[tuple[int, int, bytes]] = []
        self.start = self.end = 0
        self.epoch = 1
        self.open(clean=True)

    def open(self, *, clean: bool) -> None:
        self.log = Log.open(
            f"{self.root}/m-0", TopicPartition("m", 0), bytes(16), CONFIG, files=RealFilesystem(), now_ms=1,
            clean=clean, log_start_offset=self.start, cache=SegmentCache(open_max=2),
        )  # fmt: skip
        assert self.log.recovery.damaged_offset is None

    @rule(count=st.integers(1, 4), size=st.integers(0, 130))
    def append(self, count, size) -> None:
        batch = build_batch([Record(i, 5 + i, None, bytes(size)) for i in range(count)])
        info = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=1)
        assert info.base_offset == self.end
        self.end += count
        self.batches.append((info.base_offset, self.end, bytes(batch)))

    @rule()
    def write(self) -> None:
        self.log.write_queued()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def sync(self) -> None:
        self.log.sync()
        assert self.log.flushed_offset == self.end

    @rule(clean=st.booleans())
    def restart(self, clean) -> None:
        if clean:
            self.log.close()
        else:
            self.log.write_queued()
            self.log.abandon()
        self.open(clean=clean)
        assert self.log.log_end_offset == self.log.written_offset == self.end
        self.log.sync()
        assert self.log.flushed_offset == self.end

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncate(self, data) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if batch[1] <= offset]
        self.end = self.batches[-1][1] if self.batches else self.start
        assert self.end == self.log.log_end_offset
        self.epoch += 1

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete(self, data) -> None:
        self.log.write_queued()
        self.log.delete_local_before(data.draw(st.integers(self.start, self.end)))
        self.log.take_removal(1)
        removal = self.log.take_removal(2)
        if removal is not None:
            removal.run()
        self.start = self.log.log_start_offset
        self.batches = [batch for batch in self.batches if batch[1] > self.start]

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start(self.start)
        self.batches = [batch for batch in self.batches if batch[1] > self.start]

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data(), max_bytes=st.integers(1, 2000))
    def read(self, data, max_bytes) -> None:
        self.log.write_queued()
        offset = data.draw(st.integers(self.start, self.end))
        found = self.log.read(offset, max_bytes=max_bytes, max_offset=self.end)
        content = b"".join(part.file.pread(part.length, part.position) for part in found.parts)
        expected = b"".join(batch for _, after, batch in self.batches if after > offset)
        assert expected.startswith(content)
        assert bool(content) == bool(expected)
        sizes = [header.size_bytes for _, header in iter_headers(content)]
        assert sum(sizes) == len(content)
        assert len(content) <= max_bytes or len(sizes) == 1

    @invariant()
    def offsets_are_ordered(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.local_log_start_offset <= max(log.log_end_offset, log.log_start_offset)
        assert log.flushed_offset <= log.written_offset <= log.log_end_offset == self.end
        assert log.log_start_offset == self.start

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


AgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestAgainstAList = AgainstAList.TestCase


def test_a_closed_log_is_opened_again_as_it_was(bench):
    """Offsets, epochs, producers; the files of a clean stop."""
    log = bench.open()
    bench.append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0)
    log.close()
    assert sorted(entry.name for entry in Path(bench.directory).iterdir()) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{3:020d}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    log = bench.open()
    assert (log.log_end_offset, log.flushed_offset, log.leader_epochs.latest_epoch) == (3, 3, 1)
    assert log.producer_state.entries[7].last_sequence == 2


def test_closing_an_untouched_log_writes_nothing(bench, monkeypatch):
    """Thousands of idle partitions stop at once."""
    log = bench.open()
    bench.append(log)
    log.close()
    log = bench.open()
    monkeypatch.setattr(os, "writev", None)
    monkeypatch.setattr(os, "fdatasync", None)
    log.close()


def test_a_closed_log_takes_no_appends(bench):
    """Whoever still holds it is told."""
    from stratalog.wire.errors import KafkaError

    log = bench.open()
    log.close()
    with pytest.raises(KafkaError, match="closed"):
        bench.append(log)


def test_idle_producers_are_forgotten_by_the_tick(bench):
    """producer.id.expiration.ms after their last batch."""
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    log.tick(bench.now_ms)
    assert 7 in log.producer_state.entries
    log.tick(bench.now_ms + 600_000)
    assert log.producer_state.entries == {}


def test_a_clock_that_is_set_back_delays_no_expiry(bench):
    """The next look is ten minutes away at most, whatever the date."""
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    log.tick(bench.now_ms + 86_400_000)
    bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    log.tick(bench.now_ms + 5_000)
    assert log.producer_state.entries == {}


def test_a_retry_of_old_events_finds_its_first_attempt_after_a_roll_and_a_restart(bench):
    """Expiry goes by record time; loads of old events would otherwise lose their idempotence at once."""
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    first = bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0, timestamp_ms=1)
    log.roll()
    log.close()
    log = bench.open(LogConfig(producer_id_expiration_ms=1000))
    log.tick(bench.now_ms)
    again = bench.append(log, producer_id=7, producer_epoch=0, base_sequence=0, timestamp_ms=1)
    assert (again.base_offset, again.duplicate) == (first.base_offset, True)
