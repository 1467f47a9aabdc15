"""The format ``stratalog`` made known to a Spark session."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

import stratalog
from stratalog.spark.environment.hadoop_settings import s3a_of_session
from stratalog.spark.source.source import source_with

__all__ = ["register", "show_zip_to_workers"]


def register(spark: SparkSession) -> None:
    """Register the format with what the session says now about S3 in Hadoop's words (``spark.hadoop.fs.s3a.…``)."""
    show_zip_to_workers(spark)
    spark.dataSource.register(source_with(s3a_of_session(spark)))


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
