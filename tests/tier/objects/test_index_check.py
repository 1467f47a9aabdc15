from __future__ import annotations

import pytest

from stratalog.tier.objects.index_check import IndexCheck
from stratalog.tier.objects.segment_blobs import OFFSET_ENTRY, TIME_ENTRY

BATCHES = [(0, 109), (70, 119), (140, 129), (210, 139)]
"""Position and last offset of the batches of the range [100, 140)."""
OFFSETS = OFFSET_ENTRY.pack(19, 70) + OFFSET_ENTRY.pack(39, 210)
TIMES = TIME_ENTRY.pack(5, 19) + TIME_ENTRY.pack(9, 39)


def faults(offsets, times, max_timestamp_ms=9):
    """The faults of these indexes of the batches above."""
    check = IndexCheck(100, 140, offsets, times)
    for position, last_offset in BATCHES:
        check.add(position, last_offset)
    return check.finish(max_timestamp_ms)


def test_indexes_that_point_to_batches_are_right():
    """Sparse ones, and none at all."""
    assert faults(OFFSETS, TIMES) == []
    assert faults(b"", b"") == []


@pytest.mark.parametrize(
    "offsets",
    [
        OFFSETS[:-1],
        OFFSET_ENTRY.pack(18, 70),
        OFFSET_ENTRY.pack(19, 71),
        OFFSET_ENTRY.pack(39, 210) + OFFSET_ENTRY.pack(19, 70),
        OFFSETS + OFFSET_ENTRY.pack(49, 280),
    ],
)
def test_an_offset_index_that_points_elsewhere_is_found(offsets):
    """Half an entry, another offset, another position, wrong order, beyond the end."""
    (fault,) = faults(offsets, TIMES)
    assert "offset index" in fault


@pytest.mark.parametrize(
    "times",
    [
        TIMES[:-1],
        TIME_ENTRY.pack(9, 19) + TIME_ENTRY.pack(5, 39),
        TIME_ENTRY.pack(5, 39) + TIME_ENTRY.pack(9, 19),
        TIME_ENTRY.pack(9, 40),
        TIME_ENTRY.pack(8, 39),
    ],
)
def test_a_time_index_out_of_order_is_found(times):
    """Half an entry, times back, offsets back, beyond the range, not the largest timestamp."""
    (fault,) = faults(OFFSETS, times)
    assert "time index" in fault
