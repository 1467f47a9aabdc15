"""Which jars of Hadoop's S3 file system fit."""

from __future__ import annotations

from pathlib import Path

import pyspark

from stratalog.spark.sessions.s3a_jars import COORDINATES, hadoop_version, jar_name, misfits


def test_the_hadoop_of_this_pyspark_is_known() -> None:
    """So that the advice fits the installed version."""
    jars = [path.name for path in Path(pyspark.__path__[0], "jars").iterdir()]
    assert hadoop_version(jars) in COORDINATES
    assert hadoop_version([]) is None
    assert hadoop_version(["hadoop-client-api-3.4.2.jar", "hadoop-client-api-3.5.0.jar"]) is None
    assert hadoop_version(["hadoop-client-runtime-3.5.0.jar", "hadoop-client-api-3.5.0.jar"]) == "3.5.0"


def test_jars_of_another_hadoop_do_not_fit() -> None:
    """They fail in the middle of a job, by a method that is not there."""
    names = [jar_name(each) for each in COORDINATES["3.5.0"]]
    assert names == ["hadoop-aws-3.5.0.jar", "bundle-2.35.4.jar", "analyticsaccelerator-s3-1.3.1.jar"]
    assert misfits("3.5.0", [*names, "spark-core_2.13-4.3.0.jar"]) == []
    assert misfits("3.4.2", names) == sorted(names)
    assert misfits("9.9.9", names[:1]) == names[:1]
