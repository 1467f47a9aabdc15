"""Tests of tier/planning/planned_range.py."""

import pytest

from stratalog.tier.manifests.lifecycle import RangeEvent, RangeState
from stratalog.tier.planning.plan_events import RangeRef
from stratalog.tier.planning.planned_range import PlannedRange


def test_an_attempt_has_its_name():
    """Another attempt at the same offsets is another one."""
    assert PlannedRange(5, 9, attempt=2).ref == RangeRef(5, 9, 2)


@pytest.mark.parametrize("state", [RangeState.SEALED, RangeState.COPYING, RangeState.UPLOADED])
def test_a_range_is_archived_wherever_its_upload_stood(state):
    """By its own commit, or by the objects of another writer."""
    planned = PlannedRange(0, 5, state)
    planned.settle()
    assert planned.state is RangeState.COMMITTED


def test_a_range_in_quarantine_is_passed_over():
    """Its bytes are damaged still."""
    planned = PlannedRange(0, 5, RangeState.COPYING)
    planned.take(RangeEvent.UPLOAD_CORRUPT)
    planned.settle()
    assert planned.state is RangeState.QUARANTINED
