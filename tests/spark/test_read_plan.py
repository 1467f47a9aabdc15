"""The tasks of a read, from a bucket: what is asked for beyond the archive is told or refused."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from stratalog.spark.options import parse_options
from stratalog.spark.planner import DataLoss
from stratalog.spark.read_plan import plan, plan_slices
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


def test_what_is_gone_ends_the_query_or_is_told(store: Any, caplog: pytest.LogCaptureFixture) -> None:
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


def test_planning_and_reading_need_no_pyspark() -> None:
    """Whoever reads without Spark need not install it."""
    program = (
        "import sys; sys.modules['pyspark'] = None; import stratalog.spark.read_plan, stratalog.spark.fetch, "
        "stratalog.spark.read_lease; print('done')"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "done\n"
    )
