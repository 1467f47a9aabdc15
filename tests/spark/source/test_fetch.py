"""Reading slices out of a store, without Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stratalog.spark.archive_store import open_archive
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.quarantine import Quarantine
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.planning.slices import (
    OffsetRange,
    PartitionArchive,
    SegmentSlice,
    cut_slices,
    group_tasks,
    task_limits,
)
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.retrying_store import RetryingStore, RetryPolicy
from stratalog.tier.stores.store import NotFound
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import TopicPartition

Batches = Callable[..., bytes]
OFFSETS = ReadRequest(("offset",))


@dataclass
class CountingStore:
    """Counts the GETs that reach the store behind it, and knows the threads that they come from."""

    store: Any
    calls: list[tuple[str, int]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        self.calls.append(("suffix", length))
        self.threads.add(threading.get_ident())
        return self.store.get_suffix(key, length)

    def get_range(self, key: str, position: int, length: int) -> bytes:
        self.calls.append(("range", length))
        self.threads.add(threading.get_ident())
        return self.store.get_range(key, position, length)


def slices_of(entries: list[Entry], start: int = 0, end: int = 1 << 40) -> list[SegmentSlice]:
    archive = PartitionArchive(TopicPartition("orders", 0), entries[0].base, entries[-1].end, entries)
    slices, _ = cut_slices(archive, OffsetRange(start, min(end, archive.end_offset)))
    return slices


def read_offsets(store: Any, slices: list[SegmentSlice], request: ReadRequest = OFFSETS) -> list[int]:
    return [offset for batch in read_slices(store, slices, request) for offset in batch.column(0).to_pylist()]


def test_an_archive_is_opened_by_path_or_url(tmp_path: Path) -> None:
    """A plain path is a directory; the same archive is opened once."""
    store = open_archive(str(tmp_path), {})
    assert store.url == tmp_path.as_uri()
    assert open_archive(str(tmp_path), {}) is store
    assert open_archive("s3a://bucket/some/prefix", {"s3.region": "eu-west-1"}).url == "s3://bucket/some/prefix"


def test_a_wrong_place_is_not_an_empty_archive(tmp_path: Path) -> None:
    """Reading creates no directory; options of one kind of store are not ignored by another."""
    with pytest.raises(NotFound, match="no such directory"):
        open_archive(f"file://{tmp_path}/nowhere", {})
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(Invalid, match=r"option 's3\.region' has no meaning"):
        open_archive(f"file://{tmp_path}", {"s3.region": "x"})


def test_slices_are_read_in_order(memory_archive: Any, batches: Batches) -> None:
    """Rows of many objects come in offset order, cut to the window."""
    entries = memory_archive.add("orders", 0, *(batches(i * 30, 30) for i in range(20)))
    assert read_offsets(memory_archive.store, slices_of(entries, 17, 555)) == list(range(17, 555))


def test_a_small_object_costs_one_get(memory_archive: Any, batches: Batches) -> None:
    """Tail and data of a small object come together."""
    store = CountingStore(memory_archive.store)
    entries = memory_archive.add("orders", 0, batches(0, 100))
    assert len(read_offsets(store, slices_of(entries))) == 100
    assert store.calls == [("suffix", entries[0].size_bytes)]


@pytest.fixture
def large(memory_archive: Any, monkeypatch: pytest.MonkeyPatch, batches: Batches) -> tuple[Any, list[Entry]]:
    """An object of many chunks that does not count as small."""
    monkeypatch.setattr("stratalog.spark.source.fetch.WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr("stratalog.spark.source.fetch.RANGE_BYTES", 5000)
    memory_archive.chunk_bytes = 2000
    return memory_archive, memory_archive.add("orders", 0, batches(0, 1000))


def test_only_the_needed_chunks_of_a_large_object_are_read(large: tuple[Any, list[Entry]]) -> None:
    """An offset window costs the tail and the chunks around it."""
    archive, entries = large
    store = CountingStore(archive.store)
    assert read_offsets(store, slices_of(entries, 500, 503)) == [500, 501, 502]
    assert [kind for kind, _ in store.calls] == ["suffix", "range"]
    assert sum(length for _, length in store.calls) < entries[0].size_bytes / 4


def test_neighbouring_chunks_share_a_get(large: tuple[Any, list[Entry]]) -> None:
    """A whole scan takes ranges of several chunks, and no byte twice."""
    archive, entries = large
    store = CountingStore(archive.store)
    assert read_offsets(store, slices_of(entries)) == list(range(1000))
    ranges = [length for kind, length in store.calls if kind == "range"]
    assert sum(ranges) == entries[0].data_bytes
    assert max(ranges) <= 5000 < 2 * max(ranges)


def test_a_fetch_without_other_work_needs_no_thread(large: tuple[Any, list[Entry]]) -> None:
    """One range is fetched where it is asked for, as the object's tail is; several run ahead in threads."""
    archive, entries = large
    here = threading.get_ident()
    lone, many = CountingStore(archive.store), CountingStore(archive.store)
    assert read_offsets(lone, slices_of(entries, 500, 503)) == [500, 501, 502]
    assert lone.threads == {here}
    assert len(read_offsets(many, slices_of(entries))) == 1000
    assert many.threads > {here}


def test_a_small_object_alone_needs_no_thread(memory_archive: Any, batches: Batches) -> None:
    """It comes whole in one GET; with another one behind it, that is on its way meanwhile."""
    first, second = memory_archive.add("orders", 0, batches(0, 30), batches(30, 30))
    lone, two = CountingStore(memory_archive.store), CountingStore(memory_archive.store)
    assert len(read_offsets(lone, slices_of([first]))) == 30
    assert lone.threads == {threading.get_ident()}
    assert len(read_offsets(two, slices_of([first, second]))) == 60
    assert threading.get_ident() not in two.threads


def test_position_windows_share_out_the_rows(large: tuple[Any, list[Entry]]) -> None:
    """Slices that meet at any byte read every record exactly once."""
    archive, entries = large
    (whole,) = slices_of(entries)
    borders = [0, 1, 1999, 2000, 12345, entries[0].data_bytes]
    rows = []
    for start, end in pairwise(borders):
        rows += read_offsets(archive.store, [whole._replace(start_position=start, end_position=end)])
    assert rows == list(range(1000))


def test_aborted_transactions_of_the_object_are_filtered(memory_archive: Any) -> None:
    """The object's own table decides; read_uncommitted sees what was aborted; markers are never rows."""
    transactional: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True, "leader_epoch": 0}
    data = bytes(
        build_batch([Record(0, 5, None, b"aborted")], base_sequence=0, **transactional)
        + build_control_batch(0, bytes(6), offset=1, timestamp_ms=5, **transactional)
        + build_batch([Record(2, 5, None, b"kept")], base_sequence=1, **transactional)
        + build_control_batch(1, bytes(6), offset=3, timestamp_ms=5, **transactional)
    )
    entries = memory_archive.add("orders", 0, data, aborted=[AbortedTransaction(9, 0, 1, 2)])
    assert read_offsets(memory_archive.store, slices_of(entries)) == [2]
    assert read_offsets(memory_archive.store, slices_of(entries), ReadRequest(("offset",), read_committed=False)) == [
        0,
        2,
    ]


def test_a_missing_object_is_a_data_loss_that_names_it(memory_archive: Any, batches: Batches) -> None:
    """The error names topic, partition, offsets and key."""
    entries = memory_archive.add("orders", 0, batches(0, 20), batches(20, 20))
    memory_archive.store.delete_many([entries[1].key])
    with pytest.raises(DataLoss, match=rf"orders-0, offsets 20 to 39, object {entries[1].key}"):
        read_offsets(memory_archive.store, slices_of(entries))


def test_a_missing_object_is_skipped_with_a_warning_if_loss_is_accepted(
    memory_archive: Any, batches: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    """failOnDataLoss=false reads what is there."""
    entries = memory_archive.add("orders", 0, *(batches(i * 20, 20) for i in range(3)))
    memory_archive.store.delete_many([entries[1].key])
    request = ReadRequest(("offset",), fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        assert read_offsets(memory_archive.store, slices_of(entries), request) == [*range(20), *range(40, 60)]
    assert "orders-0, offsets 20 to 39" in caplog.text


@pytest.mark.parametrize("position", [0, 7, 30, 500])
def test_a_flipped_byte_is_reported_with_its_key(memory_archive: Any, batches: Batches, position: int) -> None:
    """Also in the base offset, which the batch's own CRC does not cover."""
    (entry,) = memory_archive.add("orders", 0, batches(0, 50))
    data = bytearray(memory_archive.store.get(entry.key)[0])
    data[position] ^= 1
    memory_archive.store.put(entry.key, bytes(data))
    with pytest.raises(Corrupt, match=rf"orders-0, offsets 0 to 49, object {entry.key}.*CRC"):
        read_offsets(memory_archive.store, slices_of([entry]))


@pytest.fixture
def quarantine() -> Quarantine:
    return Quarantine(MemoryStore("memory:bad"))


def spoil(archive: Any, entry: Entry, *positions: int) -> None:
    """Change single bytes of an object."""
    data = bytearray(archive.store.get(entry.key)[0])
    for position in positions:
        data[position] ^= 0x55
    archive.store.put(entry.key, bytes(data))


def test_a_damaged_batch_is_named(memory_archive: Any, batches: Batches) -> None:
    """With its offsets, its object and what can be done."""
    (entry,) = memory_archive.add("orders", 0, batches(0, 50))
    spoil(memory_archive, entry, entry.data_bytes // 2)
    with pytest.raises(Corrupt, match=rf"orders-0.*object {entry.key}.*offsets 20 to 29 are damaged.*'badRecords'"):
        read_offsets(memory_archive.store, slices_of([entry]))


def test_exactly_the_damaged_batch_is_left_out(large: tuple[Any, list[Entry]], quarantine: Quarantine) -> None:
    """Also for a large object, whose chunks come in several ranges; an omission is reported once, however often read."""
    archive, entries = large
    data = archive.store.get(entries[0].key)[0]
    position, header = next(each for each in iter_headers(data) if each[1].base_offset == 500)
    spoil(archive, entries[0], position + 100)
    for _ in range(2):
        rows = read_slices(archive.store, slices_of(entries), OFFSETS, quarantine)
        assert [o for batch in rows for o in batch.column(0).to_pylist()] == [*range(500), *range(510, 1000)]
    (found,) = quarantine.ranges()
    assert found[:6] == ("orders", 0, 500, 510, archive.store.url, entries[0].key)
    assert (found.position, found.length) == (position, header.size_bytes)
    assert "CRC" in found.reason


def test_damage_outside_the_rows_asked_for_is_not_told(large: tuple[Any, list[Entry]], quarantine: Quarantine) -> None:
    """The chunk is read for its neighbours."""
    archive, entries = large
    data = archive.store.get(entries[0].key)[0]
    spoil(archive, entries[0], next(p for p, h in iter_headers(data) if h.base_offset == 500) + 100)
    rows = read_slices(archive.store, slices_of(entries, 510, 530), OFFSETS, quarantine)
    assert [o for batch in rows for o in batch.column(0).to_pylist()] == list(range(510, 530))
    assert list(quarantine.ranges()) == []


@pytest.mark.parametrize("damage", ["footer", "shorter"])
def test_an_object_that_cannot_be_opened_is_left_out_whole(
    memory_archive: Any, batches: Batches, quarantine: Quarantine, damage: str
) -> None:
    """The error names the offsets to be read from it; its neighbours are read."""
    entries = memory_archive.add("orders", 0, *(batches(i * 20, 20) for i in range(3)))
    if damage == "footer":
        spoil(memory_archive, entries[1], entries[1].size_bytes - 9)
    else:
        memory_archive.store.put(entries[1].key, memory_archive.store.get(entries[1].key)[0][:-50])
    rows = read_slices(memory_archive.store, slices_of(entries, 5, 50), OFFSETS, quarantine)
    assert [o for batch in rows for o in batch.column(0).to_pylist()] == [*range(5, 20), *range(40, 50)]
    assert [(each.start_offset, each.end_offset, each.position) for each in quarantine.ranges()] == [(20, 40, None)]


def test_an_object_that_goes_while_it_is_read(large: tuple[Any, list[Entry]]) -> None:
    """After its tail and before its chunks: told, or skipped where loss is accepted."""
    archive, entries = large

    class Going(CountingStore):
        def get_range(self, key: str, position: int, length: int) -> bytes:
            raise NotFound("get_range", key, archive.store.url, "there is no such object")

    with pytest.raises(DataLoss, match=rf"orders-0, offsets 0 to 999, object {entries[0].key}.*failOnDataLoss"):
        read_offsets(Going(archive.store), slices_of(entries))
    assert (
        read_offsets(Going(archive.store), slices_of(entries), ReadRequest(("offset",), fail_on_data_loss=False)) == []
    )


def test_an_object_of_other_offsets_is_refused(memory_archive: Any, batches: Batches) -> None:
    """The object under the key must be the one that the manifest names."""
    first, second = memory_archive.add("orders", 0, batches(0, 50), batches(50, 50))
    memory_archive.store.put(first.key, memory_archive.store.get(second.key)[0])
    (piece,) = slices_of([first])
    with pytest.raises(Corrupt, match=r"offsets 50 to 99; the manifest says 0 to 49"):
        read_offsets(memory_archive.store, [piece._replace(size_bytes=second.size_bytes)])


def test_an_abandoned_read_leaves_no_thread(memory_archive: Any, batches: Batches) -> None:
    """A query with LIMIT drops the iterator: its threads end."""
    import threading

    entries = memory_archive.add("orders", 0, *(batches(i * 20, 20) for i in range(9)))
    rows = read_slices(memory_archive.store, slices_of(entries), OFFSETS)
    next(rows)
    rows.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stratalog-fetch")]


@pytest.mark.story
def test_holes_and_large_records_are_read(memory_archive: Any) -> None:
    """A hole of a billion offsets, and next to it one record of 100 MiB: all rows, whatever the tasks."""
    large = Record(2_000_000_000, 5, None, b"large" * (20 << 20))
    first = build_batch([Record(o, 5, b"k", None) for o in (0, 1, 2)], leader_epoch=0)
    data = [bytes(first), bytes(build_batch([large], codec=Codec.ZSTD, leader_epoch=0))]
    entries = memory_archive.add("orders", 0, b"".join(data), compacted=True)
    assert entries[0].end == 2_000_000_001
    slices = slices_of(entries)
    tasks = group_tasks(slices, task_limits(slices, 2, task_bytes_max=1 << 28, tasks_min=4))
    assert len(tasks) == 4
    request = ReadRequest(("offset", "value"))
    rows = [
        row for task in tasks for batch in read_slices(memory_archive.store, task, request) for row in batch.to_pylist()
    ]
    assert [row["offset"] for row in rows] == [0, 1, 2, 2_000_000_000]
    assert rows[-1]["value"] == large.value


@pytest.mark.parametrize("fault", [Fault.CORRUPT, Fault.TRUNCATE])
@pytest.mark.parametrize("operation", ["get_suffix", "get_range"])
def test_damage_on_the_way_is_no_damage(
    large: tuple[Any, list[Entry]], quarantine: Quarantine, fault: Fault, operation: str
) -> None:
    """A chunk that a second request brings whole is neither an error nor left out."""
    archive, entries = large
    for number in range(3):
        store = FaultyStore(archive.store, [FaultRule(fault, operation, skip=number)])
        rows = read_slices(store, slices_of(entries), OFFSETS, quarantine)
        assert [o for batch in rows for o in batch.column(0).to_pylist()] == list(range(1000))
    assert list(quarantine.ranges()) == []


def test_a_store_that_is_busy_is_asked_again(large: tuple[Any, list[Entry]]) -> None:
    """503s cost time and no row; the wrapper that S3 is opened with repeats requests."""
    archive, entries = large
    busy = FaultyStore(archive.store, [FaultRule(Fault.FAIL_BEFORE, count=None, probability=0.5)])
    store = RetryingStore(busy, RetryPolicy(first_wait_s=0.0001, longest_wait_s=0.001))
    assert read_offsets(store, slices_of(entries)) == list(range(1000))
