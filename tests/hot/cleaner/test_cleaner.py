"""Tests of hot/cleaner/cleaner.py: whole cleanings, against a model of what a reader must find."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.hot.cleaner.offset_map import SLOT_BYTES
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import AppendOrigin
from stratalog.hot.state.producer_snapshot import snapshot_from_bytes
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers, iter_records
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1_000
CONFIG = LogConfig(
    segment_bytes=20_000,
    index_interval_bytes=200,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=RETENTION_MS,
    file_delete_delay_ms=0,
)


@dataclass
class Model:
    """Everything that was ever appended, as a reader of committed records sees it in the end."""

    records: dict[int, Record] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    void: set[int] = field(default_factory=set)

    def latest(self, end: int) -> dict[bytes, tuple[int, bytes | None]]:
        """Key to the newest committed record below ``end``."""
        undecided = set(itertools.chain.from_iterable(self.open.values()))
        return {
            record.key: (offset, record.value)
            for offset, record in sorted(self.records.items())
            if offset < end and offset not in self.void and offset not in undecided and record.key is not None
        }


class Workload:
    """A compacted log, its model, and the checks between them."""

    def __init__(self, bench, compactor) -> None:
        self.bench = bench
        self.compactor = compactor
        self.model = Model()
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}
        self.epoch = 0
        self.log = self.reopen(clean=True)

    def reopen(self, *, clean: bool):
        if self.epoch:
            self.log.close() if clean else self.log.sync()
        self.epoch += 1
        point = self.log.flushed_offset if self.epoch > 1 else 0
        self.log = self.bench.open(CONFIG, clean=clean, recovery_point=point if clean else point // 2)
        self.log.sync()
        self.log.producer_state.on_high_watermark(self.log.flushed_offset)
        return self.log

    def append(self, producer: int, keys: list[int], codec: Codec) -> None:
        self.now_ms += 1
        records = [
            Record(
                number,
                self.now_ms + number % 3,
                b"key-of-more-than-fifteen-bytes-%d" % (key // 2) if key % 3 else b"k%d" % (key // 2),
                None if key % 7 == 0 else b"value %d.%d " % (key, self.log.log_end_offset) * 5,
            )
            for number, key in enumerate(keys)
        ]
        options = {}
        if producer:
            sequence = self.sequences.get(producer, 0)
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer] = sequence + len(records)
            options["transactional"] = producer > 1
        info = self.log.append_as_leader(
            memoryview(build_batch(records, codec=codec, **options)), leader_epoch=self.epoch, now_ms=self.now_ms
        )
        for record in records:
            offset = info.base_offset + record.offset
            self.model.records[offset] = record._replace(offset=offset)
            if producer > 1:
                self.model.open.setdefault(producer, []).append(offset)

    def end(self, producer: int, *, commit: bool) -> None:
        if producer not in self.model.open:
            return
        marker = build_control_batch(
            int(commit), b"\0\0\0\0\0\1", offset=0, timestamp_ms=self.now_ms, leader_epoch=0, producer_id=producer,
            producer_epoch=0, transactional=True,
        )  # fmt: skip
        info = self.log.append_as_leader(
            memoryview(marker), leader_epoch=self.epoch, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR
        )
        offsets = self.model.open.pop(producer)
        if not commit:
            self.model.void.update(offsets)
        self.log.producer_state.on_high_watermark(info.last_offset + 1)

    def batches(self, offset: int, end: int):
        while offset < end:
            found = self.log.read(offset, max_bytes=3_000, max_offset=end)
            data = self.bench.content(found)
            for position, header in iter_headers(data):
                assert header.last_offset >= offset
                yield header, data[position : position + header.size_bytes]
            if found.next_offset == offset:
                return
            offset = found.next_offset

    def read_committed(self, offset: int) -> dict[bytes, bytes | None]:
        """The records that a consumer with isolation level read_committed ends with."""
        stable = self.log.first_unstable_offset
        end = self.log.written_offset if stable is None else stable
        coming = sorted(self.log.aborted_transactions(offset, end), key=lambda one: one.first_offset)
        aborted: set[int] = set()
        seen: dict[bytes, bytes | None] = {}
        for header, batch in self.batches(offset, end):
            while coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
                continue
            for record in iter_records(batch):
                original = self.model.records[record.offset]
                assert record == original, "a record was changed"
                if record.offset >= offset and not (header.is_transactional and header.producer_id in aborted):
                    seen[record.key] = record.value
        return seen

    def check(self, offset: int = 0) -> None:
        """A reader from ``offset`` ends with the newest value of every key that has one from there on."""
        stable = self.log.first_unstable_offset
        end = self.log.written_offset if stable is None else stable
        expected = {key: value for key, (at, value) in self.model.latest(end).items() if at >= offset}
        seen = self.read_committed(offset)
        assert {k: v for k, v in seen.items() if v is not None} == {k: v for k, v in expected.items() if v is not None}

    def clean(self) -> None:
        readers = [0, self.log.log_end_offset // 2]

        def between() -> None:
            for offset in readers:
                self.check(offset)

        self.compactor.clean(self.log, now_ms=self.now_ms, between=between)
        self.log.sync()

    def producers(self):
        entries = snapshot_from_bytes(self.log.producer_state.to_bytes())
        return {
            one.producer_id: (one.producer_epoch, one.last_sequence, one.last_offset, one.transaction_first_offset)
            for one in entries
        }


KEYS = st.lists(st.integers(0, 30), min_size=1, max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([0, 1, 2, 3]), KEYS, st.sampled_from(list(Codec))),
    st.tuples(st.just("append"), st.sampled_from([0, 2]), KEYS, st.just(Codec.NONE)),
    st.tuples(st.just("end"), st.sampled_from([2, 3]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.integers(1, 40)),
    st.tuples(st.just("wait"), st.sampled_from([10, RETENTION_MS])),
    st.tuples(st.just("reopen"), st.booleans()),
)


def carry_out(work: Workload, step: tuple) -> None:
    """One step of a random run."""
    kind, *arguments = step
    if kind == "append":
        work.append(*arguments)
    elif kind == "end":
        work.end(arguments[0], commit=arguments[1])
    elif kind == "wait":
        work.now_ms += arguments[0]
    elif kind == "reopen":
        work.reopen(clean=arguments[0])
    else:
        work.log.write_queued()
        work.log.roll()
        if kind == "clean":
            work.compactor.map_bytes = arguments[0] * SLOT_BYTES
            work.clean()


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_readers_end_with_the_newest_value_of_each_key(steps, tmp_path_factory, compactor_type, bench_type):
    """From any offset, before, during and after cleanings with maps of any size; producers are remembered."""
    work = Workload(bench_type(str(tmp_path_factory.mktemp("log"))), compactor_type(RealFilesystem()))
    for step in steps:
        carry_out(work, step)
    work.log.sync()
    work.log.roll()
    before = work.producers()
    for _ in range(2):
        work.clean()
        work.now_ms += RETENTION_MS
    for offset in range(0, work.log.log_end_offset + 1, 3):
        work.check(offset)
    assert work.producers() == before
    work.reopen(clean=False)
    work.check()
    assert work.producers() == before


@pytest.fixture
def work(bench, compactor) -> Workload:
    return Workload(bench, compactor)


def put(work: Workload, *keys: int, producer: int = 0, codec: Codec = Codec.NONE, roll: bool = True) -> None:
    """A batch with these keys, in a segment of its own."""
    work.append(producer, list(keys), codec)
    if roll:
        work.log.roll()


def stored(work: Workload) -> list[int]:
    """The offsets of the records that are still there."""
    end = work.log.written_offset
    return [
        record.offset
        for header, batch in work.batches(0, end)
        if not header.is_control
        for record in iter_records(batch)
    ]


def test_an_older_record_of_a_key_goes(work):
    """Offsets of what stays are kept, the log end too."""
    put(work, 2, 4, 2)
    put(work, 2, 8)
    work.clean()
    assert stored(work) == [1, 3, 4]
    assert work.log.log_end_offset == 5
    assert work.compactor.cleaned_offset == 5


def test_a_full_map_cleans_up_to_where_it_is_full(work):
    """And the next run goes on from there."""
    put(work, 2, 4, 8, 10, 2, 4, 8, 10)
    work.compactor.map_bytes = 2 * SLOT_BYTES + 8
    work.clean()
    assert work.compactor.cleaned_offset == 2
    assert stored(work) == [0, 1, 2, 3, 4, 5, 6, 7]
    for _ in range(5):
        work.clean()
    assert work.compactor.cleaned_offset == 8
    assert stored(work) == [4, 5, 6, 7]


def test_an_aborted_transaction_of_the_clean_part_makes_no_later_one_void(work):
    """Its marker lies before the part that the map is made of; the tombstone that its producer commits counts."""
    put(work, 29)
    put(work, 4, producer=2)
    work.end(2, commit=False)
    work.log.roll()
    work.clean()
    assert work.log.aborted_transactions(0, work.log.log_end_offset)
    put(work, 28, producer=2)  # the tombstone of 29
    work.end(2, commit=True)
    work.log.roll()
    for _ in range(3):
        work.clean()
        work.now_ms += RETENTION_MS
        work.compactor.cleaned_offset -= 1
    assert stored(work) == []
    work.check()


def test_small_segments_become_one(work):
    """As large together as ``segment.bytes``; the files of the others go."""
    for key in (2, 4, 8, 10):
        put(work, key)
    assert len(work.log.segments()) == 5
    work.clean()
    assert [segment.base_offset for segment in work.log.segments()] == [0, 4]
    work.log.take_removal(1)
    work.log.take_removal(2).run()
    names = {entry.name for entry in work.bench.files.scan(work.bench.directory)}
    assert {name for name in names if name.endswith(".log")} == {f"{0:020d}.log", f"{4:020d}.log"}
    assert {name for name in names if name.endswith(".snapshot")} == {f"{4:020d}.snapshot"}


def test_a_clean_group_is_not_written_again(work):
    """A segment whose records all stay keeps its files."""
    put(work, 2, 4)
    [once] = work.compactor.clean(work.log, now_ms=work.now_ms)
    assert not once.changed
    assert not [entry for entry in work.bench.files.scan(work.bench.directory) if entry.name.endswith(".cleaned")]


def test_the_last_batch_of_the_section_stays_as_a_header(work):
    """So a reader of a log whose end was cleaned away gets to the log end. The first one stays, too: an epoch begins there."""
    put(work, 7, roll=False)
    work.append(0, [7], Codec.NONE)
    work.log.roll()
    work.clean()
    work.now_ms += RETENTION_MS
    work.compactor.cleaned_offset = None
    work.clean()
    assert stored(work) == []
    headers = [header for header, _ in work.batches(0, work.log.written_offset)]
    assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
        (0, 0, 0),
        (1, 1, 0),
    ]


def test_a_corrupt_batch_stops_the_cleaning(work):
    """No file changes; the error for the owner of the partition names the damage and its place."""
    put(work, 2, 4, 2)
    put(work, 2)
    segment = work.log.segments()[0]
    with Path(segment.path).open("r+b") as file:
        file.seek(70)
        file.write(b"\xff")
    with pytest.raises(Corrupt, match=r"00000000000000000000.log, position 0"):
        work.clean()
    assert len(work.log.segments()) == 3


def test_a_group_that_cannot_be_finished_leaves_no_file(work):
    """Its room is needed: perhaps the disk is full."""
    put(work, 2, 2)
    put(work, 4)
    cleaning = work.compactor.cleaning(work.log, now_ms=work.now_ms)
    cleaning.build_map()
    Path(work.log.segments()[0].path).rename(f"{work.bench.directory}/away")
    with pytest.raises(FileNotFoundError):
        cleaning.clean_group(0)
    assert not [entry for entry in work.bench.files.scan(work.bench.directory) if entry.name.endswith(".cleaned")]


def test_reads_and_writes_are_paced(work):
    """Twice what is read, and what is written."""
    put(work, 2, 4, 2)
    put(work, 2, 8)
    before = work.log.size_bytes
    work.clean()
    assert sum(work.compactor.paced) == 2 * before + work.log.size_bytes


def test_files_of_an_abandoned_cleaning_are_removed(work):
    """When the next one begins."""
    put(work, 2, 2)
    put(work, 4)
    cleaning = work.compactor.cleaning(work.log, now_ms=work.now_ms)
    cleaning.build_map()
    cleaning.clean_group(0)
    work.bench.files.open_append(f"{work.bench.directory}/{7:020d}.log.cleaned")
    cleaning = work.compactor.cleaning(work.log, now_ms=work.now_ms)
    cleaning.build_map()
    assert not [entry for entry in work.bench.files.scan(work.bench.directory) if entry.name.endswith(".cleaned")]


def test_an_emptied_segment_keeps_one_header(work):
    """A small one that cannot be joined with its neighbours: it still says where it ended, and can be archived."""
    work.log.update_config(replace(CONFIG, segment_bytes=300))
    put(work, 2, 2)
    put(work, 2)
    first, _ = work.compactor.clean(work.log, now_ms=work.now_ms)
    assert (first.base_offset, first.size_bytes) == (0, 61)
    headers = [header for header, _ in work.batches(0, work.log.written_offset)]
    assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
        (0, 1, 0),
        (2, 2, 1),
    ]
    assert stored(work) == [2]


def test_an_index_of_aborted_transactions_is_replaced_by_an_empty_one(work):
    """A start that completes the swap takes one that waits for no new one to be new: see `hot.recovery.interrupted`."""
    put(work, 3, roll=False)
    put(work, 4, producer=2, roll=False)
    work.end(2, commit=False)
    put(work, 4, producer=2, roll=False)
    work.end(2, commit=True)
    work.log.roll()
    put(work, 4)
    work.log.sync()
    path = f"{work.log.directory}/{0:020d}.txnindex"
    assert work.bench.files.read_bytes(path)
    for _ in range(3):
        work.clean()
        work.now_ms += 2 * RETENTION_MS
        work.compactor.cleaned_offset = None
    assert work.bench.files.read_bytes(path) == b""
    assert work.log.aborted_transactions(0, work.log.log_end_offset) == []
