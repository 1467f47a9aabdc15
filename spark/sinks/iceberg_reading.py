"""Settings of Spark SQL for reading an Iceberg table that a backfill fills: the runtime, and the catalog.

pyiceberg and Spark name the same catalog differently; this is the one table of names. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stratalog.wire.errors import Invalid

__all__ = ["iceberg_conf"]

_VERSION: Final = "1.11.0"
_RUNTIMES: Final = {"4.1": f"iceberg-spark-runtime-4.1_2.13:{_VERSION}"}
"""PySpark: the newest of Iceberg's runtimes for it. That for 4.1 does not load on 4.2 and 4.3."""
_SQLITE_DRIVER: Final = "org.xerial:sqlite-jdbc:3.50.3.0"
_S3: Final = {
    "s3.endpoint": "s3.endpoint",
    "s3.region": "client.region",
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
}
"""Names of pyiceberg: names of Spark."""


def iceberg_conf(pyspark_version: str, catalog: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Settings of a Spark session that reads the tables of pyiceberg's ``catalog``, which has these ``properties``.

    Raises `Invalid` for a PySpark that Iceberg has no runtime for, and for a catalog of a type that is not known here.
    """
    release = ".".join(pyspark_version.split(".")[:2])
    if release not in _RUNTIMES:
        raise Invalid(
            f"Iceberg has no runtime for PySpark {pyspark_version} yet, only for {' and '.join(_RUNTIMES)}: read the table with "
            f"pip install 'pyspark==4.1.*', or with pyiceberg, DuckDB or polars. Tables are written with any PySpark"
        )
    packages = [f"org.apache.iceberg:{_RUNTIMES[release]}"]
    prefix = f"spark.sql.catalog.{catalog}"
    kind, uri = properties.get("type", ""), properties.get("uri", "")
    if kind in {"sql", ""} and uri.startswith("sqlite:///"):
        packages.append(_SQLITE_DRIVER)
        found = {"type": "jdbc", "uri": "jdbc:sqlite:" + uri.removeprefix("sqlite:///"), "jdbc.schema-version": "V1"}
    elif kind == "rest" or (not kind and uri.startswith("http")):
        found = {"type": "rest", "uri": uri}
    else:
        raise Invalid(
            f"how Spark reads the catalog {catalog!r} (type {kind or 'unknown'}, {uri.partition(':')[0] or 'no URI'}) is not known "
            f"here, only SQLite and REST catalogs: set spark.sql.catalog.{catalog}.… as Iceberg's manual says"
        )
    if "warehouse" in properties:
        found["warehouse"] = properties["warehouse"]
    if properties.get("warehouse", "").startswith("s3"):
        packages.append(f"org.apache.iceberg:iceberg-aws-bundle:{_VERSION}")
        found["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        found |= {theirs: properties[ours] for ours, theirs in _S3.items() if ours in properties}
        if "s3.endpoint" in properties:
            found["s3.path-style-access"] = "true"
    return {
        "spark.jars.packages": ",".join(packages),
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{name}": value for name, value in found.items()},
    }
