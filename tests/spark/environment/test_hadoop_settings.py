"""Hadoop's words for S3 as options of the source."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from stratalog import spark as stratalog_spark
from stratalog.spark.environment.hadoop_settings import completed, s3a_of_configuration, s3a_of_session, store_options
from stratalog.spark.source.source import StratalogSource, source_with
from stratalog.wire.errors import Invalid

KEYS = {"access.key": "id", "secret.key": "secret"}
GIVEN = {"s3.access-key": "id", "s3.secret-key": "secret"}


@pytest.mark.parametrize(
    ("s3a", "expected"),
    [
        ({}, {}),
        (KEYS, GIVEN),
        ({**KEYS, "session.token": "t"}, {**GIVEN, "s3.session-token": "t"}),
        ({"session.token": "t"}, {}),
        ({**KEYS, "bucket.other.access.key": "x"}, GIVEN),
        (
            {**KEYS, "bucket.lake.access.key": "x", "bucket.lake.secret.key": "y"},
            {"s3.access-key": "x", "s3.secret-key": "y"},
        ),
        ({"endpoint": "https://s3.example.org"}, {"s3.endpoint": "https://s3.example.org"}),
        ({"endpoint": "s3.example.org:9000"}, {"s3.endpoint": "https://s3.example.org:9000"}),
        (
            {"endpoint": "10.0.0.1:9000", "connection.ssl.enabled": "false", "path.style.access": "true"},
            {"s3.endpoint": "http://10.0.0.1:9000", "s3.addressing-style": "path"},
        ),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "https://s3.eu-central-1.amazonaws.com"}, {"s3.region": "eu-central-1"}),
        ({"endpoint": "s3.amazonaws.com", "endpoint.region": "eu-west-1"}, {"s3.region": "eu-west-1"}),
        ({"path.style.access": "false", "connection.ssl.enabled": "true", "endpoint": " "}, {}),
    ],
)
def test_settings_of_hadoop_have_options_that_mean_the_same(s3a: dict[str, str], expected: dict[str, str]) -> None:
    """Those of the bucket before those of all; what is Hadoop's or Spark's own default says nothing."""
    assert store_options(s3a, "s3a://lake/raw", {}) == expected
    assert store_options(s3a, "file:///srv/archive", {}) == {}


def test_half_a_pair_of_keys_is_refused() -> None:
    """The other half might come from anywhere."""
    with pytest.raises(Invalid, match=r"fs\.s3a\.access\.key is set for the bucket lake, but not fs\.s3a\.secret\.key"):
        store_options({"access.key": "id"}, "s3://lake/raw", {})


def test_an_endpoint_of_the_environment() -> None:
    """The driver's goes to the executors; S3's own variable is stronger than that for all of AWS, which Spark copies."""
    everywhere = {"AWS_ENDPOINT_URL": "http://all", "AWS_REGION": "eu-west-1"}
    assert store_options({}, "s3://lake", everywhere) == {"s3.endpoint": "http://all", "s3.region": "eu-west-1"}
    own = {**everywhere, "AWS_ENDPOINT_URL_S3": "http://s3"}
    assert store_options({"endpoint": "http://all"}, "s3://lake", own)["s3.endpoint"] == "http://s3"
    assert store_options({"endpoint": "http://mine"}, "s3://lake", own)["s3.endpoint"] == "http://mine"


def test_options_are_stronger_and_keys_never_mixed() -> None:
    """A token of the session does not belong to keys that were given."""
    s3a = {**KEYS, "session.token": "t", "endpoint": "http://s3a"}
    assert completed({"S3.Endpoint": "http://mine"}, s3a, "s3://lake", {}) == {
        "S3.Endpoint": "http://mine", **GIVEN, "s3.session-token": "t",
    }  # fmt: skip
    own = {"s3.access-key": "a", "s3.secret-key": "b"}
    assert completed(own, s3a, "s3://lake", {}) == {**own, "s3.endpoint": "http://s3a"}


def test_settings_of_spark_without_a_session() -> None:
    """Only those that count."""
    given = {"spark.hadoop.fs.s3a.access.key": "id", "spark.hadoop.fs.s3a.threads.max": "9", "spark.master": "local"}
    bucket = {"spark.hadoop.fs.s3a.bucket.lake.endpoint": "e", "spark.hadoop.fs.s3a.bucket.lake.committer.name": "x"}
    assert s3a_of_configuration({**given, **bucket}) == {"access.key": "id", "bucket.lake.endpoint": "e"}


def test_a_session_of_spark_connect_tells_nothing() -> None:
    """It has no context; reads go by what the machines have."""
    assert s3a_of_session(cast("SparkSession", object())) == {}


def test_a_source_with_settings_is_the_same_source() -> None:
    """Options first; without settings it is the class itself."""
    assert source_with({}) is StratalogSource
    source = source_with({**KEYS, "endpoint": "http://s3a"})
    made: Any = source({"path": "s3://lake/raw", "subscribe": "orders", "s3.Endpoint": "http://mine"})
    assert source.name() == "stratalog"
    assert made._parsed.store_options == {**GIVEN, "s3.endpoint": "http://mine"}
    assert source({"path": "/srv/archive", "subscribe": "orders"})._parsed.store_options == {}  # type: ignore[attr-defined]


@pytest.mark.story
@pytest.mark.spark
def test_a_session_is_asked_for_its_hadoop_settings(
    spark: SparkSession, s3_endpoint: str, file_archive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set in whatever way; then `sl.read`, `sl.count` and the registered format reach a bucket without options."""
    from stratalog.tier import open_store

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    store = open_store(
        "s3://archive/prod",
        endpoint_url=s3_endpoint,
        access_key_id="id",
        secret_access_key="secret",
        region="us-east-1",
    )
    for info in file_archive.store.list("topics/"):
        store.put(info.key, file_archive.store.get(info.key)[0])
    settings = {**KEYS, "endpoint": s3_endpoint, "endpoint.region": "us-east-1"}
    assert spark.sparkContext._jsc is not None
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in settings.items():
        conf.set(f"fs.s3a.{name}", value)
    try:
        assert settings.items() <= s3a_of_session(spark).items()
        assert stratalog_spark.read(spark, "s3://archive/prod", topics="orders").count() == 1200
        assert stratalog_spark.count(spark, "s3a://archive/prod", topics="orders") == 1200
        stratalog_spark.register(spark)
        assert spark.read.format("stratalog").option("subscribe", "orders").load("s3://archive/prod").count() == 1200
    finally:
        for name in settings:
            conf.unset(f"fs.s3a.{name}")
        stratalog_spark.register(spark)
