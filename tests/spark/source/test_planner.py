"""From options to offsets and limits, without store or Spark."""

from __future__ import annotations

import json

import pytest

from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import limits_of, resolve_range
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.planning.slices import OffsetRange, PartitionArchive, cut_slices
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 0)


def archived() -> PartitionArchive:
    """Two objects of a hundred records each, from offset 100 on; reading begins inside the first."""
    data = [
        build_batch([Record(at, 1000 * at, None, b"") for at in range(base, base + 100)], leader_epoch=0)
        for base in (100, 200)
    ]
    manifest = archive_log(MemoryStore(), PartitionId("orders", bytes(16), 0), list(map(bytes, data)), now_ms=1)
    return PartitionArchive(ORDERS, 120, manifest.remote_end, manifest.entries)


def resolve(view: PartitionArchive, found: int | None = None, **options: str) -> OffsetRange:
    return resolve_range(view, parse_options({"path": "s3://b/p", "subscribe": "orders", **options}), lambda *_: found)


def offsets(**partitions: int) -> str:
    return json.dumps({"orders": {name[1:]: offset for name, offset in partitions.items()}})


VIEW = archived()


def test_by_default_all_is_read() -> None:
    """From the log start, which may lie inside the first object, to the end."""
    assert resolve(VIEW) == (120, 300, ())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": offsets(p0=150)}, (150, 300)),
        ({"endingOffsets": offsets(p0=150)}, (120, 150)),
        ({"startingOffsets": offsets(p0=-2), "endingOffsets": offsets(p0=-1)}, (120, 300)),
        ({"startingOffsets": offsets(p0=300)}, (300, 300)),
        ({"startingOffsets": offsets(p9=3)}, (120, 300)),
    ],
)
def test_offsets_bound_the_range(options: dict[str, str], expected: tuple[int, int]) -> None:
    """The end is exclusive; partitions that are not named are read whole."""
    assert resolve(VIEW, **options)[:2] == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsetsByTimestamp": offsets(p0=-2)}, (120, 300)),
        ({"startingOffsetsByTimestamp": offsets(p0=-1)}, (300, 300)),
        ({"startingTimestamp": "-2", "endingTimestamp": "-1"}, (120, 300)),
        ({"startingTimestamp": "-1"}, (300, 300)),
        ({"endingTimestamp": "-2"}, (120, 120)),
        ({"endingOffsetsByTimestamp": offsets(p0=-2)}, (120, 120)),
        ({"endingOffsetsByTimestamp": offsets(p0=-1)}, (120, 300)),
        ({"startingOffsetsByTimestamp": offsets(p0=-2), "startingOffsets": "latest"}, (120, 300)),
    ],
)
def test_times_below_zero_are_ends_of_the_log(options: dict[str, str], expected: tuple[int, int]) -> None:
    """As ListOffsets takes them, to which Spark's Kafka source hands times on; no time is looked for."""
    assert resolve(VIEW, found=-99, **options) == (*expected, ())


@pytest.mark.parametrize(
    ("options", "expected", "loss"),
    [
        (
            {"startingOffsets": offsets(p0=7)},
            (120, 300),
            "orders-0: the starting offset 7 is below the log start offset 120",
        ),
        ({"startingOffsets": offsets(p0=301)}, (300, 300), "orders-0: the starting offset 301 is beyond offset 300"),
        ({"endingOffsets": offsets(p0=301)}, (120, 300), "orders-0: the ending offset 301 is beyond offset 300"),
        ({"endingOffsets": offsets(p0=7)}, (120, 120), "orders-0: the ending offset 7 is below"),
    ],
)
def test_offsets_outside_are_losses(options: dict[str, str], expected: tuple[int, int], loss: str) -> None:
    """Offsets that the archive does not hold are reported, and the rest is read."""
    found = resolve(VIEW, **options)
    assert found[:2] == expected
    assert found.losses[0].startswith(loss)


def test_a_start_behind_the_end_is_refused() -> None:
    """It is a mistake of the caller, not a loss."""
    with pytest.raises(Invalid, match="orders-0: the starting offset 250 is greater than the ending offset 150"):
        resolve(VIEW, startingOffsets=offsets(p0=250), endingOffsets=offsets(p0=150))


def test_times_become_offsets() -> None:
    """The first offset whose record is not older, on both sides."""
    assert resolve(VIEW, 170, startingTimestamp="1")[:2] == (170, 300)
    assert resolve(VIEW, 170, endingTimestamp="1")[:2] == (120, 170)


def test_times_behind_the_last_record() -> None:
    """An ending time reads to the end; a starting one is an error, or nothing, as the strategy says."""
    assert resolve(VIEW, endingTimestamp="1")[:2] == (120, 300)
    assert resolve(VIEW, startingTimestamp="1", startingOffsetsByTimestampStrategy="latest")[:2] == (300, 300)
    with pytest.raises(Invalid, match="orders-0: no record is as new as the starting timestamp 1"):
        resolve(VIEW, startingTimestamp="1")


def test_the_options_bound_the_tasks() -> None:
    """Bytes, records and the least number of tasks are passed on."""
    slices, _ = cut_slices(VIEW, OffsetRange(120, 300))
    options = {"path": "s3://b/p", "subscribe": "orders", "minPartitions": "6", "maxRecordsPerPartition": "50"}
    assert limits_of(slices, parse_options(options), 1).records == 30
    assert limits_of(slices, parse_options({**options, "minPartitions": "2"}), 1).records == 50


def test_a_stream_may_start_at_the_end() -> None:
    """Said so, or by saying nothing."""
    for options in ({}, {"startingOffsets": "latest"}, {"startingOffsets": offsets(p0=-1)}):
        parsed = parse_options({"path": "s3://b/p", "subscribe": "orders", **options}, streaming=True)
        assert resolve_range(VIEW, parsed, lambda *_: None) == (300, 300, ())
