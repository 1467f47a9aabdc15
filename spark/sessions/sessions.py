"""A Spark session that fits this source: Java found, workers with this interpreter and its modules, fast sockets."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

import stratalog
from stratalog.spark.environment.hadoop_settings import s3a_of_configuration
from stratalog.spark.sessions.java import ensure_java
from stratalog.spark.source.registration import register

__all__ = ["DEFAULTS", "session", "stop"]

DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Over TCP every Python task costs some 30 ms of latency more.
    "spark.python.unix.domain.socket.enabled": "true",
}
_PARENT_FIELD: Final = 1
"""Fields of /proc/PID/stat, behind the name in parentheses."""
_LOOKS: Final = 40
"""Spark tells a little late that a job is over."""
_LOOK_SECONDS: Final = 0.05
_LOCAL: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def session(master: str = "local[*]", *, app_name: str = "stratalog", **config: str) -> SparkSession:
    """The running session, or a new one on ``master`` with `DEFAULTS`, which ``config`` overrides.

    Configuration names have dots: ``session("local[2]", **{"spark.driver.memory": "4g"})``. A local session listens
    on loopback only. If it has settings ``spark.hadoop.fs.s3a.…``, the format is registered with them. A program that does
    not stop it ends as quietly as one that calls `stop`. Raises `Invalid` if no Java can be found.
    """
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _show_modules_to_workers()
    local = _LOCAL if master.startswith("local") else {}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**DEFAULTS, **local, **config}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if s3a_of_configuration(dict(spark.sparkContext.getConf().getAll())):
        register(spark)
    atexit.unregister(_leave)
    atexit.register(_leave, spark, os.getpid())
    return spark


def _leave(spark: SparkSession, pid: int) -> None:
    """The program ends, and with it the JVM that it started, which would close the sockets of idle workers as `stop` says.

    A fork of the program leaves the session alone. So does a program in a JVM that it did not start, and one whose jobs
    still run: Spark would tell of each worker that died.
    """
    context = spark.sparkContext
    gateway = context._gateway  # noqa: SLF001 - PySpark has no other way to say whose JVM it is, and whether it was stopped
    if os.getpid() != pid or context._jsc is None or getattr(gateway, "proc", None) is None:  # noqa: SLF001
        return
    with suppress(Py4JError, OSError):
        for _ in range(_LOOKS):
            if not context.statusTracker().getActiveJobsIds():
                _end_idle_workers(spark)
                return
            time.sleep(_LOOK_SECONDS)


def stop(spark: SparkSession) -> None:
    """Stop the session, its idle Python workers on this machine first.

    Spark closes the sockets of idle workers before it ends them; each then fails to answer, and its daemon's SIGHUP kills
    it while it prints the traceback of that, often after the first line. With SIGHUP first there is nothing to print.
    """
    _end_idle_workers(spark)
    spark.stop()


def _end_idle_workers(spark: SparkSession) -> None:
    for group in _worker_groups(spark):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGHUP)  # the daemon, whose group it is, ignores it


def _worker_groups(spark: SparkSession) -> list[int]:
    """The process groups of the Python workers that the driver's JVM has started."""
    try:
        jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way to the JVM
    except (Py4JError, OSError):  # a JVM that is gone has no workers
        return []
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # one that has ended meanwhile
            parent = int(place.joinpath("stat").read_text().rpartition(")")[2].split()[_PARENT_FIELD])
            if parent == jvm and b"pyspark.daemon" in place.joinpath("cmdline").read_bytes():
                found.append(int(place.name))
    return found


def _show_modules_to_workers() -> None:
    """Where ``stratalog`` is not installed (a checkout), put its directory on the path that workers inherit."""
    root = str(Path(stratalog.__path__[0]).parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known and not root.endswith(("site-packages", "dist-packages")):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])
