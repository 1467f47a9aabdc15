"""An archive in S3, read by executors elsewhere: whose credentials, and Spark's own files beside it by s3a."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stratalog.spark.ledger.target import open_target

JOB = Path(__file__).resolve().parents[3] / "spark" / "jobs" / "backfill.py"


@pytest.fixture(scope="session")
def class_path(cluster: Any, localstack: Callable[[str], ModuleType]) -> str:
    """Hadoop's S3 file system for this Spark."""
    return os.pathsep.join(map(str, localstack("hadoop_jars").jars(cluster.home)))


@pytest.fixture
def archive(s3: Any, orders: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A prefix of the bucket, this test's own."""
    store = s3.store(f"s3://stratalog/{request.node.name[:40]}/archive")
    yield orders(store)
    s3.proxy.script.replace([])


def lake(archive: Any) -> str:
    """Beside the archive."""
    return str(archive.store.url).removesuffix("/archive") + "/lake"


def test_credentials_of_the_aws_environment(
    s3: Any, take: Callable[..., Any], wheel_python: str, archive: Any, rig: Any, digest: Any
) -> None:
    """Those of the driver reach the executors by `sl.…` functions; the format itself wants them there, too."""
    url = archive.store.url
    environment = dict(s3.environment)
    steps = [
        ("where", {}),
        ("read", {"archive": url}),
        ("count", {"archive": url}),
        ("to_parquet", {"archive": url, "target": lake(archive)}),
    ]
    wanted = digest(rig.archive_rows(archive))
    where, *answers = take(*steps, python=wheel_python, environment=environment)
    assert all("AWS_" not in each for each in where["executors"])
    assert answers == [wanted, 4000, 4000]
    assert digest(rig.target_rows(open_target(lake(archive), s3.options()).store)) == wanted
    there = {f"spark.executorEnv.{name}": value for name, value in environment.items()}
    assert take(("batch", {"archive": url}), python=wheel_python, environment=environment, conf=there) == [wanted]


def test_credentials_of_hadoop(
    s3: Any, take: Callable[..., Any], bare_python: str, zipped: Any, archive: Any, rig: Any, digest: Any
) -> None:
    """``spark.hadoop.fs.s3a.…`` of the session count for the registered format, streams and backfills, on both sides."""
    url = archive.store.url
    steps = [
        ("where", {}),
        ("batch", {"archive": url}),
        ("count", {"archive": url}),
        ("to_parquet", {"archive": url, "target": lake(archive)}),
    ]
    wanted = digest(rig.archive_rows(archive))
    where, *answers = take(*steps, python=bare_python, py_files=zipped, conf=s3.s3a())
    assert all("AWS_" not in each for each in where["executors"])
    assert answers == [wanted, 4000, 4000]
    assert digest(rig.target_rows(open_target(lake(archive), s3.options()).store)) == wanted


def test_parquet_by_s3a(
    s3: Any, class_path: str, take: Callable[..., Any], wheel_python: str, archive: Any, rig: Any, digest: Any
) -> None:
    """One set of settings for both: rows by stratalog, files and checkpoints by Hadoop; the converter's files by s3a too."""
    url, place = archive.store.url, lake(archive).replace("s3://", "s3a://")
    classes = {"spark.driver.extraClassPath": class_path, "spark.executor.extraClassPath": class_path}
    steps = [
        ("write_parquet", {"archive": url, "target": f"{place}/by-spark"}),
        ("stream", {"archive": url, "place": f"{place}/stream"}),
        ("parquet", {"place": f"{place}/stream/rows"}),
        ("to_parquet", {"archive": url, "target": lake(archive)}),
        ("parquet", {"place": f"{place}/orders"}),
    ]
    wanted = digest(rig.archive_rows(archive))
    answers = take(*steps, python=wheel_python, conf={**s3.s3a(), **classes})
    assert answers == [wanted, 4000, wanted, 4000, wanted]


def test_a_wrong_secret_is_refused(s3: Any, submit: Any, wheel_python: str, archive: Any) -> None:
    """So the tests above prove that keys arrive: this service looks at them."""
    command = ["--bucket", archive.store.url, "--topic", "orders", "--to", lake(archive)]
    wrong = {**s3.s3a(), "spark.hadoop.fs.s3a.secret.key": "wrong"}
    job = str(JOB)
    said = submit(job, *command, python=wheel_python, conf=wrong).ended(1)  # which has Python's stderr, too
    assert "Check the credentials" in said
    assert submit(job, *command, python=wheel_python, conf=s3.s3a()).ended(0).startswith("orders: 4,000 rows")
