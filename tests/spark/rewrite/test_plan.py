"""Which objects become one, and how far a compaction goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.spark.rewrite.plan import OBJECTS_MAX, clean_end, plan_groups, run_borders
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import Pin

TOPIC = PartitionId("t", b"t" * 16, 0)


def entry(base: int, end: int, data_bytes: int = 10, time_ms: int = 0, **more: Any) -> Entry:
    uuid = base.to_bytes(16, "big")
    numbers = {"min_timestamp_ms": time_ms, "max_timestamp_ms": time_ms, "max_timestamp_offset": base}
    return Entry(uuid, base, end, 1, "key", data_bytes + 5, data_bytes, 0, 0, 0, 0, batch_count=1,
                 record_count=end - base, **{**numbers, **more})  # fmt: skip


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 100), st.sets(st.integers(0, 400)))
def test_groups_cover_all_objects_in_order(sizes: list[int], bytes_max: int, borders: set[int]) -> None:
    """None is too large unless one object is, and none reaches across a border."""
    entries = [entry(10 * n, 10 * n + 10, size) for n, size in enumerate(sizes)]
    groups = plan_groups(TOPIC, entries, bytes_max=bytes_max, first_number=5, no_crossing=borders)
    assert [group.number for group in groups] == list(range(5, 5 + len(groups)))
    assert [uuid for group in groups for uuid in group.uuids] == [one.uuid for one in entries]
    assert groups[0].base == 0
    assert [group.base for group in groups[1:]] == [group.end for group in groups[:-1]]
    for group in groups:
        assert group.data_bytes <= bytes_max or len(group.uuids) == 1
        assert not [one for one in entries if group.base < one.base < group.end and one.base in borders]


def test_groups_are_bounded_in_objects_and_offsets() -> None:
    """A line each in the manifest; an index addresses 2**31 offsets."""
    many = plan_groups(TOPIC, [entry(n, n + 1, 1) for n in range(2 * OBJECTS_MAX + 1)], bytes_max=1 << 30)
    assert [len(group.uuids) for group in many] == [OBJECTS_MAX, OBJECTS_MAX, 1]
    far = plan_groups(
        TOPIC, [entry(0, 1 << 30), entry(1 << 30, 1 << 31), entry(1 << 31, (3 << 30) - 1)], bytes_max=1 << 30
    )
    assert [group.end for group in far] == [1 << 30, (3 << 30) - 1]


def test_a_group_knows_whether_its_count_is_one_of_records_alone() -> None:
    """Markers and aborted records are counted too."""
    plain, marked, void = entry(0, 10), entry(10, 20, control_batch_count=1), entry(20, 30, aborted_count=1)
    for entries, expected in (([plain], True), ([plain, marked], False), ([plain, marked, void], False)):
        (group,) = plan_groups(TOPIC, entries, bytes_max=1 << 20, forgettable_below=7)
        assert (group.plain, group.record_count, group.forgettable_below) == (expected, 10 * len(entries), 7)


@pytest.mark.parametrize(("lag_ms", "expected"), [(0, 40), (100, 20), (950, 0)])
def test_young_records_wait_with_all_that_follows(lag_ms: int, expected: int) -> None:
    """By the newest record of each object."""
    entries = [entry(10 * n, 10 * n + 10, time_ms=time) for n, time in enumerate((100, 200, 950, 300))]
    assert clean_end(entries, now_ms=1_000, lag_ms=lag_ms) == expected
    assert clean_end([], now_ms=1_000, lag_ms=lag_ms) == 0


def test_cuts_are_borders() -> None:
    """Where they begin and where they end."""
    assert run_borders(Manifest(TOPIC, pins=(Pin("a", 1, 70, 30), Pin("b", 1, 90, 30)))) == {30, 70, 90}
