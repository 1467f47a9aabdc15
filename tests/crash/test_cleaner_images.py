"""Power cuts at any call of the cleaner: every image holds the old segments or the new ones, never less."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from stratalog.hot.cleaner.cleaner import Cleaning
from stratalog.hot.cleaner.offset_map import SLOT_BYTES
from stratalog.hot.cleaner.plan import cleanable_section
from stratalog.hot.cleaner_offsets import note_cleaner_offset
from stratalog.hot.config import LogConfig
from stratalog.hot.directory import LogDirectory
from stratalog.hot.log.log import AppendOrigin, Log
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers, iter_records
from stratalog.wire.topic import TopicPartition

PARTITION = TopicPartition("flights", 0)
TOPIC_ID = bytes(range(16))
ROOT = "/d"
HOME = "/d/flights-0"
IMAGES_BY_DEFAULT = 80
IMAGES_FULL = 2_000
RETENTION_MS = 50


@dataclass(frozen=True)
class Ack:
    """Everything below ``end`` was acknowledged."""

    end: int


@dataclass(frozen=True)
class Appended:
    """A record was given its offset."""

    offset: int
    key: bytes
    value: bytes | None
    producer: int


@dataclass(frozen=True)
class Ended:
    """The open transaction of a producer was ended by a marker at this offset."""

    offset: int
    producer: int
    commit: bool


def config() -> LogConfig:
    return LogConfig(
        segment_bytes=4_000,
        index_interval_bytes=200,
        cleanup_policy=frozenset({"compact"}),
        delete_retention_ms=RETENTION_MS,
        file_delete_delay_ms=0,
    )


class Workload:
    """Appends of few keys, syncs, rolls, cleanings, restarts."""

    def __init__(self, files, seed: int, *, careless: bool = False) -> None:
        self.files = files
        self.rng = random.Random(seed)
        self.now_ms = 1_000
        self.epoch = 0
        self.careless = careless
        self.sequences: dict[int, int] = {}
        self.directory = LogDirectory.load(ROOT, files)
        self.log = self.open()

    def open(self) -> Log:
        self.epoch += 1
        log = self.directory.open_log(PARTITION, TOPIC_ID, config(), now_ms=self.now_ms)
        self.directory.write_checkpoints({PARTITION: log})
        return log

    def append(self) -> None:
        self.now_ms += 1
        records = [
            Record(number, self.now_ms, b"%d" % self.rng.randrange(8), self.rng.choice([None, b"x" * 40, b"y" * 200]))
            for number in range(self.rng.randrange(1, 4))
        ]
        producer = self.rng.choice([0, 0, 7, 8])
        options = {}
        if producer:
            sequence = self.sequences.get(producer, 0)
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
            self.sequences[producer] = sequence + len(records)
        batch = build_batch(records, **options)
        info = self.log.append_as_leader(memoryview(batch), leader_epoch=self.epoch, now_ms=self.now_ms)
        for record in records:
            self.files.mark(Appended(info.base_offset + record.offset, record.key, record.value, producer))

    def end(self) -> None:
        producer, commit = self.rng.choice([7, 8]), self.rng.random() < 0.5
        entry = self.log.producer_state.entries.get(producer)
        if entry is None or entry.transaction_first_offset < 0:
            return
        marker = build_control_batch(
            int(commit), bytes(6), offset=0, timestamp_ms=self.now_ms, leader_epoch=0, producer_id=producer,
            producer_epoch=0, transactional=True,
        )  # fmt: skip
        info = self.log.append_as_leader(
            memoryview(marker), leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR
        )
        self.files.mark(Ended(info.base_offset, producer, commit))

    def sync(self) -> None:
        self.log.sync()
        self.log.producer_state.on_high_watermark(self.log.flushed_offset)
        self.files.mark(Ack(self.log.flushed_offset))

    def checkpoint(self) -> None:
        self.directory.write_checkpoints({PARTITION: self.log})

    def clean(self) -> None:
        self.sync()
        self.checkpoint()
        clean(self.directory, self.log, self.now_ms, self.rng, careless=self.careless)
        if self.rng.random() < 0.7:
            self.sync()
        self.now_ms += self.rng.choice([0, RETENTION_MS])
        self.log.take_removal(self.now_ms)
        removal = self.log.take_removal(self.now_ms + 1)
        if removal is not None:
            removal.run()

    def restart(self) -> None:
        self.directory.close({PARTITION: self.log}, broker_epoch=1)
        self.files.mark(Ack(self.log.flushed_offset))
        self.directory = LogDirectory.load(ROOT, self.files)
        self.log = self.open()

    def run(self, steps: int) -> None:
        choices = (
            [self.append] * 20 + [self.end] * 6 + [self.sync] * 4 + [self.clean] * 4 + [self.checkpoint, self.restart]
        )
        for _ in range(steps):
            self.rng.choice(choices)()
        self.clean()


def carry_out(swap, steps) -> None:
    """A swap's steps, with the syncs between them."""
    for _ in steps:
        swap.sync()


def clean(directory: LogDirectory, log: Log, now_ms: int, rng: random.Random, *, careless: bool = False) -> None:
    """The broker's steps, on one thread; ``careless`` gives the old segments up before the new one counts."""
    section = cleanable_section(
        log.compaction.cleanable_segments(), log.compaction.policy, cleaned_offset=directory.cleaner_offsets.get(PARTITION),
        log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset, limit_offset=stable_offset(log),
        now_ms=now_ms,
    )  # fmt: skip
    if section is None:
        return
    job = log.compaction.clean_job(
        section, now_ms=now_ms, map_bytes=rng.choice([3, 100]) * SLOT_BYTES, map_load_factor=1.0
    )
    cleaning = Cleaning(job, directory.files, lambda _: None)
    built = cleaning.build_map()
    if log.compaction.expect_gaps(built.end_offset, log.log_end_offset):
        directory.write_bounds({PARTITION: log})
    for number in range(len(built.groups)):
        cleaned = cleaning.clean_group(number)
        if not cleaned.changed:
            continue
        swap = log.compaction.begin_replace(cleaned)
        if careless:
            carry_out(swap, swap.retire())
        carry_out(swap, swap.stage())
        assert log.compaction.put_in(swap)
        if not careless:
            carry_out(swap, swap.retire())
        list(log.compaction.retire(swap))
    note_cleaner_offset(directory, PARTITION, built.end_offset)()


def stable_offset(log: Log) -> int:
    """Everything below is decided."""
    unstable = log.first_unstable_offset
    return log.flushed_offset if unstable is None else unstable


def read(log: Log) -> dict[int, Record]:
    """Every committed record by offset, as a reader from the start gets them."""
    found, offset = {}, log.local_log_start_offset
    coming = sorted(log.aborted_transactions(offset, log.log_end_offset), key=lambda one: one.first_offset)
    aborted: set[int] = set()
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=700, max_offset=log.log_end_offset)
        data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
        assert data, f"nothing to read at offset {offset} below {log.log_end_offset}"
        for position, header in iter_headers(data):
            assert header.last_offset >= offset
            while coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                found |= {record.offset: record for record in iter_records(data, position)}
        offset = read.next_offset
    return found


def check(log: Log, journal) -> None:
    """No acknowledged record is lost, every record is as it was appended, and the newest of each key counts."""
    acknowledged = max((event.mark.end for event in journal if isinstance(event.mark, Ack)), default=0)
    appended = {event.mark.offset: event.mark for event in journal if isinstance(event.mark, Appended)}
    assert log.recovery.damaged_offset is None, log.recovery.reason
    assert log.log_end_offset >= acknowledged
    stable = stable_offset(log)
    records = {offset: record for offset, record in read(log).items() if offset < stable}
    void = voided(journal, stable)
    for offset, record in records.items():
        assert (record.key, record.value) == (appended[offset].key, appended[offset].value)
        assert offset not in void, "an aborted record is served"
    expected = {
        one.key: one.value for offset, one in sorted(appended.items()) if offset < stable and offset not in void
    }
    seen = {record.key: record.value for _, record in sorted(records.items())}
    assert {k: v for k, v in seen.items() if v} == {k: v for k, v in expected.items() if v}
    for offset in range(0, log.log_end_offset, 5):
        read_ = log.read(offset, max_bytes=1, max_offset=log.log_end_offset)
        assert read_.next_offset > offset


def voided(journal, stable: int) -> set[int]:
    """The offsets below the last stable one whose transactions were aborted."""
    opened: dict[int, list[int]] = {}
    void: set[int] = set()
    for event in journal:
        match event.mark:
            case Appended(offset, _, _, producer) if producer:
                opened.setdefault(producer, []).append(offset)
            case Ended(_, producer, commit):
                ended = opened.pop(producer, [])
                void.update(() if commit else (offset for offset in ended if offset < stable))
    return void


def recover(files) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.load(ROOT, files)
    log = directory.open_log(PARTITION, TOPIC_ID, config(), now_ms=1)
    log.sync()
    log.producer_state.on_high_watermark(log.flushed_offset)
    left = [entry.name for entry in files.scan(HOME) if entry.name.endswith((".swap", ".cleaned", ".deleted"))]
    assert left == []
    return directory, log


def try_images(journaled, power_cut, count: int, seed: int, *, careless: bool = False) -> None:
    done = 0
    while done < count:
        files, workload = journaled(), seed + done
        Workload(files, workload, careless=careless).run(90)
        rng = random.Random(workload)
        renames = [n for n, event in enumerate(files.journal) if event.target.endswith((".swap", ".deleted"))]
        for _ in range(10):
            index = rng.choice(renames) + rng.randrange(-2, 12) if rng.random() < 0.8 else rng.randrange(9999)
            index = min(max(index, 0), len(files.journal))
            image = power_cut(files, None, index, rng)
            frozen = power_cut(image, image, 0, rng)
            try:
                directory, log = recover(image)
                check(log, files.journal[:index])
                if rng.random() < 0.5:
                    again = power_cut(image, frozen, rng.randrange(len(image.journal) + 1), rng)
                    directory, log = recover(again)
                    check(log, files.journal[:index])
                clean(directory, log, 10**9, rng)
                check(log, files.journal[:index])
            except Exception as error:
                raise AssertionError(f"workload {workload}, event {index}: {error!r}") from error
            done += 1


def test_a_power_cut_leaves_the_old_segments_or_the_new(journaled, power_cut):
    """Eighty images, most of them cut within a swap, half of them cut again during recovery."""
    try_images(journaled, power_cut, IMAGES_BY_DEFAULT, seed=1)


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_two_thousand_power_cuts_leave_the_old_segments_or_the_new(journaled, power_cut):
    """The full run of `make crash`."""
    try_images(journaled, power_cut, IMAGES_FULL, seed=10_000)


def test_giving_the_old_segments_up_first_is_caught(journaled, power_cut):
    """Negative control: a swap in the wrong order fails this suite."""
    with pytest.raises(AssertionError, match="workload"):
        try_images(journaled, power_cut, IMAGES_BY_DEFAULT, seed=1, careless=True)
