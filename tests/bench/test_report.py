"""Result files: a line for every cell, whatever was run."""

import json

import pytest

from bench.catalogue import CELLS, every_outcome, selected
from bench.outcome import Bound, Outcome, failed
from bench.report import merged, render, write

EVERY = [failed(name, "s", Bound("<=", 1), "not measured") for name in ("a", "b", "c")]


def test_a_line_of_an_earlier_run_stays_until_it_is_measured_again():
    """Fresh before earlier before nothing; a cell that no longer exists goes."""
    earlier = [
        {"cell": "a", "unit": "s", "measured": 3.0, "target": "<= 1", "held": False},
        {"cell": "b", "unit": "s", "measured": 0.5, "target": "<= 1", "held": True},
        {"cell": "gone", "unit": "s", "measured": 1.0, "target": "<= 1", "held": True},
    ]
    rows = merged([Outcome("a", "s", 0.25, Bound("<=", 1))], earlier, EVERY)
    assert [(row["cell"], row["measured"], row["held"]) for row in rows] == [
        ("a", 0.25, True),
        ("b", 0.5, True),
        ("c", None, False),
    ]


def test_both_files_are_written_and_merged_with_what_was_there(tmp_path):
    """A run of some cells keeps the details of the others."""
    write([Outcome("a", "s", 0.5, Bound("<=", 1), details={"runs": 3})], EVERY, {"call_us": 0.1}, tmp_path)
    write([Outcome("b", "s", 2.0, Bound("<=", 1))], EVERY, {"call_us": 0.2}, tmp_path)
    latest = json.loads((tmp_path / "latest.json").read_text())
    details = json.loads((tmp_path / "details.json").read_text())
    assert [row["measured"] for row in latest] == [0.5, 2.0, None]
    assert details["a"]["runs"] == 3
    assert details["primitives"] == {"call_us": 0.2}
    assert details["machine"]["python"]


def test_the_table_names_what_is_missed_and_why():
    """Notes stand below, once for all cells that share them."""
    text = render([failed("a", "s", Bound("<=", 1), "no disk"), failed("b", "s", Bound("<=", 1), "no disk")])
    assert text.count("NO") == 2
    assert text.splitlines()[-1] == "* no disk: a, b"


def test_every_cell_of_the_table_has_a_line():
    """One for each, with a name of its own."""
    names = [outcome.cell for outcome in every_outcome()]
    assert len(names) == len(set(names)) == sum(len(cell.lines) for cell in CELLS.values()) > 18


def test_cells_are_chosen_by_the_beginning_of_their_names():
    """In the order of the table; a word that fits none is refused."""
    assert selected("fetch, produce-1M") == ["produce-1MiB", "fetch-1MiB"]
    assert selected("") == list(CELLS)
    with pytest.raises(ValueError, match="nothing"):
        selected("nothing")
