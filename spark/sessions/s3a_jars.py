"""The jars of Hadoop's S3 file system, ``s3a://``, which PySpark lacks: which ones fit the Hadoop that it carries. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

__all__ = ["COORDINATES", "hadoop_version", "jar_name", "misfits"]

COORDINATES: Final = {
    "3.4.2": (
        "org.apache.hadoop:hadoop-aws:3.4.2",
        "software.amazon.awssdk:bundle:2.29.52",
    ),
    "3.5.0": (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:bundle:2.35.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
}
"""By the version of Hadoop: PySpark 4.1 carries 3.4.2, 4.2 and 4.3 carry 3.5.0, which cannot even write without the last."""

_HADOOP: Final = re.compile(r"hadoop-client-api-(\d[\d.]*\d)\.jar")
_OURS: Final = re.compile(r"(hadoop-aws|bundle|analyticsaccelerator-s3)-\d.*\.jar")


def hadoop_version(jars: Collection[str]) -> str | None:
    """The Hadoop among the names of Spark's jars; None if there is not one."""
    found = [match[1] for name in jars if (match := _HADOOP.fullmatch(name))]
    return found[0] if len(found) == 1 else None


def jar_name(coordinate: str) -> str:
    """The name of the file of ``group:artifact:version``."""
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def misfits(version: str, jars: Collection[str]) -> list[str]:
    """Jars of ``s3a://`` that are there and do not fit this Hadoop."""
    wanted = {jar_name(each) for each in COORDINATES.get(version, ())}
    return sorted(name for name in jars if _OURS.fullmatch(name) and name not in wanted)
