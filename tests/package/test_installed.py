"""The wheel of the source distribution, installed into an empty environment, is the whole product."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.package, pytest.mark.timeout(600)]
WAIT_SECONDS = 60
READ = """
import json, sys, stratalog
table = stratalog.open(sys.argv[1]).topic("events").to_arrow(columns=["offset", "value"])
print(json.dumps([[offset, value.decode()] for offset, value in zip(*table.to_pydict().values())]))
"""
IMPORT_ALL = """
import importlib, pkgutil, stratalog
names = [one.name for one in pkgutil.walk_packages(stratalog.__path__, "stratalog.")]
missing = []
for name in names:
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing.append(error.name)
print(len(names), *sorted(set(missing)))
"""


@pytest.fixture(scope="module")
def installed(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment into which pip installed ``stratalog[arrow]`` from the source distribution."""
    place = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    subprocess.run(build, check=True, capture_output=True, cwd=unpacked)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "env")], check=True)
    python = place / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", f"{wheel}[arrow]"]
    subprocess.run(pip, check=True)
    return python.parent


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Callable[..., str]:
    """Runs a program of the environment in an empty folder; returns what it prints."""

    def runs(program: str, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [installed / program, *arguments],
            capture_output=True, text=True, check=False, cwd=tmp_path, input=stdin, timeout=WAIT_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return runs


@pytest.fixture
def address(installed: Path, tmp_path: Path) -> Iterator[str]:
    """``HOST:PORT`` of a ``stratalog dev`` whose archive lies in ``tmp_path/bucket``; stopped in order after the test."""
    command = [str(installed / "stratalog"), "dev", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--data", str(tmp_path / "data"), "--bucket", f"file://{tmp_path}/bucket"]
    with open(tmp_path / "stderr", "w") as stderr:  # noqa: PTH123 - beside the other opens of processes
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=tmp_path)
    line = process.stdout.readline()
    assert line.startswith("ready kafka="), (tmp_path / "stderr").read_text()
    yield line.split("kafka=")[1].split()[0]
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_SECONDS) == 0
    process.stdout.close()


def test_every_module_of_every_room_is_there(run: Callable[..., str]):
    """Only modules whose packages the extra does not bring cannot be imported."""
    count, *missing = run("python", "-c", IMPORT_ALL).split()
    assert int(count) > 500
    optional = {"fastavro", "fsspec", "google", "pandas", "py4j", "pyspark", "pytest"}  # pytest of our own plugin
    assert {name.partition(".")[0] for name in missing} <= optional


def test_a_record_is_produced_consumed_and_read_from_the_bucket(run: Callable[..., str], address: str, tmp_path: Path):
    """By the installed commands and by ``stratalog.open``."""
    server = ("--bootstrap-server", address)
    run("stratalog", "topic", "create", "events", *server,
        "--config", "remote.storage.enable=true", "--config", "segment.ms=100")  # fmt: skip
    run("stratalog", "produce", "events", *server, stdin="one\ntwo\n")
    assert run("stratalog", "consume", "events", "--exit", *server) == "one\ntwo\n"
    end = time.monotonic() + WAIT_SECONDS
    rows: list[object] = []
    while len(rows) < 2:
        assert time.monotonic() < end, "the records did not reach the bucket"
        if any(name.endswith(".seg") for _, _, names in os.walk(tmp_path / "bucket") for name in names):
            rows = json.loads(run("python", "-c", READ, f"file://{tmp_path}/bucket"))
    assert rows == [[0, "one"], [1, "two"]]
