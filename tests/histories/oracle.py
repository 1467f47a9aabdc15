"""The truth about a random history: what stands at each offset, its fate, and what readers must find."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stratalog.wire.batch import iter_headers, iter_records, read_header

DATA, COMMIT, ABORT = "data", "commit", "abort"


class Rec(NamedTuple):
    """A record or marker as its leader put it."""

    offset: int
    epoch: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    producer: int
    producer_epoch: int
    sequence: int
    transactional: bool
    batch: int
    kind: str = DATA


class Seen(NamedTuple):
    """The same as a reader finds it."""

    offset: int
    epoch: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    producer: int


def seen(data: bytes) -> tuple[list[Seen], list]:
    """The data records of bytes of a log, and the batches."""
    found, batches = [], []
    for position, header in iter_headers(data):
        batches.append((header, position))
        found += records_of(bytes(data[position : position + header.size_bytes]))
    return found, batches


@lru_cache(maxsize=20_000)
def records_of(batch: bytes) -> tuple[Seen, ...]:
    """The data records of one batch."""
    header = read_header(batch)
    if header.is_control:
        return ()
    epoch, producer = header.partition_leader_epoch, header.producer_id
    return tuple(Seen(one.offset, epoch, one.key, one.value, one.timestamp_ms, producer) for one in iter_records(batch))


def is_same(one: Seen, rec: Rec | None) -> bool:
    return rec is not None and rec.kind == DATA and (
        one.offset, one.epoch, one.key, one.value, one.time_ms, one.producer
    ) == (rec.offset, rec.epoch, rec.key, rec.value, rec.time_ms, rec.producer)  # fmt: skip


def until(full: dict[int, Rec], end: int) -> dict[int, Rec]:
    """The records of a log that was cut at an offset: a batch in which it lies goes as a whole."""
    cut = min((rec.batch for offset, rec in full.items() if offset >= end), default=end)
    return {offset: rec for offset, rec in full.items() if offset < min(cut, end)}


def fates(full: dict[int, Rec]) -> dict[int, str]:
    """The fate of each transactional data record: COMMIT, ABORT, or open ("")."""
    found: dict[int, str] = {}
    open_: dict[int, list[int]] = {}
    for offset in sorted(full):
        rec = full[offset]
        if rec.kind == DATA:
            if rec.transactional:
                open_.setdefault(rec.producer, []).append(offset)
        else:
            for one in open_.pop(rec.producer, ()):
                found[one] = rec.kind
    for offsets in open_.values():
        found |= dict.fromkeys(offsets, "")
    return found


def effective(full: dict[int, Rec], limit: int, fate: dict[int, str] | None = None) -> dict[bytes, list[int]]:
    """The offsets of records that count, below a limit, ascending, by key."""
    fate = fates(full) if fate is None else fate
    found: dict[bytes, list[int]] = {}
    for offset in sorted(full):
        rec = full[offset]
        if offset < limit and rec.kind == DATA and rec.key is not None and fate.get(offset, COMMIT) == COMMIT:
            found.setdefault(rec.key, []).append(offset)
    return found


def why_gone(full: dict[int, Rec], offset: int, limit: int, all_fates: dict[int, str] | None = None) -> str:
    """Why a cleaner that has looked at all below ``limit`` may drop a record; empty if it may not."""
    rec = full[offset]
    all_fates = fates(full) if all_fates is None else all_fates
    fate = all_fates.get(offset, COMMIT)
    if fate == ABORT:
        return "aborted"
    if fate == "":
        return ""
    if rec.key is None:
        return "no key"
    if any(one > offset for one in effective(full, limit, all_fates).get(rec.key, ())):
        return "superseded"
    return "tombstone" if rec.value is None else ""


def producers(full: dict[int, Rec]) -> dict[int, tuple[int, int, int]]:
    """By producer its epoch, last sequence (-1: none in the epoch) and the first offset of its open transaction."""
    found: dict[int, tuple[int, int, int]] = {}
    for offset in sorted(full):
        rec = full[offset]
        epoch, sequence, first = found.get(rec.producer, (-1, -1, -1))
        if rec.kind == DATA:
            first = offset if rec.transactional and first < 0 else first
            found[rec.producer] = rec.producer_epoch, rec.sequence, first
        else:
            found[rec.producer] = rec.producer_epoch, (sequence if epoch == rec.producer_epoch else -1), -1
    return found


class Wrong(AssertionError):
    """An invariant does not hold."""
