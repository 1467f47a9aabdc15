"""Hadoop's S3 file system (``s3a://``) for Spark: the jars that the pyspark package lacks, fetched once by Maven.

::

    python localstack/hadoop_jars.py            # fetches what is missing (690 MB) and prints the class path

They are kept in ``~/.cache/stratalog/hadoop-jars`` (``LOCAL_HADOOP_JARS`` names another place).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this directory is no package: see README.md

from servers import StartError
from servers.recipe import run_installer

COORDINATES: Final = {
    "3.5.0": (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:bundle:2.35.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
}
"""By the version of Hadoop in PySpark 4.2 and 4.3. Without the last one writing fails too, whatever stream is chosen."""

_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_HADOOP: Final = re.compile(r"hadoop-client-api-(\d[\d.]*\d)\.jar")


def hadoop_version(home: Path) -> str:
    """The Hadoop that the Spark at ``home`` carries. Raises `StartError` if it carries none."""
    found = [match[1] for path in (home / "jars").iterdir() if (match := _HADOOP.fullmatch(path.name))]
    if len(found) != 1:
        raise StartError(f"there is not one Hadoop in {home / 'jars'}, but {found}")
    return found[0]


def jars(home: Path) -> list[Path]:
    """The jars for the Spark at ``home``, fetched if they are missing. Raises `StartError`."""
    version = hadoop_version(home)
    if version not in COORDINATES:
        raise StartError(f"the jars that fit Hadoop {version} are not known, those of {', '.join(COORDINATES)} are")
    return [_jar(each) for each in COORDINATES[version]]


def _jar(coordinate: str) -> Path:
    _, artifact, version = coordinate.split(":")
    name = f"{artifact}-{version}.jar"
    folder = _cache()
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        advice = "install Maven (apt install maven), or put the jar there by hand"
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as staged:
            # The jar and nothing else: a pom without its jar in Maven's cache makes spark.jars.packages fail later.
            fetch = ["mvn", "-q", "-B", f"{_PLUGIN}:get", f"-Dartifact={coordinate}", "-Dtransitive=false"]
            copy = ["mvn", "-q", "-B", f"{_PLUGIN}:copy", f"-Dartifact={coordinate}", f"-DoutputDirectory={staged}"]
            run_installer(fetch, advice=advice)
            run_installer(copy, advice=advice)
            shutil.move(Path(staged) / name, folder / name)
    return folder / name


def _cache() -> Path:
    named = os.environ.get("LOCAL_HADOOP_JARS")
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(caches) / "stratalog" / "hadoop-jars"


if __name__ == "__main__":
    from spark_cluster import spark_home

    print(os.pathsep.join(map(str, jars(spark_home()))))
