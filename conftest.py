"""How the tests share the cores of a machine, and how much CPU each may take."""

from __future__ import annotations

import ast
import gc
import os
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A machine that does much else is no failure: no deadline, no complaint about slow inputs.
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", QUICK)
settings.register_profile("deep", QUICK, max_examples=1000)
settings.load_profile("quick")

CPU_SECONDS_MAX = 2.0
"""CPU time of the test process, all its threads, for the body of one test. Waiting and other processes do not count."""

CPU_MARGIN = 5.0
"""How many times the budget fails a test: the same work was seen to take 2.5 times as long among busy neighbours."""

MEASURE = "values = {1: (2, 3), 'a': [x for x in range(9)]}\n" * 100
MEASURE_SECONDS = 0.003
"""CPU time that parsing `MEASURE` takes where nothing else runs, on the machine on which the limit was chosen."""

COSTLY_TESTS: dict[str, str] = {
    "tests/sim/test_bugs.py::test_every_bug_is_found": "runs of the whole broker until one finds the bug",
    "tests/sim/test_seeds.py::test_every_invariant_holds": "10 runs of the whole broker",
    "tests/test_imports.py::test_no_files_need_each_other": "reads every file of every room",
    "tests/model/test_protocol.py::test_the_protocol_holds": "every order of events within a bound",
    "tests/model/test_replicas.py::test_logs_and_archive_agree": "every order of events within a bound",
}
"""Test function: why it may take more than `CPU_SECONDS_MAX` in the default run. Cheaper is better than listed here."""

UNLIMITED = frozenset(
    {"browser", "cluster", "conformance", "crash", "iceberg", "java", "node", "package", "s3", "slow", "story"}
)
"""Markers whose tests are no part of the default run; each may take the time it takes."""

ROOT = Path(__file__).parent
USES_SPARK = re.compile(r"mark\.spark\b|def test_\w+\((?:[^)]*[ (,\n])?spark\b")
"""The text of a file whose tests use the Spark session of their process."""

LONGEST_FIRST = ("tests/model/", "tests/sim/", "tests/faults/")
"""Files that take longest, by how their names begin: begun last, they would keep one core busy alone."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many processes again as cores for ``-n auto``: much of the time tests wait, for brokers, clocks and a JVM."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


@cache
def starts_spark(path: str) -> bool:
    """True if a test of this file uses the Spark session of its process; the path is relative to the repository."""
    return bool(USES_SPARK.search((ROOT / path).read_text()))


def turn(item: pytest.Item) -> int:
    """The place of a test in the run: files with Spark, those of `LONGEST_FIRST`, all others."""
    path = item.nodeid.partition("::")[0]
    if starts_spark(path):
        return 0
    ranks = [rank for rank, start in enumerate(LONGEST_FIRST, 1) if path.startswith(start)]
    return ranks[0] if ranks else len(LONGEST_FIRST) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the processes of xdist put the longest first. A single process keeps the order of the files."""
    if hasattr(config, "workerinput"):
        items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the collector what is imported and collected: it stays, and looking through it took a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With ``--dist loadgroup`` the tests of a file run in one process, and those of all files with Spark do.

    So fixtures of a module are made once, and one JVM serves all tests.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling  # noqa: PLC0415 - a test run without xdist is a test run, too

    class SparkAndFiles(LoadGroupScheduling):
        """Goes by the text of the files: the marks of tests do not reach the process that schedules them."""

        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "spark" if starts_spark(path) else path

    config.option.loadscopereorder = False
    return SparkAndFiles(config, log)  # type: ignore[arg-type]


def is_limited(item: pytest.Item) -> bool:
    """True for tests of the default run, those on Spark aside, that `COSTLY_TESTS` does not name."""
    markers = {marker.name for marker in item.iter_markers()}
    if markers & UNLIMITED or settings.default.max_examples > QUICK.max_examples:
        return False
    if item.nodeid.startswith(("tests/spark/", "tests/cli/spark/")):
        return False  # the first one of a process pays for the imports of all: Arrow, pandas, PySpark
    return item.nodeid.partition("[")[0].partition("@")[0] not in COSTLY_TESTS


def slowness() -> float:
    """How many times longer this machine computes now than the quiet one of `MEASURE_SECONDS`; 1 at least.

    Neighbours take caches and half of a core's units away, so CPU time grows with the load, too. Load changes from second
    to second: this is no measure of the load while the test ran, so `CPU_MARGIN` comes on top.
    """
    begun = time.process_time()
    for _ in range(30):
        sum(1 for _ in ast.walk(ast.parse(MEASURE)))
    return max(1.0, (time.process_time() - begun) / 30 / MEASURE_SECONDS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test of the default run whose body takes far more CPU time than a unit test may."""
    begun = time.process_time()
    yield
    seconds = time.process_time() - begun
    far = CPU_SECONDS_MAX * CPU_MARGIN
    if seconds > far and is_limited(item) and seconds > far * slowness():
        pytest.fail(
            f"{seconds:.1f} s of CPU, more than {CPU_SECONDS_MAX} s by far: make the test cheaper, mark it slow, "
            "or name it in COSTLY_TESTS of conftest.py",
            pytrace=False,
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how fast the machine is now: the time of a run says little without it."""
    terminalreporter.write_line(
        f"CPU time here is {slowness():.1f} times that of the machine of the limits in conftest.py"
    )
