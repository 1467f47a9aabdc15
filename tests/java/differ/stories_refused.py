"""Batches that a leader refuses: which records were the reason, and in which words (KIP-467)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from crc32c import crc32c

from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from tests.java.differ.requests import START_MS, batch, produce, produce_all, topic
from tests.java.differ.story import Story

YEAR_MS = 365 * 24 * 3_600_000
FUTURE_MS = START_MS + 100 * YEAR_MS
NO_KEYS = [(b"k", b"a"), (None, b"b"), (b"k", b"c"), (None, b"d")]


def keyed(*pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, step_ms: int = 1) -> bytes:
    """A batch of keys and values."""
    records = [Record(at, START_MS + at * step_ms, key, value) for at, (key, value) in enumerate(pairs)]
    return bytes(build_batch(records, codec=codec))


def timed(*times_ms: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch of records with these times."""
    return bytes(build_batch([Record(at, each, b"k", b"v") for at, each in enumerate(times_ms)], codec=codec))


def altered(change: Callable[[bytearray], None], *, sealed: bool = True, whole: bytes | None = None) -> bytes:
    """A good batch after a change; ``sealed`` gives it the right CRC again."""
    data = bytearray(batch(b"a", b"b", b"c") if whole is None else whole)
    change(data)
    if sealed:
        data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return bytes(data)


def put(form: str, at: int, value: int) -> Callable[[bytearray], None]:
    """Writes a number at a position of the batch."""
    return lambda data: struct.pack_into(form, data, at, value)


def flip(data: bytearray) -> None:
    data[-1] ^= 1


def cut(data: bytearray) -> None:
    del data[-4:]


COMPACTED = Story(
    "records without keys",
    "Produce",
    (
        topic("compacted-{v}", 2, cleanup_policy="compact"),
        produce("compacted-{v}", keyed(*NO_KEYS), "two of four"),
        produce("compacted-{v}", keyed(*NO_KEYS, codec=Codec.GZIP), "two of four, compressed"),
        produce("compacted-{v}", keyed((b"k", b"a")), "a good one"),
        produce("compacted-{v}", batch(b"a"), "the only one"),
        produce("compacted-{v}", keyed(*[(None, b"v")] * 20), "twenty"),
        produce_all(
            {("compacted-{v}", 0): keyed((b"k", b"a")), ("compacted-{v}", 1): keyed(*NO_KEYS)}, "one good partition"
        ),
    ),
)

TIMES = Story(
    "records of other times",
    "Produce",
    (
        topic("past-{v}", 1, message_timestamp_before_max_ms="1000"),
        topic("future-{v}", 1, message_timestamp_after_max_ms="1000"),
        topic(
            "past-and-stamped-{v}", 1, message_timestamp_before_max_ms="1000", message_timestamp_type="LogAppendTime"
        ),
        produce("future-{v}", timed(START_MS, START_MS + 1), "good"),
        produce("future-{v}", timed(START_MS, FUTURE_MS, START_MS, FUTURE_MS), "two of four too late"),
        produce("future-{v}", timed(START_MS, FUTURE_MS, codec=Codec.ZSTD), "too late, compressed"),
        produce("past-and-stamped-{v}", timed(START_MS), "times do not matter"),
    ),
)

HEADERS = Story(
    "batches that are not whole",
    "Produce",
    (
        topic("odd-{v}"),
        produce("odd-{v}", b"", "empty"),
        produce("odd-{v}", b"\0" * 40, "zeros"),
        produce("odd-{v}", batch(b"a") + batch(b"b"), "two batches"),
        produce("odd-{v}", altered(flip, sealed=False), "wrong CRC"),
        produce("odd-{v}", altered(cut, sealed=False), "cut"),
        produce("odd-{v}", altered(put(">b", 16, 1)), "magic 1"),
        produce("odd-{v}", altered(put(">b", 16, 3)), "magic 3"),
        produce("odd-{v}", altered(put(">q", 0, 5)), "base offset 5"),
        produce("odd-{v}", altered(put(">i", 23, 7)), "last offset beyond the count"),
        produce("odd-{v}", altered(put(">i", 23, -1)), "negative last offset"),
        produce("odd-{v}", altered(put(">i", 57, 2)), "count below the records"),
        produce("odd-{v}", altered(put(">i", 57, -1)), "negative count"),
        produce("odd-{v}", altered(put(">i", 57, 0)), "count zero"),
        produce("odd-{v}", altered(put(">h", 21, 0x20)), "control"),
        produce("odd-{v}", altered(put(">h", 21, 0x08)), "stamped by the producer"),
        produce("odd-{v}", altered(put(">h", 21, 0x07)), "unknown codec"),
        produce("odd-{v}", altered(put(">h", 21, 0x01)), "gzip that is none"),
        produce("odd-{v}", altered(put(">i", 8, 49)), "length of a header"),
        produce("odd-{v}", altered(put(">i", 8, 10)), "length below a header"),
        produce("odd-{v}", batch(b"a", producer_id=5, producer_epoch=0, base_sequence=-1), "no sequence"),
        produce("odd-{v}", batch(b"a", producer_id=5, producer_epoch=-1, base_sequence=0), "no epoch"),
        produce(
            "odd-{v}",
            batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
            "transactional",
        ),
    ),
)

SIZES = Story(
    "batches that are too large",
    "Produce",
    (
        topic("small-{v}", 1, max_message_bytes="1000"),
        topic("small-segments-{v}", 1, segment_bytes="1048576", max_message_bytes="3000000"),
        produce("small-{v}", batch(b"a" * 900), "good"),
        produce("small-{v}", batch(b"a" * 1000), "too large"),
        produce("small-{v}", batch(b"a" * 10_000, codec=Codec.GZIP), "too large before it was compressed"),
        produce("small-segments-{v}", batch(b"a" * 2_000_000), "larger than a segment"),
    ),
)

RECOMPRESSED = Story(
    "refused while they are compressed anew",
    "Produce",
    (
        topic("anew-{v}", 1, compression_type="lz4", cleanup_policy="compact"),
        produce("anew-{v}", keyed((b"k", b"a")), "good"),
        produce("anew-{v}", keyed(*NO_KEYS), "two of four"),
        produce("anew-{v}", keyed(*NO_KEYS, codec=Codec.ZSTD), "two of four, compressed"),
        produce("anew-{v}", altered(put(">i", 57, 2)), "count below the records"),
    ),
)

STORIES = (COMPACTED, TIMES, HEADERS, SIZES, RECOMPRESSED)
