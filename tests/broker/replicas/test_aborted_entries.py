"""Aborted transactions in answers: each once and by first offset, wherever objects, chunks and merges have their borders."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.aborted_entries import aborted_entries
from stratalog.broker.views.archived_log import archived_log
from stratalog.hot.segments.transaction_index import AbortedTxn
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages.commands import MergeObjects
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.fetch_budgets import FetchRates
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers, iter_records
from stratalog.wire.records.control import ControlType, encode_key
from stratalog.wire.topic import TopicPartition

PARTITION = PartitionId("t", bytes(16), 0)
US = Claimant(0, 1, bytes([1] * 16))


def test_each_transaction_is_named_once_by_first_offset():
    """A transaction found thrice with different ends is one; another producer's with the same first offset is another."""
    found = [
        AbortedTransaction(2, 30, 45, 0),
        AbortedTransaction(1, 10, 35, 0),
        AbortedTxn(1, 10, 35, 36),
        AbortedTransaction(1, 10, 36, 0),
        AbortedTransaction(7, 10, 20, 0),
    ]
    assert aborted_entries(found, 0, 100) == [(1, 10), (7, 10), (2, 30)]


@pytest.mark.parametrize(("start", "end", "named"), [(0, 10, []), (0, 11, [(1, 10)]), (20, 90, [(1, 10)]), (21, 90, [])])  # fmt: skip
def test_only_what_touches_the_range_is_named(start, end, named):
    """Its first offset and that of its marker belong to it; the end of the range does not belong to the range."""
    assert aborted_entries([AbortedTransaction(1, 10, 20, 0)], start, end) == named


class Log:
    """A log of interleaved transactions: batches, the aborted transactions, and the offsets that committed readers see."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.aborted: list[AbortedTransaction] = []
        self.visible: list[int] = []
        self.end = 0
        self._open: dict[int, list[int]] = {}

    def step(self, producer_id: int, what: str) -> None:
        """Records of the producer, or the end of its transaction, if it has one."""
        if what == "records":
            offsets = [self.end, self.end + 1]
            self._open.setdefault(producer_id, []).extend(offsets)
            records = [Record(offset, offset, None, b"v" * 40) for offset in offsets]
            self._add(
                build_batch(records, leader_epoch=1, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True), 2
            )  # fmt: skip
        elif offsets := self._open.pop(producer_id, []):
            if what == "abort":
                self.aborted.append(AbortedTransaction(producer_id, offsets[0], self.end, self.end))
            else:
                self.visible += offsets
            kind = ControlType.ABORT if what == "abort" else ControlType.COMMIT
            marker = build_control_batch(
                kind, bytes(6), offset=self.end, timestamp_ms=5, leader_epoch=1, producer_id=producer_id,
                producer_epoch=0, transactional=True,
            )  # fmt: skip
            self._add(marker, 1)

    def finish(self) -> None:
        """The archive has no open transaction."""
        for producer_id in list(self._open):
            self.step(producer_id, "abort")

    def _add(self, batch: bytes | bytearray, count: int) -> None:
        self.batches.append(bytes(batch))
        self.end += count


class Archive:
    """The log as objects, and a reader of it with a chunk cache that can be lost."""

    def __init__(self, log: Log, borders: set[int], chunk_bytes: int, directory: str) -> None:
        store = MemoryStore()
        self.worker = Worker(store)
        self.directory = directory
        self.caches = 0
        segments = [b""]
        for number, batch in enumerate(log.batches):
            if number in borders and segments[-1]:
                segments.append(b"")
            segments[-1] += batch
        archive_log(store, PARTITION, segments, now_ms=0, claimant=US, aborted=log.aborted, chunk_bytes=chunk_bytes)
        self.forget()

    def forget(self) -> None:
        """A broker that starts on another disk."""
        self.queue: deque[tuple[object, object]] = deque()
        self.caches += 1
        admission = ColdAdmission(
            FetchRates, client_of=str, wake=lambda reader: None, now_ms=lambda: 0,
            later=lambda seconds, call: SimpleNamespace(cancel=lambda: None),
        )  # fmt: skip
        chunks = ChunkFiles(
            f"{self.directory}/{self.caches}", CacheLimits(1 << 20), self.submit, lambda: 0, admission=admission
        )
        metrics = SimpleNamespace(remote_fetch_errors=0, remote_log_size_bytes=0)
        self.remote = RemotePartition(
            PARTITION, submit=self.submit, chunks=chunks, metrics=metrics, wake=lambda: None, now_ms=lambda: 0
        )
        self.unified = archived_log(TopicPartition("t", 0), bytes(16), self.remote, metrics, now_ms=lambda: 0)
        self.remote.refresh()
        self.run()

    def merge(self) -> None:
        """Neighbouring objects become one; the reader goes on with what it knows until it learns of that."""
        report = self.worker.execute(MergeObjects(PARTITION, US, bytes([9] * 16), 2, 1 << 20, 0, 10))
        self.remote.apply(report.view)

    def submit(self, command, answered) -> None:
        self.queue.append((command, answered))

    def run(self) -> None:
        while self.queue:
            command, answered = self.queue.popleft()
            answered(self.worker.execute(command))

    def read(self, offset: int, max_bytes: int):
        """An answer for a consumer that reads committed records."""
        for _ in range(20):
            found = self.unified.read(
                "r", offset, limit=self.remote.end_offset, max_bytes=max_bytes, committed=True, min_one_batch=True
            )
            if not found.pending:
                return found
            self.run()
        raise AssertionError("no answer")


def shown_by_librdkafka(data: bytes, named: list[tuple[int, int]], position: int) -> list[int]:
    """The offsets that a consumer shows that keeps a list of first offsets for each producer.

    An abort marker takes the first one off, and whatever is at or behind the first one that is left is hidden.
    """
    waiting: dict[int, deque[int]] = {}
    for producer_id, first in sorted(named, key=lambda one: one[1]):
        waiting.setdefault(producer_id, deque()).append(first)
    shown = []
    for at, header in iter_headers(data):
        left = waiting.get(header.producer_id)
        if header.is_control:
            marker = next(iter_records(data, at))
            if marker.key == encode_key(ControlType.ABORT) and left:
                left.popleft()
        elif not left or left[0] > header.base_offset:
            shown += [one.offset for one in iter_records(data, at) if one.offset >= position]
    return shown


STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["records", "records", "records", "abort", "commit"])),
    min_size=4, max_size=40,
)  # fmt: skip


@pytest.mark.story
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=STEPS,
    borders=st.sets(st.integers(1, 39), max_size=12),
    chunk_bytes=st.sampled_from([100, 300, 1 << 20]),
    reads=st.lists(st.sampled_from([1, 400, 900, 1 << 20]), min_size=1, max_size=6),
    events=st.dictionaries(st.integers(0, 30), st.sampled_from(["merge", "forget"]), max_size=3),
    start=st.integers(0, 30),
)
def test_every_answer_names_what_a_naive_look_at_the_log_names(
    tmp_path_factory, steps, borders, chunk_bytes, reads, events, start
):
    """Random transactions, borders of objects and chunks, sizes of answers, caches warm and lost, merges in between.

    Read twice over the same cache, so that the second round's answers cross every border.
    """
    log = Log()
    log.step(1, "records")
    for producer_id, what in steps:
        log.step(producer_id, what)
    log.finish()
    archive = Archive(log, borders, chunk_bytes, str(tmp_path_factory.mktemp("caches")))
    number = 0
    for begin in (0, min(start, log.end - 1)):
        offset, shown = begin, []
        while offset < log.end:
            event = events.get(number)
            if event is not None:
                getattr(archive, event)()
            found = archive.read(offset, reads[number % len(reads)])
            number += 1
            reference = sorted(
                {
                    (one.first_offset, one.producer_id)
                    for one in log.aborted
                    if one.first_offset < found.next_offset and one.last_offset >= offset
                }
            )
            assert [(first, producer_id) for producer_id, first in found.aborted] == reference
            data = b"".join(part.file.pread(part.length, part.position) for part in found.parts)
            shown += shown_by_librdkafka(data, found.aborted, offset)
            offset = found.next_offset
        assert shown == sorted(one for one in log.visible if one >= begin)
