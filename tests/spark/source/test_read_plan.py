"""The tasks of a read, from a bucket: offsets beyond the archive are reported or refused."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.planner import DataLoss
from stratalog.spark.source.read_plan import plan, plan_slices
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.wire.errors import Invalid

Batches = Callable[..., bytes]


@pytest.fixture
def store(memory_archive: Any, batches: Batches) -> Any:
    """Topic ``orders``: partition 0 of two objects, partition 1 of one; 100 offsets each."""
    memory_archive.add("orders", 0, batches(0, 100), batches(100, 100))
    memory_archive.add("orders", 1, batches(0, 100))
    return memory_archive.store


def options(**given: str) -> Any:
    return parse_options({"path": "memory:x", "subscribe": "orders", **given})


def test_slices_come_by_partition_and_offset(store: Any) -> None:
    """Cut to the offsets that were asked for; tasks hold the same slices."""
    asked = options(startingOffsets=json.dumps({"orders": {"0": 150}}))
    slices = plan_slices(store, asked)
    assert [(each.partition, each.start_offset, each.end_offset) for each in slices] == [(0, 150, 200), (1, 0, 100)]
    assert [each for task in plan(store, asked, 2) for each in task] == slices


def test_a_loss_ends_the_query_or_is_reported(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As ``failOnDataLoss`` says."""
    beyond = json.dumps({"orders": {"0": 200, "1": 101}})
    with pytest.raises(DataLoss, match="orders-1: the ending offset 101 is beyond offset 100"):
        plan_slices(store, options(endingOffsets=beyond))
    with caplog.at_level(logging.WARNING):
        slices = plan_slices(store, options(endingOffsets=beyond, failOnDataLoss="false"))
    assert slices[-1].end_offset == 100
    assert "skipped, because failOnDataLoss is false" in caplog.text


def test_offsets_of_partitions_that_are_not_read_are_refused(store: Any) -> None:
    """And with ``strictOffsets`` partitions without one."""
    with pytest.raises(Invalid, match="'startingOffsets' names orders-7, which is not among"):
        plan_slices(store, options(startingOffsets=json.dumps({"orders": {"7": 1}})))
    with pytest.raises(Invalid, match="names no offset for orders-1, and 'strictOffsets' is true"):
        plan_slices(store, options(startingOffsets=json.dumps({"orders": {"0": 1}}), strictOffsets="true"))


@pytest.mark.story
def test_planning_and_reading_need_no_pyspark() -> None:
    """Reading without Spark does not need PySpark installed."""
    program = (
        "import sys; sys.modules['pyspark'] = None; import stratalog.spark.source.read_plan, stratalog.spark.source.fetch, "
        "stratalog.spark.source.read_lease; print('done')"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "done\n"
    )


@pytest.mark.parametrize("whole_bytes_max", [0, 8 << 20])
def test_a_hundredth_of_the_time_costs_a_twentieth_of_the_bytes(
    memory_archive: Any, batches: Batches, monkeypatch: pytest.MonkeyPatch, whole_bytes_max: int
) -> None:
    """At most, planning included, whether objects come whole or by their chunks; rows are those of the time."""
    monkeypatch.setattr("stratalog.spark.source.fetch.WHOLE_BYTES_MAX", whole_bytes_max)
    memory_archive.chunk_bytes = 2000
    segments = [batches(i * 200, 200, timestamp_ms=1_000_000 + i * 200_000) for i in range(100)]
    entries = memory_archive.add("orders", 0, *segments)
    fetched: list[int] = []

    class Counting(StoreWrapper):
        def get_range(self, key: str, position: int, length: int) -> bytes:
            fetched.append(length)
            return super().get_range(key, position, length)

        def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
            data, size_bytes = super().get_suffix(key, length)
            fetched.append(len(data))
            return data, size_bytes

    store = Counting(memory_archive.store)
    asked = options(startingTimestamp="11050000", endingTimestamp="11250000")
    slices = plan_slices(store, asked)
    found = [o for b in read_slices(store, slices, ReadRequest(("offset",))) for o in b.column(0).to_pylist()]
    assert found == list(range(10_050, 10_250))
    assert sum(fetched) <= 0.05 * sum(entry.size_bytes for entry in entries)
