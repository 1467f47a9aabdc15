"""The power goes at every named point of the archive; and the list of points is what the code and the documents say."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from sim.points import POINTS, find
from sim.power import NEVER_PASSED, run_points
from sim.under.remains import Mood
from stratalog.broker.archive import deleted_archives
from stratalog.broker.archive import partition_archive as archive
from stratalog.broker.archive import removal as archive_removal
from stratalog.broker.cold import reader as remote_reader
from stratalog.tier.work import work

SAFETY = Path(__file__).parents[2] / "docs" / "safety.md"
SEEDS_MAX = 8
STORIES = 14
"""Every point is passed by all of them; the power goes at each in one."""
SAMPLE = 2
"""So many of them run with `make test-stories`; `make test-slow` runs the others."""
CHANGE_NOTHING = {
    "find_largest_timestamp",
    "find_timestamp",
    "read_aborted",
    "read_restart_state",
    "read_bounded_view",
    "read_cut_of",
    "read_last_batch",
    "look_at_bucket",
    "<lambda>",  # the catalogue
}
"""Commands that only read and whose answers are not kept."""
TOLD = {"_ended", "_warn", "_failed", "_fill_failed", "_remember", "note_trash"}
"""Methods that are handed a report by the one that received it."""
OF_SEVERAL = {"_asked"}
"""Methods that only a broker of several nodes comes by; the broker of these runs is a cluster by itself."""


def check(names: list[str], seed: int, mood: Mood | None = Mood.DROP) -> None:
    """The story came to its end; points that it did not come by are tried with other times for everything."""
    for each in range(seed, seed + SEEDS_MAX):
        outcome = run_points(names, mood=mood, seed=each)
        problem = outcome.problem or ""
        if not problem.startswith(NEVER_PASSED):
            break
        names = [name for name in names if f"{name} (" in problem]
    words = ", ".join(f"{name} ({POINTS[name].what})" for name in names)
    assert not problem, "\n".join([*outcome.lines, *outcome.errors, words, problem])


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.slow if number >= SAMPLE else pytest.mark.story)
        for number in range(STORIES)
    ],
)
def test_unsynced_bytes_are_gone(number):
    """At several points of one story, one after the other; afterwards everything is as it was acknowledged."""
    names = list(POINTS)[number::STORIES]
    check(names, 1)


@pytest.mark.slow
@pytest.mark.parametrize("mood", [Mood.DROP, Mood.MIXED, None], ids=["lost", "torn", "killed"])
@pytest.mark.parametrize("name", POINTS)
def test_each_point_by_itself(name, mood):
    """All that was not synced is lost, or any part of it is torn; or the processes alone die."""
    check([name], 2, mood)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 13))
@pytest.mark.parametrize("number", range(STORIES))
def test_many_stories(number, seed):
    """Other times for everything, other remains on the disk."""
    names = list(POINTS)[number::STORIES]
    check(names, seed, Mood.MIXED)


def test_every_point_is_a_place_in_the_code():
    """A function that is renamed takes its point along, or this fails."""
    for point in POINTS.values():
        for target in filter(None, (point.target, point.simulated)):
            assert callable(find(target)[2])


def test_every_command_has_a_point_behind_it():
    """Done, and not reported: a new command that changes anything needs a point."""
    after = {find(point.target)[2] for point in POINTS.values() if not point.before}
    bare = {one.__name__ for one in work._EXECUTORS.values() if one not in after}
    assert bare == CHANGE_NOTHING


@pytest.mark.parametrize("module", [archive, archive_removal, deleted_archives, remote_reader])
def test_every_report_has_a_point_before_it(module):
    """Reported, and unknown to the broker: a new receiver of reports needs a point."""
    before = {find(point.target)[2] for point in POINTS.values() if point.before}
    for cls in vars(module).values():
        if not inspect.isclass(cls) or cls.__module__ != module.__name__:
            continue
        for name, method in vars(cls).items():
            if (
                inspect.isfunction(method)
                and "report" in inspect.signature(method).parameters
                and name not in TOLD | OF_SEVERAL
            ):
                assert method in before, f"{cls.__name__}.{name} receives a report, and no point is before it"


def test_the_table_of_points_is_the_list():
    """Names and places, in order."""
    rows = re.findall(r"^\| ((?:UP|DL|RD)\d+) \| ([^|]+) \|", SAFETY.read_text("utf-8"), re.MULTILINE)
    assert rows == [(name, point.what) for name, point in POINTS.items()]
