"""A Spark session that fits this source: Java found, workers with this interpreter and its modules, fast sockets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import stratalog
from stratalog.spark import register
from stratalog.spark.hadoop_settings import s3a_of_configuration
from stratalog.spark.java import ensure_java

__all__ = ["DEFAULTS", "session", "show_zip_to_workers"]

DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Over TCP every Python task costs some 30 ms of latency more.
    "spark.python.unix.domain.socket.enabled": "true",
}
_LOCAL: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def session(master: str = "local[*]", *, app_name: str = "stratalog", **config: str) -> SparkSession:
    """The running session, or a new one on ``master`` with `DEFAULTS`, which ``config`` overrides.

    Configuration names have dots: ``session("local[2]", **{"spark.driver.memory": "4g"})``. A local session listens
    on loopback only. If it has settings ``spark.hadoop.fs.s3a.…``, the format is registered with them. Raises `Invalid`
    if no Java can be found.
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
    return spark


def show_zip_to_workers(spark: SparkSession) -> None:
    """Where stratalog runs out of a zip, put that on the path of Python workers started from now on.

    Spark gives files of ``--py-files`` to all but the worker of the driver that plans a stream. Executors do not have the
    zip at this path, and find it as ever.
    """
    root = Path(stratalog.__path__[0]).parent
    if root.is_dir():
        return
    environment = spark.sparkContext.environment
    known = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(root), *filter(None, known)]))


def _show_modules_to_workers() -> None:
    """Where ``stratalog`` is not installed (a checkout), put its directory on the path that workers inherit."""
    root = str(Path(stratalog.__path__[0]).parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known and not root.endswith(("site-packages", "dist-packages")):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])
