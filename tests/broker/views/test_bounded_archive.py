"""An archive that ends where it ended: chunks from the cache, the tail from a file of its own."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.chunk_files import ChunkFiles
from stratalog.broker.runtime.metrics import TopicMetrics
from stratalog.broker.views.bounded_archive import BoundedArchive, TailFile
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.messages import commands
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.cache import CacheLimits
from stratalog.tier.reading.fetch_budgets import FetchRates
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records
from stratalog.wire.errors import KafkaError

PARTITION = PartitionId("t", bytes(16), 0)


class Rig:
    """Two objects of twelve records in chunks of two batches of three; commands are carried out at once."""

    def __init__(self, tmp_path) -> None:
        self.store = MemoryStore()
        self.worker = Worker(self.store)
        self.refuse: type | None = None
        self.tails = TailFile()
        for base in (0, 12):
            data = b"".join(
                bytes(build_batch([Record(at + n, 100 + at + n, None, b"v" * 20) for n in range(3)], leader_epoch=1))
                for at in range(base, base + 12, 3)
            )
            aborted = [AbortedTransaction(9, 4, 7, 8)]
            archive_log(self.store, PARTITION, [data], now_ms=1, chunk_bytes=310, aborted=aborted)
        self.admission = ColdAdmission(
            lambda: FetchRates(),  # noqa: PLW0108 - the rates of now
            client_of=str,
            wake=lambda _: None,
            now_ms=lambda: 1,
            later=lambda _seconds, _call: SimpleNamespace(cancel=lambda: None),
        )
        limits = CacheLimits(1 << 20)
        self.chunks = ChunkFiles(str(tmp_path / "cache"), limits, self.submit, lambda: 1, admission=self.admission)

    def submit(self, command, answered) -> None:
        """Carry a command out, unless it is of a kind that fails."""
        failed = commands.FailedReport("it is broken", retriable=False)
        answered(failed if type(command) is self.refuse else self.worker.execute(command))

    def open(self, end) -> BoundedArchive:
        """The view that ends at an offset."""
        command = commands.ReadBoundedView(PARTITION, end)
        archive = BoundedArchive(
            command, submit=self.submit, chunks=self.chunks, metrics=TopicMetrics(), wake=lambda: None, now_ms=lambda: 1
        )
        archive.take(self.worker.execute(command), self.tails)
        return archive


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def read(archive, offset, max_bytes=1 << 20, **options):
    """Read until there is an answer."""
    for _ in range(9):
        found = archive.read("r", offset, max_bytes, **{"min_one_batch": True, **options})
        if found is not None:
            return found
    raise AssertionError("no answer")


def offsets(found):
    """The records of an answer."""
    data = b"".join(part.file.pread(part.length, part.position) for part in found.parts)
    return [record.offset for position, _ in iter_headers(data) for record in iter_records(data, position)]


@pytest.mark.parametrize("end", range(25))
def test_from_every_offset_everything_below_the_end_is_read_and_no_more(rig, end):
    """Through chunks into the tail."""
    archive = rig.open(end)
    assert (archive.known, archive.start_offset, archive.end_offset, archive.archive_clean_offset) == (True, 0, end, 0)
    for start in range(end):
        offset, seen = start, []
        while offset < end:
            found = read(archive, offset)
            seen += [one for one in offsets(found) if one >= start and one not in seen]
            offset = found.next_offset
        assert seen == list(range(start, end))
        assert offset == end


def test_chunks_are_let_go_in_the_tail_and_with_the_view(rig):
    """Their pins would last half a minute."""
    archive, pins = rig.open(20), rig.chunks.books._pins
    read(archive, 0, 1)
    assert pins.reads("r")
    read(archive, 19)
    assert not pins.reads("r")
    read(archive, 0, 1)
    assert pins.reads("r")
    archive.end_reads()
    assert not pins.reads("r")


def test_the_tail_keeps_to_limits(rig):
    """One batch at a time where that is all that fits; nothing where not even one must be given."""
    archive = rig.open(11)
    assert offsets(read(archive, 6, 1)) == [6, 7, 8]
    assert offsets(read(archive, 7, 1)) == [6, 7, 8]
    assert offsets(read(archive, 9, 1)) == [9, 10]
    assert read(archive, 6, 1, min_one_batch=False).size_bytes == 0
    assert read(archive, 6).next_offset == 11
    assert archive.throttle_ms("r") == 0
    archive.crossed("r", 3)


def test_tails_lie_in_the_file_of_their_view_and_not_in_memory(rig):
    """One descriptor for all of its partitions."""
    first, second = rig.open(11), rig.open(23)
    assert first._tail.tail.data == second._tail.tail.data == b""
    assert rig.tails.size_bytes > 0
    assert first._tail._file is second._tail._file
    assert offsets(read(first, 6)) == [6, 7, 8, 9, 10]
    assert offsets(read(second, 18)) == [18, 19, 20, 21, 22]


def test_a_view_that_is_read_again_keeps_the_file_of_its_tail(rig):
    """Views of many partitions would take a descriptor for each otherwise."""
    archive = rig.open(20)
    tail = archive._tail
    archive._inner.unload()
    assert offsets(read(archive, 0))[0] == 0
    assert archive._tail is tail


def test_a_view_that_is_closed_while_it_is_read_again_leaves_nothing_behind(rig, monkeypatch):
    """Its ranges would count for those of other views, and its file would stay open."""
    archive = rig.open(20)
    archive._inner.unload()
    late = []
    monkeypatch.setattr(archive, "_worker", lambda command, answered: late.append((command, answered)))
    assert archive.read("r", 0, 1 << 20, min_one_batch=True) is None
    archive.end_reads()
    ((command, answered),) = late
    answered(rig.worker.execute(command))
    assert archive._inner._views.entry_count == 0
    assert not archive._inner._views._counts


def test_a_full_disk_is_said_when_a_view_is_read_again(rig, monkeypatch):
    """Its readers hear of it, and it is tried again for those that come later."""
    archive = rig.open(20)

    def full(_self, _tail):
        raise OSError(errno.ENOSPC, "no room")

    archive._inner.unload()
    archive._tail = None  # as after a merge: it comes from another object
    with monkeypatch.context() as context:
        context.setattr(TailFile, "keep", full)
        with pytest.raises(KafkaError, match="the last part of a view cannot be kept"):
            read(archive, 0)
    assert not archive._inner._refreshing


def test_aborted_transactions_of_the_tail_are_answered(rig):
    """`UnifiedLog` names those of them that overlap what is read."""
    transaction = AbortedTransaction(9, 4, 7, 8)
    assert list(read(rig.open(8), 6).aborted) == [transaction]
    assert list(read(rig.open(6), 3).aborted) == [transaction]


def test_times_are_looked_up_below_the_end_only(rig):
    """In whole chunks, in the tail, and nowhere else."""
    archive = rig.open(20)

    def find(timestamp_ms, start=0):
        found = asyncio.run(archive.find_timestamp(timestamp_ms, start, 20))
        return None if found is None else found.offset

    assert [find(time) for time in (0, 103, 117, 118, 119, 120)] == [0, 3, 17, 18, 19, None]
    assert find(100, start=19) == 19
    assert archive.may_hold(119, 20)
    assert not archive.may_hold(120, 20)
    latest = asyncio.run(archive.find_max_timestamp(20))
    assert (latest.timestamp_ms, latest.offset) == (119, 19)
    assert asyncio.run(rig.open(12).find_max_timestamp(12)).offset == 11
    assert asyncio.run(rig.open(0).find_max_timestamp(0)) is None


@pytest.mark.parametrize(
    ("start", "end"), [(start, end) for start in (1, 4, 5, 13, 19) for end in range(start + 1, 25)]
)
def test_the_largest_time_is_that_of_a_record_of_the_view(rig, start, end):
    """The object that it ends in has later ones, and where DeleteRecords was, deleted ones."""
    change_manifest(rig.store, PARTITION, lambda manifest: replace(manifest, log_start_offset=start))
    found = asyncio.run(rig.open(end).find_max_timestamp(end))
    assert (found.timestamp_ms, found.offset) == (99 + end, end - 1)


def test_a_look_up_that_fails_is_said(rig):
    """As an error of the storage."""
    archive = rig.open(20)
    rig.refuse = commands.FindTimestamp
    with pytest.raises(KafkaError, match="it is broken"):
        asyncio.run(archive.find_timestamp(119, 19, 20))


def test_a_view_that_is_read_again_ends_where_it_ended(rig):
    """Objects archived since do not move its end; a view that cannot be read raises `KafkaError`."""
    archive = rig.open(20)
    archive_log(rig.store, PARTITION, [bytes(build_batch([Record(24, 1, None, b"v")], leader_epoch=1))], now_ms=1)
    archive._inner.unload()
    assert offsets(read(archive, 0))[0] == 0
    assert archive.end_offset == 20
    assert [epoch.start_offset for epoch in archive.leader_epochs] == [0]
    archive._inner.unload()
    rig.refuse = commands.ReadBoundedView
    with pytest.raises(KafkaError, match="it is broken"):
        read(archive, 0)
    rig.refuse = commands.ReadFooter
    with pytest.raises(KafkaError):
        read(rig.open(20), 12)


def test_a_chunk_that_a_view_may_not_hold_whole_does_not_come_with_its_table(rig):
    """The chunk of the object in which the view ends comes alone."""
    archive = rig.open(20)
    read(archive, 0)
    sent = []
    rig.submit, submit = lambda command, answered: (sent.append(command), submit(command, answered)), rig.submit
    archive._worker = rig.submit
    assert offsets(read(archive, 12))[0] == 12
    tables = [command for command in sent if isinstance(command, commands.ReadFooter)]
    assert [command.path for command in tables] == [None]
