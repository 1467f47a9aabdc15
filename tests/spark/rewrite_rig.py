"""Shared by the tests of rewriting jobs: logs of many kinds, what a reader finds of them, a store that dies."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from crc32c import crc32c

from stratalog.spark.rewrite.compact import CompactSettings
from stratalog.spark.source.options import parse_options
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.manifest import Claimant, Manifest, claim
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.objects.segment_blobs import AbortedTransaction, aborted_from_bytes
from stratalog.tier.objects.segment_reader import read_blob, read_object_footer
from stratalog.tier.stores.store import ObjectStore
from stratalog.tier.stores.wrappers import Call, StoreWrapper
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.garbage_collection import GarbageOptions, collect
from stratalog.wire.batch import (
    HEADER_BYTES,
    Header,
    Record,
    build_batch,
    build_control_batch,
    iter_headers,
    iter_records,
)
from stratalog.wire.compression import Codec

T = TypeVar("T")
Row = tuple[int, bytes | None, bytes | None, int, tuple[Any, ...]]
DAY_MS = 86_400_000


class Killed(BaseException):
    """The process died here."""


class DyingStore(StoreWrapper):
    """Dies at the call with this number, before it is carried out or after; then nothing is carried out any more."""

    def __init__(self, inner: ObjectStore, at: int, *, after: bool = False) -> None:
        super().__init__(inner)
        self.at = at
        self.after = after
        self.calls = 0

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls == self.at and self.after:
            run()
        if self.calls >= self.at:
            raise Killed(f"{call.operation} {call.key}")
        return run()


@dataclass
class History:
    """A log as it was written: whole objects, and every record that is neither aborted nor a marker."""

    segments: list[bytes] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    codecs: tuple[Codec, ...] = (Codec.NONE, Codec.ZSTD, Codec.LZ4)
    offset: int = 0
    _open: bytearray = field(default_factory=bytearray)

    def records(self, rolls: random.Random, count: int, keys: int, tombstones: float) -> list[Record]:
        made = []
        for _ in range(count):
            value = None if rolls.random() < tombstones else b"value %d" % rolls.randrange(1 << 30)
            headers = (Header("h", b"%d" % self.offset),) if rolls.random() < 0.2 else ()
            key = None if rolls.random() < 0.05 else b"key-%d" % rolls.randrange(keys)
            made.append(Record(self.offset, 1_000 + 10 * self.offset + rolls.randrange(-5, 5), key, value, headers))
            self.offset += 1
        return made

    def keep(self, records: Sequence[Record]) -> None:
        self.rows += [_row(one) for one in records]

    def plain(self, rolls: random.Random, keys: int, tombstones: float) -> None:
        records = self.records(rolls, rolls.randrange(1, 8), keys, tombstones)
        self._open += build_batch(records, codec=rolls.choice(self.codecs), leader_epoch=0)
        self.keep(records)

    def transaction(self, rolls: random.Random, keys: int, tombstones: float) -> None:
        """One to three batches, perhaps over several objects, then a marker."""
        whose = {"producer_id": rolls.randrange(3), "producer_epoch": 0, "transactional": True, "leader_epoch": 0}
        first, written = self.offset, []
        for _ in range(rolls.randrange(1, 4)):
            records = self.records(rolls, rolls.randrange(1, 5), keys, tombstones)
            self._open += build_batch(records, codec=rolls.choice(self.codecs), base_sequence=0, **whose)
            written += records
            if rolls.random() < 0.3:
                self.roll()
            if rolls.random() < 0.3:
                self.plain(rolls, keys, tombstones)
        commit = rolls.random() < 0.6
        self._open += build_control_batch(int(commit), bytes(6), offset=self.offset, timestamp_ms=1_000, **whose)
        if commit:
            self.keep(written)
        else:
            self.aborted.append(AbortedTransaction(whose["producer_id"], first, self.offset, self.offset + 1))
        self.offset += 1

    def roll(self) -> None:
        if self._open:
            self.segments.append(bytes(self._open))
            self._open = bytearray()

    def newest(self) -> list[Row]:
        """The rest after a compaction: the last record of each key."""
        last = {row[1]: row for row in self.rows if row[1] is not None}
        return sorted(last.values())


def make_history(
    seed: int, *, steps: int = 40, keys: int = 6, tombstones: float = 0.2, transactions: float = 0.4
) -> History:
    """A log with all that there may be in one."""
    rolls, history = random.Random(seed), History()
    for _ in range(steps):
        if rolls.random() < transactions:
            history.transaction(rolls, keys, tombstones)
        else:
            history.plain(rolls, keys, tombstones)
        if rolls.random() < 0.2:
            history.roll()
    history.roll()
    history.rows.sort()
    return history


def unreadable_batch(offset: int, key: bytes = b"key-3") -> bytes:
    """A batch of one record that says of its key that it reaches beyond the record, under a right CRC."""
    batch = build_batch([Record(offset, 1_000, key, b"value")], leader_epoch=0)
    batch[HEADER_BYTES + 4] = 100
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def topic(partition: int = 0) -> PartitionId:
    return PartitionId("t", b"t" * 16, partition)


def archive(store: ObjectStore, history: History, partition: int = 0, *, since: int = 0, **options: Any) -> Manifest:
    """Archive the objects of a history, from number ``since`` on."""
    return archive_log(
        store, topic(partition), history.segments[since:], now_ms=1, aborted=history.aborted, cluster_id="c", **options
    )


def manifest_of(store: ObjectStore, partition: int = 0) -> Manifest:
    return read_manifest(store, topic(partition)).manifest


def rows_of(store: ObjectStore, partition: int = 0, *, committed: bool = True) -> list[Row]:
    """Records that a read_committed reader finds, by a loop over single records and the objects' own lists of aborted ones."""
    rows = []
    for entry in iter_entries(store, manifest_of(store, partition)):
        data = store.get(entry.key)[0][: entry.data_bytes]
        aborted = aborted_from_bytes(read_blob(store, entry.key, read_object_footer(store, entry.key), "aborted"))
        for position, header in iter_headers(data):
            void = (
                committed
                and header.is_transactional
                and any(
                    one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                    for one in aborted
                )
            )
            rows += [_row(record) for record in (() if header.is_control or void else iter_records(data, position))]
    return rows


def consumed(store: ObjectStore, start: int = 0) -> list[Row]:
    """Records of Kafka's consumer from one fetch from an offset on: aborted by the list and by the markers in the data.

    A producer is aborted from the first offset of its transaction in the list until its marker comes: a list without the
    marker would hide all that the producer wrote later.
    """
    entries = list(iter_entries(store, manifest_of(store)))
    listed = {
        one
        for entry in entries
        for one in aborted_from_bytes(read_blob(store, entry.key, read_object_footer(store, entry.key), "aborted"))
        if one.last_offset >= start
    }
    coming = sorted(listed, key=lambda one: one.first_offset)
    rows, void = [], set()
    for entry in entries:
        data = store.get(entry.key)[0][: entry.data_bytes]
        for position, header in iter_headers(data):
            if header.last_offset < start:
                continue
            while coming and coming[0].first_offset <= header.last_offset:
                void.add(coming.pop(0).producer_id)
            if header.is_control:
                if header.record_count and not next(iter_records(data, position)).key[3]:
                    void.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in void):
                rows += [_row(record) for record in iter_records(data, position) if record.offset >= start]
    return rows


def _row(record: Record) -> Row:
    return record.offset, record.key, record.value, record.timestamp_ms, tuple(record.headers)


def settings(store: ObjectStore, **changes: Any) -> CompactSettings:
    read = parse_options({"archive": store.url, "subscribe": "t"})
    given = {"read": read, "any_policy": True, "object_bytes": 2_000, "min_lag_ms": 0, **changes}
    return CompactSettings("t", **given)


class Told:
    """How far a run was."""

    def __init__(self) -> None:
        self.planned_bytes = self.moved_bytes = 0

    def planned(self, scan_bytes: int, group_bytes: int) -> None:
        self.planned_bytes = scan_bytes + group_bytes

    def moved(self, size_bytes: int) -> None:
        self.moved_bytes += size_bytes


def unnamed(store: ObjectStore, partition: int = 0) -> set[str]:
    """Objects that nothing names: what the next leader's garbage collection leaves of them."""
    stored = manifest_of(store, partition)
    raised = Claimant(stored.claimant.incarnation, stored.claimant.leader_epoch + 1, b"n" * 16)
    change_manifest(store, topic(partition), lambda manifest: claim(manifest, raised, now_ms=2))
    for _ in collect(store, GarbageOptions(1 << 50, 1, apply=True)):
        pass
    manifest = manifest_of(store, partition)
    named = {entry.key for entry in iter_entries(store, manifest)} | {item.key for item in manifest.trash}
    return {info.key for info in store.list(topic(partition).prefix + "seg/")} - named
