"""Plants each bug of ``mutants.toml`` in a copy of the repository and says which of them the tests catch.

.. code-block:: console

    $ make mutants
    $ make mutants ONLY=manifest
    $ make mutants PART=2/5

Every bug breaks one row of ``docs/safety.md``. A bug is caught when a test fails; one that no test sees, one that
does not even import, and one with which the tests do not end, end the run with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutants.listing import Mutant, part_of, read_mutants
from stratalog.broker.runtime.clock import SystemClock

_ROOT: Final = Path(__file__).resolve().parents[1]
_CAUGHT: Final = 1
"""Pytest's exit code when tests ran and some failed."""
_SELECTED: Final = (
    "not (browser or cluster or conformance or crash or iceberg or java or node or package or s3 or slow)"
)
"""The tests that look for a bug, of the files of its row: those of `make test` and of `make test-stories`."""
_LINES_SHOWN: Final = 25
_SECONDS_MIN: Final = 300.0
_SOUND_RUNS: Final = 3
"""A bug's tests may take so many times as long as all tests took without a bug, and `_SECONDS_MIN` in any case."""


def _copy(target: Path) -> None:
    """Files that git would commit, as they stand now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=_ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source, copy = _ROOT / name, target / name
        if source.is_symlink() or source.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def _pytest(folder: Path, tests: Sequence[str], seconds: float | None) -> tuple[int, str]:
    """Pytest's exit code and what it printed. Raises `subprocess.TimeoutExpired` after ``seconds``."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-m",
        _SELECTED,
        *tests,
    ]
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, text=True, timeout=seconds,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


@contextmanager
def _lent(folders: SimpleQueue[Path]) -> Iterator[Path]:
    folder = folders.get()
    try:
        yield folder
    finally:
        folders.put(folder)


def _plant(mutant: Mutant, folders: SimpleQueue[Path], seconds: float) -> str:
    """An empty text if the bug is caught within ``seconds``, or what happened instead."""
    with _lent(folders) as folder:
        path = folder / mutant.file
        sound = path.read_text()
        path.write_text(mutant.planted(sound))
        try:
            code, output = _pytest(folder, mutant.tests, seconds)
        except subprocess.TimeoutExpired:
            return f"the tests had not ended after {seconds:.0f} s"
        finally:
            path.write_text(sound)
    if code == _CAUGHT:
        return ""
    shown = "\n".join(output.splitlines()[-_LINES_SHOWN:])
    return "no test failed" if code == 0 else f"pytest ended with {code}, not with failed tests:\n{shown}"


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description="Plants bugs and says which of them the tests catch.")
    parser.add_argument("--only", default="", help="bugs whose words or file hold this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at a time")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the Nth of M parts of the list")
    options = parser.parse_args()
    try:
        part = part_of(read_mutants(), options.part)
    except ValueError as problem:
        parser.error(str(problem))
    mutants = [one for one in part if options.only in one.says or options.only in one.file]
    if not mutants:
        parser.error(f"no bug's words or file hold {options.only!r}")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="stratalog-mutants-") as temporary:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            folder = Path(temporary, str(number))
            _copy(folder)
            folders.put(folder)
        with _lent(folders) as folder:
            monotonic = SystemClock().monotonic
            began = monotonic()
            code, output = _pytest(folder, sorted({name for one in mutants for name in one.tests}), None)
            seconds = max(_SECONDS_MIN, _SOUND_RUNS * (monotonic() - began))
        if code:
            print(output)
            print("The tests fail without any bug planted.")
            return 1
        with ThreadPoolExecutor(options.jobs) as threads:
            results = threads.map(partial(_plant, folders=folders, seconds=seconds), mutants)
            for mutant, problem in zip(mutants, results, strict=True):
                missed += bool(problem)
                print(f"{'MISSED' if problem else 'caught'}  {mutant.file}: {mutant.says}", flush=True)
                if problem:
                    print(problem)
    print(f"{len(mutants) - missed} of {len(mutants)} bugs caught.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
