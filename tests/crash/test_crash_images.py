"""Power cuts at any call: every image opens, nothing acknowledged is lost, no offset names two records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import AppendOrigin, Log
from stratalog.hot.recovery.replay import replay_steps
from stratalog.hot.state.producer_state import ProducerStateManager
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers
from stratalog.wire.topic import TopicPartition

PARTITION = TopicPartition("flights", 0)
TOPIC_ID = bytes(range(16))
ROOT = "/d"
IMAGES_BY_DEFAULT = 60
IMAGES_FULL = 2_000


@dataclass(frozen=True)
class Ack:
    """Producers were told that everything below ``end`` is safe."""

    end: int


@dataclass(frozen=True)
class Deleting:
    """Retention is about to remove what lies below ``offset``."""

    offset: int


@dataclass(frozen=True)
class Truncating:
    """A new leader's history makes everything from ``offset`` on void."""

    offset: int


@dataclass(frozen=True)
class Appended:
    """These bytes were given these offsets."""

    base: int
    next: int
    data: bytes


@dataclass
class Known:
    """The promises that held when the power went."""

    acknowledged: int = 0
    deleted_below: int = 0
    batches: dict[int, set[bytes]] = field(default_factory=dict)
    """Base offset to the batches that were appended there, ever."""
    last: dict[int, bytes] = field(default_factory=dict)
    """Base offset to the batch that counts."""


def config() -> LogConfig:
    return LogConfig(segment_bytes=9_000, index_interval_bytes=300, file_delete_delay_ms=0, retention_ms=-1)


class Workload:
    """One run of a broker's log: appends, syncs, rolls, deletions, checkpoints, clean restarts."""

    def __init__(self, files, seed: int, *, acknowledge_early: bool = False) -> None:
        self.files = files
        self.rng = random.Random(seed)
        self.now_ms = 1_700_000_000_000
        self.epoch = 0
        self.sequence = 0
        self.open_transaction = False
        self.acknowledge_early = acknowledge_early
        self.directory = LogDirectory.load(ROOT, files)
        self.log = self.open()

    def open(self) -> Log:
        self.epoch += 1
        log = self.directory.open_log(PARTITION, TOPIC_ID, config(), now_ms=self.now_ms)
        self.directory.write_checkpoints({PARTITION: log})
        return log

    def append(self) -> None:
        self.now_ms += 10
        kind = self.rng.random()
        count = self.rng.randrange(1, 6)
        payload = bytes([self.rng.randrange(65, 91)]) * self.rng.randrange(1, 400)
        records = [Record(i, self.now_ms + i, b"key", payload) for i in range(count)]
        origin = AppendOrigin.CLIENT
        if kind < 0.4:
            batch = build_batch(records)
        elif kind < 0.85 or not self.open_transaction:
            batch = build_batch(
                records,
                producer_id=7,
                producer_epoch=0,
                base_sequence=self.sequence,
                transactional=True,
            )
            self.sequence += count
            self.open_transaction = True
        else:
            value = b"\0\0\0\0\0\1"
            batch = build_control_batch(
                self.rng.randrange(2), value, offset=0, timestamp_ms=self.now_ms, leader_epoch=0,
                producer_id=7, producer_epoch=0, transactional=True,
            )  # fmt: skip
            origin = AppendOrigin.COORDINATOR
            self.open_transaction = False
        info = self.log.append_as_leader(memoryview(batch), leader_epoch=self.epoch, now_ms=self.now_ms, origin=origin)
        self.files.mark(Appended(info.base_offset, info.last_offset + 1, bytes(batch)))

    def write(self) -> None:
        self.log.write_queued()
        if self.acknowledge_early:
            self.files.mark(Ack(self.log.written_offset))

    def sync(self) -> None:
        self.log.write_queued()
        ticket = self.log.begin_sync()
        if ticket is None:
            return
        if self.rng.random() < 0.3:
            self.append()
            self.log.write_queued()  # a write under way while the disk syncs is not part of the cycle
        ticket.run()
        self.log.finish_sync(ticket)
        self.files.mark(Ack(self.log.flushed_offset))

    def delete(self) -> None:
        frozen = [segment for segment in self.log.segments() if not segment.active]
        if frozen:
            offset = self.rng.choice(frozen).end_offset
            self.files.mark(Deleting(offset))
            self.log.delete_local_before(offset)
            self.log.take_removal(self.now_ms)
            removal = self.log.take_removal(self.now_ms + 1)
            if removal is not None:
                removal.run()

    def truncate(self) -> None:
        low = max(self.log.flushed_offset - 10, self.log.local_log_start_offset + 1)
        if low < self.log.log_end_offset:
            offset = self.rng.randrange(low, self.log.log_end_offset)
            self.log.write_queued()
            self.files.mark(Truncating(self.border(offset)))
            while (cut := self.log.next_cut(offset)) is None or cut > offset:  # as a follower does
                if cut is not None:
                    self.log.truncate_to(cut)
            self.log.truncate_to(offset)
            self.directory.write_checkpoints({PARTITION: self.log})
            self.epoch += 1
            producer = self.log.producer_state.entries.get(7)
            self.open_transaction = producer is not None and producer.transaction_first_offset >= 0
            self.sequence = 0 if producer is None else producer.last_sequence + 1

    def border(self, offset: int) -> int:
        found = self.log.read(offset, max_bytes=1, max_offset=self.log.log_end_offset)
        return next(iter_headers(content(found)))[1].base_offset

    def checkpoint(self) -> None:
        self.directory.write_checkpoints({PARTITION: self.log})

    def restart(self) -> None:
        self.directory.close({PARTITION: self.log}, broker_epoch=1)
        self.files.mark(Ack(self.log.flushed_offset))
        self.directory = LogDirectory.load(ROOT, self.files)
        self.log = self.open()

    def run(self, steps: int) -> None:
        choices = [self.append] * 24 + [self.write] * 6 + [self.sync] * 5 + [self.checkpoint, self.delete]
        choices += [self.truncate, self.restart]
        for _ in range(steps):
            self.rng.choice(choices)()
        self.sync()


def content(found) -> bytes:
    return b"".join(part.file.pread(part.length, part.position) for part in found.parts)


def known_at(files, index: int) -> Known:
    known = Known()
    for event in files.journal[:index]:
        match event.mark:
            case Ack(end):
                known.acknowledged = max(known.acknowledged, end)
            case Deleting(offset):
                known.deleted_below = max(known.deleted_below, offset)
            case Truncating(offset):
                known.acknowledged = min(known.acknowledged, offset)
                known.last = {base: data for base, data in known.last.items() if base < offset}
            case Appended(base, _, data):
                known.batches.setdefault(base, set()).add(data)
                known.last[base] = data
    return known


def check(log: Log, known: Known) -> None:
    """The promises, and that indexes and states are what the batches say."""
    start, end = log.local_log_start_offset, log.log_end_offset
    assert end >= known.acknowledged, f"acknowledged up to {known.acknowledged}, recovered up to {end}"
    assert start <= known.deleted_below, "records vanished without a deletion"
    offset, headers = start, []
    while offset < end:
        found = log.read(offset, max_bytes=1 << 20, max_offset=end)
        data = content(found)
        for position, header in iter_headers(data):
            batch = data[position : position + header.size_bytes]
            assert header.base_offset == offset, "a hole, or a batch out of place"
            assert batch in known.batches[offset], "a batch that was not appended there"
            if offset < known.acknowledged:
                assert batch == known.last[offset], "an acknowledged batch changed"
            headers.append(header)
            offset = header.next_offset
        assert found.next_offset == offset
    for header in headers[:: max(1, len(headers) // 8)]:
        for wanted in (header.base_offset, header.last_offset):
            found = log.read(wanted, max_bytes=1, max_offset=end)
            assert next(iter_headers(content(found)))[1] == header
    check_state(log, start, end)


def check_state(log: Log, start: int, end: int) -> None:
    if start == 0:
        fresh = ProducerStateManager()
        list(replay_steps(fresh, log._segments, end))
        assert fresh.to_bytes() == log.producer_state.to_bytes(), "the producer state is not what the log says"
        opened = [first for first, _ in fresh.open_transactions()]
        assert opened == [first for first, _ in log.producer_state.open_transactions()]
    entries = log.leader_epochs.entries
    assert list(entries) == sorted(entries)
    assert all(entry.start_offset <= max(end - 1, start) for entry in entries)
    assert log.flushed_offset == log.written_offset == end


def recover(files) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.load(ROOT, files)
    log = directory.open_log(PARTITION, TOPIC_ID, config(), now_ms=1)
    log.sync()  # nothing is served before
    return directory, log


def try_images(journaled, power_cut, count: int, seed: int, *, acknowledge_early: bool = False) -> int:
    """Run workloads and check images of them; returns how many images were checked."""
    done = 0
    while done < count:
        files, workload = journaled(), seed + done
        Workload(files, workload, acknowledge_early=acknowledge_early).run(120)
        rng = random.Random(workload)
        for _ in range(min(10, count - done)):
            index = rng.randrange(len(files.journal) + 1)
            image = power_cut(files, None, index, rng)
            frozen = power_cut(image, image, 0, rng)
            known = known_at(files, index)
            try:
                _, log = recover(image)
                check(log, known)
                if rng.random() < 0.5:
                    again = power_cut(image, frozen, rng.randrange(len(image.journal) + 1), rng)
                    _, log = recover(again)
                    check(log, known)
                log.append_as_leader(memoryview(build_batch([Record(0, 1, None, b"after")])), leader_epoch=99, now_ms=1)
                log.sync()
            except Exception as error:
                raise AssertionError(f"workload {workload}, event {index}: {error!r}") from error
            done += 1
    return done


def test_a_power_cut_loses_nothing_acknowledged(journaled, power_cut):
    """Sixty images of cut power, half of them cut again during recovery, keep every promise."""
    assert try_images(journaled, power_cut, IMAGES_BY_DEFAULT, seed=1) == IMAGES_BY_DEFAULT


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_two_thousand_power_cuts_lose_nothing_acknowledged(journaled, power_cut):
    """The full run of `make crash`."""
    assert try_images(journaled, power_cut, IMAGES_FULL, seed=10_000) == IMAGES_FULL


def test_acknowledging_before_the_sync_is_caught(journaled, power_cut):
    """Negative control: a broker that answers when bytes are only in the page cache fails this suite."""
    with pytest.raises(AssertionError, match="acknowledged up to"):
        try_images(journaled, power_cut, IMAGES_BY_DEFAULT, seed=1, acknowledge_early=True)
