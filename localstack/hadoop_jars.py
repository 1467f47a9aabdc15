"""Hadoop's S3 file system (``s3a://``) for Spark: the jars that the pyspark package lacks, fetched once by Maven.

::

    python localstack/hadoop_jars.py            # fetches what is missing (690 MB) and prints the class path

They are kept in ``~/.cache/stratalog/hadoop-jars`` (``LOCAL_HADOOP_JARS`` names another place).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this directory is no package: see README.md

from servers import StartError
from servers.recipe import run_installer

from stratalog.spark.sessions.s3a_jars import COORDINATES, hadoop_version, jar_name

_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


def jars(home: Path) -> list[Path]:
    """The jars for the Spark at ``home``, fetched if they are missing. Raises `StartError`."""
    version = hadoop_version([path.name for path in (home / "jars").iterdir()])
    if version not in COORDINATES:
        raise StartError(f"the jars that fit the Hadoop in {home / 'jars'} ({version}) are not known")
    return [_jar(each) for each in COORDINATES[version]]


def _jar(coordinate: str) -> Path:
    name = jar_name(coordinate)
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
