"""Gaps between acknowledgements."""

import pytest

from bench.steady_producer import longest_gap


def test_the_last_acknowledgement_before_the_event_bounds_the_gap_behind_it():
    """Else the time from it to the event would be missing."""
    assert longest_gap([1.0, 1.1, 3.0, 3.1], 1.2, 4.0) == pytest.approx(1.9)


def test_gaps_before_the_event_do_not_count():
    """Only what the event caused is of interest."""
    assert longest_gap([0.0, 1.0, 1.1, 1.2], 1.05, 4.0) == pytest.approx(0.1)


def test_later_gaps_count_until_the_end():
    """And none behind it."""
    assert longest_gap([1.0, 1.1, 1.2, 2.0, 9.0], 1.1, 3.0) == pytest.approx(0.8)


def test_without_any_acknowledgement_there_is_no_figure():
    """A gap without an end has no length."""
    with pytest.raises(SystemExit, match="no record was acknowledged"):
        longest_gap([1.0], 1.5, 3.0)
