"""librdkafka's own test suite in C: fetched with a package of npm that carries the whole source, built, and run.

Debian's source is too old for some of the tests, and the wheels of confluent-kafka hold only the library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import kafka_program
from tests.conformance.kafka_program import PROGRAMS

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
"""Carries librdkafka 2.15.1 with its tests. ``npm pack`` fetches the archive and runs none of its scripts."""
FEATURES_OFF = ("gssapi", "curl", "zstd", "lz4-ext", "debug-symbols", "optimization")
"""Built without what the machine might lack. The listener here is without TLS and SASL; zstd is judged elsewhere."""
KAFKA_VERSION = "4.1.0"
"""From 4.2.0 on the suite takes share groups for granted, and this broker has none."""
TIME_FACTOR = 3
"""The suite's limits are meant for a machine that does nothing else."""
LINE_OF_FAILURE = re.compile(r'### Test "(?P<name>\w+)[^"]*" failed at (?P<place>\S+?\(\)).*?###\S*\n(?P<reason>.*)')


@dataclass(frozen=True)
class Mended:
    """A line of the suite that is changed before it is built, as a regular expression."""

    path: str
    pattern: str
    line: str


THREE_REPLICAS = r"(test_create_topic_wait_exists\([^;]*), 3, 5000\)"
MENDED = (
    # These ask for topics with three replicas; a single broker has one.
    Mended("0103-transactions.c", THREE_REPLICAS, r"\1, 1, 5000)"),
    Mended("0107-topic_recreate.c", THREE_REPLICAS, r"\1, 1, 5000)"),
    Mended("0111-delay_create_topics.cpp", r"(Test::create_topic\([^;]*), 1, 3\)", r"\1, 1, 1)"),
    # It waits for "session timeout + 1s", but `test_create_consumer` has put 6 s in the place of the 5 s that it set.
    Mended("0081-admin.c", r"(Wait session timeout \+ 1s\.[^;]*rd_sleep)\(6\)", r"\1(7)"),
)


@dataclass(frozen=True)
class Ended:
    """One run of the suite."""

    states: dict[str, str]
    """PASSED, FAILED or SKIPPED by the name of the test, such as ``0011_produce_batch``."""
    reasons: dict[str, str]
    """By the name of a test that failed: where, and the first line of what it said."""

    @property
    def failed(self) -> dict[str, str]:
        """Those that did not pass, with the reason."""
        return {
            name: self.reasons.get(name, state)
            for name, state in self.states.items()
            if state not in ("PASSED", "SKIPPED")
        }

    @property
    def passed(self) -> set[str]:
        """The names of those that passed."""
        return {name for name, state in self.states.items() if state == "PASSED"}


def built_suite(build: Path) -> Path:
    """The folder with the program ``test-runner``, fetched and built in ``build`` at the first call (two minutes).

    Raises `subprocess.CalledProcessError` where npm, a C++ compiler or make is missing or fails.
    """
    folder = build / PACKAGE.rpartition("@")[0].strip("@").replace("/", "-")
    tests = folder / "librdkafka" / "tests"
    if (tests / "test-runner").exists():
        return tests
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = subprocess.run(
        ["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        # Python before 3.11.4 knows no filters.
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    source = folder / "package" / "deps" / "librdkafka"
    for mended in MENDED:
        path = source / "tests" / mended.path
        text, count = re.subn(mended.pattern, mended.line, path.read_text())
        assert count, f"{mended.pattern} is not in {path}"
        path.write_text(text)
    with (folder / "build.log").open("w") as log:
        configure = ["./configure", *(f"--disable-{name}" for name in FEATURES_OFF)]
        for command, where in (
            (configure, source),
            (["make", "libs"], source),
            (["make", "build"], source / "tests"),
        ):
            subprocess.run(command, cwd=where, check=True, stdout=log, stderr=subprocess.STDOUT)
    source.rename(folder / "librdkafka")
    return tests


def run_suite(
    tests: Path, address: str, work: Path, scenario: str = "default", only: tuple[str, ...] = (), *, quick: bool = False
) -> Ended:
    """Run the tests of ``scenario`` that need a broker, but for those with issues known to the suite, one by one.

    The broker is the one at ``address``. ``only`` holds the first four digits of tests; none stands for all. ``quick``
    leaves out parts of tests. The output stays in ``work``.
    """
    work.mkdir(parents=True, exist_ok=True)
    programs = work / "kafka" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {kafka_program.__name__} {name} "$@"\n')
        (programs / name).chmod(0o755)
    name = f"{scenario}-{'quick' if quick else 'whole'}"
    configuration, report, log = work / "test.conf", work / f"{name}.json", work / f"{name}.log"
    configuration.write_text(f"metadata.broker.list={address}\ntest.timeout.multiplier={TIME_FACTOR}\n")
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}",
        "RDKAFKA_TEST_CONF": str(configuration),
        "TEST_REPORT": str(report),
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_PATH": str(programs.parent),
        "PYTHONPATH": str(ROOT),
        "BROKERS": address,
    }
    if only:
        environment["TESTS"] = ",".join(only)
    with log.open("w") as output:
        command = ["./test-runner", "-p1", "-L", "-K", "-s", scenario, *(["-Q"] if quick else [])]
        subprocess.run(command, cwd=tests, env=environment, check=False, stdout=output, stderr=subprocess.STDOUT)
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    reasons = {match["name"]: f"{match['place']}: {match['reason']}" for match in LINE_OF_FAILURE.finditer(text)}
    told = json.loads(report.read_text())["tests"]
    return Ended({name: test["state"] for name, test in told.items() if name != "<MAIN>"}, reasons)
