"""When a marker that is not needed goes."""

from __future__ import annotations

import pytest

from stratalog.hot.cleaner.horizons import HorizonRules, needless_marker
from stratalog.hot.config import LONG_MAX
from stratalog.wire.batch import build_control_batch, iter_records, read_header

RULES = HorizonRules(now_ms=10_000, delete_retention_ms=500, forgettable_below=100)


def marker(offset: int) -> memoryview:
    """An abort marker."""
    return memoryview(
        build_control_batch(
            0, bytes(6), offset=offset, timestamp_ms=7, leader_epoch=0, producer_id=1, producer_epoch=0,
            transactional=True,
        )
    )  # fmt: skip


@pytest.mark.parametrize("offset", [99, 100])
def test_a_marker_gets_a_horizon_first_and_goes_when_that_is_over(offset: int) -> None:
    """Only below the offset up to which the archive is cleaned; until then the batch stays as it stands."""
    first = marker(offset)
    left, rebuilt = needless_marker(read_header(first), first, RULES)
    assert rebuilt
    assert left is not None
    header, batch = read_header(left), memoryview(left)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, 10_500)
    assert needless_marker(header, batch, RULES) == (batch, False)
    goes = needless_marker(header, batch, RULES._replace(now_ms=10_500))
    assert goes == ((None, False) if offset < 100 else (batch, False))


@pytest.mark.parametrize("retention_ms", [LONG_MAX, LONG_MAX - 9_999])
def test_a_retention_of_all_time_keeps_markers_for_ever(retention_ms: int) -> None:
    """The horizon is the last moment that a batch can say: one beyond it ended the compaction of the topic."""
    first = marker(0)
    left, _ = needless_marker(read_header(first), first, RULES._replace(delete_retention_ms=retention_ms))
    assert left is not None
    header = read_header(left)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, LONG_MAX)
    assert [record.timestamp_ms for record in iter_records(left)] == [7]
