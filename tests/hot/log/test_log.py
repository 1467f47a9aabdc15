"""Tests of hot/log/log.py: a whole log against a list, and its life from open to close."""

from __future__ import annotations

import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.hot.storage.filesystem import RealFilesystem
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


AgainstAList.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestAgainstAList = AgainstAList.TestCase


def test_new_settings_hold_from_the_next_append_on(bench):
    """Also for the segment that is active now."""
    log = bench.open()
    bench.append(log)
    log.update_config(LogConfig(segment_bytes=len(bench.batch()) + 1))
    assert bench.append(log).rolled
