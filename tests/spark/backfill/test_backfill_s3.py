"""Backfills from S3 to S3, and what they ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession

from stratalog.spark.backfill.backfill import backfill, foresee_backfill
from stratalog.spark.backfill.spark_job import SparkRunner
from stratalog.spark.ledger.target import open_target
from stratalog.tier import open_store
from tests.moto_server import start_moto_server

OPTIONS = {"s3.access-key": "id", "s3.secret-key": "secret", "s3.region": "us-east-1"}


@pytest.fixture
def endpoint() -> Iterator[str]:
    """An S3 server in this process, with the bucket ``lake``."""
    server = start_moto_server()
    url = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="id", aws_secret_access_key="secret"
    )
    client.create_bucket(Bucket="lake")
    client.close()
    yield url
    server.stop()


@pytest.mark.story
@pytest.mark.spark
def test_rows_reach_s3_without_hadoop(
    spark: SparkSession, endpoint: str, archive_in: Any, batches: Any, rig: Any
) -> None:
    """By Spark's workers, with one PUT and one copy a file; the ledger's conditional writes hold there too."""
    store = open_store(
        "s3://lake/archive", endpoint_url=endpoint, access_key_id="id", secret_access_key="secret", region="us-east-1"
    )
    builder = archive_in("memory:backfill-s3")
    for partition in range(2):
        builder.add("orders", partition, batches(0, 100), batches(100, 100))
    for info in builder.store.list(""):
        store.put(info.key, builder.store.get(info.key)[0])
    options = {**OPTIONS, "s3.endpoint": endpoint}
    wanted = rig.settings(builder, "s3://lake/raw", target_options=options)
    wanted = replace(wanted, read=replace(wanted.read, archive="s3://lake/archive", store_options=options))
    assert foresee_backfill(wanted).usage.reads == 4
    assert backfill(wanted, SparkRunner(spark)).rows == 400
    target = open_target("s3://lake/raw", options)
    assert rig.target_rows(target.store) == rig.archive_rows(builder)
    assert [info.key for info in target.store.list("_stratalog/backfill/orders/staging/")] == []
    assert list(store.list("leases/")) == []
    assert backfill(wanted, rig.HereRunner()).runs == 0
