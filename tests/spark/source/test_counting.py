"""Counts from manifests and headers against counts of decoded rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stratalog import spark as sl
from stratalog.spark.archive_store import open_archive
from stratalog.spark.source import counting
from stratalog.spark.source.counting import count_archive, count_manifest
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import ReadOptions, parse_options
from stratalog.spark.source.read_plan import plan_ranges, plan_slices
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch, build_control_batch, iter_headers
from stratalog.wire.compression import Codec

Batches = Callable[..., bytes]
NO_SPARK: Any = None
"""Little is looked at on the driver."""


def transactions(rolls: random.Random, first: int, count: int) -> tuple[bytes, list[AbortedTransaction]]:
    """Transactions of two producers, one after the other, some of them aborted, between plain batches."""
    data, aborted, offset = bytearray(), [], first
    for number in range(count):
        producer = {"producer_id": 7 + number % 2, "producer_epoch": 0, "transactional": True, "leader_epoch": 0}
        start, size = offset, rolls.randrange(1, 9)
        data += build_batch([Record(offset + i, 1_000, b"k", b"v") for i in range(size)], base_sequence=0, **producer)
        offset += size
        commit = rolls.random() < 0.5
        data += build_control_batch(int(commit), bytes(6), offset=offset, timestamp_ms=1_000, **producer)
        if not commit:
            aborted.append(AbortedTransaction(producer["producer_id"], start, offset, offset + 1))
        offset += 1
        data += build_batch([Record(offset, 1_000, None, b"plain")], codec=Codec.ZSTD, leader_epoch=0)
        offset += 1
    return bytes(data), aborted


def compacted(rolls: random.Random, first: int, count: int) -> bytes:
    """Batches with holes between and inside them, as the cleaner leaves them."""
    data = bytearray()
    for start in range(first, first + count, 10):
        ends = {first, first + count - 1}  # objects must meet
        kept = [
            Record(o, 1_000, b"k%d" % o, b"v") for o in range(start, start + 10) if rolls.random() < 0.4 or o in ends
        ]
        if kept:
            data += build_batch(kept, leader_epoch=0)
    return bytes(data)


@pytest.fixture
def archive(tmp_path: Path, batches: Batches) -> str:
    """Topics ``plain``, ``transactional`` and ``compacted``, three objects each."""
    store, rolls = open_store(f"file://{tmp_path}"), random.Random(5)
    plain = [batches(i * 100, 100, codec=Codec.LZ4 if i else Codec.NONE) for i in range(3)]
    archive_log(store, PartitionId("plain", b"p" * 16, 0), plain, now_ms=1)
    data, aborted, segments = b"", [], []
    for _ in range(3):
        data, more = transactions(rolls, len_offsets(segments), 8)
        segments.append(data)
        aborted += more
    archive_log(store, PartitionId("transactional", b"t" * 16, 0), segments, now_ms=1, aborted=aborted, chunk_bytes=500)
    cleaned = [compacted(rolls, i * 100, 100) for i in range(3)]
    archive_log(store, PartitionId("compacted", b"c" * 16, 0), cleaned, now_ms=1, compacted=True)
    return store.url


def len_offsets(segments: list[bytes]) -> int:
    """The offset behind these segments."""
    return [header for _, header in iter_headers(segments[-1])][-1].next_offset if segments else 0


def decoded(options: ReadOptions) -> int:
    """The same, by decoding every record."""
    store = open_archive(options.archive, options.store_options)
    request = ReadRequest(("offset", "value"), read_committed=options.read_committed)
    return sum(batch.num_rows for batch in read_slices(store, plan_slices(store, options), request))


@pytest.mark.story
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("topic", ["plain", "transactional", "compacted"])
def test_a_count_is_that_of_a_full_decode(archive: str, topic: str, isolation: str) -> None:
    """Rows of the whole, and between any two offsets."""
    rolls = random.Random(3)
    given = {"path": archive, "subscribe": topic, "kafka.isolation.level": isolation, "lease": "false"}
    everything = parse_options(given)
    end = plan_slices(open_archive(archive, {}), everything)[-1].end
    bounds = [sorted((rolls.randrange(end + 1), rolls.randrange(end + 1))) for _ in range(25)]
    for start, stop in [(0, end), *bounds]:
        ends = {"startingOffsets": f'{{"{topic}":{{"0":{start}}}}}', "endingOffsets": f'{{"{topic}":{{"0":{stop}}}}}'}
        options = parse_options({**given, **ends})
        assert count_archive(NO_SPARK, options) == decoded(options), (start, stop)
    assert count_archive(NO_SPARK, everything) == decoded(everything) > 0


def test_only_what_the_manifest_does_not_tell_is_looked_at(archive: str) -> None:
    """No object of a plain topic; those that a border cuts of a compacted one; those with aborted transactions."""
    store = open_archive(archive, {})

    def looked_at(topic: str, *, read_committed: bool, **given: str) -> list[int]:
        options = parse_options({"path": archive, "subscribe": topic, **given})
        counted = count_manifest(plan_ranges(store, options), read_committed=read_committed)
        return [each.base for each in counted.slices]

    assert looked_at("plain", read_committed=True, startingOffsets='{"plain":{"0":150}}') == []
    assert looked_at("compacted", read_committed=True) == []
    assert looked_at("compacted", read_committed=True, startingOffsets='{"compacted":{"0":150}}') == [100]
    assert len(looked_at("transactional", read_committed=True)) == 3
    assert looked_at("transactional", read_committed=False) == []


@pytest.mark.story
@pytest.mark.spark
def test_much_to_look_at_is_a_job(spark: SparkSession, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks are those of a read; the number is the same."""
    monkeypatch.setattr(counting, "_DRIVER_BYTES_MAX", 0)
    expected = sum(decoded(parse_options({"path": archive, "subscribe": t})) for t in ("transactional", "compacted"))
    assert sl.count(spark, archive, topics=["transactional", "compacted"], lease=False, minPartitions=3) == expected
