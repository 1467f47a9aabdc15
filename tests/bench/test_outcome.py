"""Rotation, medians and bounds: what turns runs into a line of the table."""

import pytest

from bench.cell import Line
from bench.outcome import Bound, failed, interleaved, median, rotated


@pytest.mark.parametrize(
    ("sense", "value", "measured", "held"),
    [
        (">=", 0.5, 0.5, True),
        (">=", 0.5, 0.4999, False),
        ("<=", 2, 2, True),
        ("<=", 2, 2.01, False),
        (">=", 0, None, False),
        ("<=", 9, None, False),
    ],
)
def test_a_bound_holds_its_own_value_and_nothing_unmeasured(sense, value, measured, held):
    """Floors and ceilings include their value; a figure that is missing never passes."""
    assert Bound(sense, value).held_by(measured) is held


def test_each_kind_runs_once_a_repetition_and_follows_another_one_each_time():
    """Three kinds in three repetitions: each is first once, and results stay in order of time."""
    order = []

    def run(kind, repetition):
        order.append(kind)
        return len(order), repetition

    results = interleaved(("a", "b", "c"), 3, run)
    assert order == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert results["a"] == [(1, 0), (6, 1), (8, 2)]


def test_rotation_keeps_every_kind():
    """Turning further than there are kinds begins again."""
    assert rotated(["x", "y"], 5) == ["y", "x"]
    assert rotated(["x"], 3) == ["x"]


def test_the_median_of_an_even_number_of_runs_lies_between_the_middle_two():
    """One run that a neighbour disturbed does not decide."""
    assert median([1.0, 2.0, 4.0, 100.0]) == 3.0


def test_a_line_is_written_with_four_digits_and_says_whether_it_held():
    """The form of latest.json."""
    outcome = Line("c", "s", Bound("<=", 1.0)).outcome(0.123456)
    assert outcome.as_json() == {"cell": "c", "unit": "s", "measured": 0.1235, "target": "<= 1", "held": True}
    assert failed("c", "s", Bound("<=", 1.0), "why").as_json()["measured"] is None
