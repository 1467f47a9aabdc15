"""Iceberg tables of backfills, read by Spark SQL."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyiceberg.catalog
import pyspark
import pytest
from pyiceberg.utils.config import Config
from pyspark.sql import SparkSession

from stratalog import spark as sl
from stratalog.spark.backfill.backfill import backfill
from stratalog.spark.sinks import open_table
from stratalog.spark.sinks.iceberg_reading import iceberg_conf
from stratalog.wire.errors import Invalid

POM = Path(__file__).with_name("jars") / "pom.xml"
BUILD = Path(__file__).resolve().parents[3] / "build"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The catalog ``lake`` of SQLite, in the environment; returns its warehouse."""
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path / 'catalog.db'}")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path / 'warehouse'}")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it reads the environment when it is imported
    return tmp_path / "warehouse"


def test_a_pyspark_without_a_runtime_gets_an_error() -> None:
    """The error names the version, those that would do, and other readers of the table."""
    for version in ("4.2.1", "4.3.0", "5.0.0.dev1"):
        with pytest.raises(Invalid, match=rf"no runtime for PySpark {version} yet, only for 4\.1: .*pyiceberg"):
            iceberg_conf(version, "lake", {"type": "sql", "uri": "sqlite:////tmp/c.db"})


def test_the_session_of_this_pyspark_is_configured_or_refused(catalog: Path) -> None:
    """From the catalog as pyiceberg has it."""
    if pyspark.__version__.startswith("4.1"):
        assert sl.iceberg_conf("lake")["spark.sql.catalog.lake.warehouse"] == f"file://{catalog}"
    else:
        with pytest.raises(Invalid, match=f"no runtime for PySpark {re.escape(pyspark.__version__)}"):
            sl.iceberg_conf("lake")


def test_catalogs_have_other_names_in_spark() -> None:
    """SQLite and REST, on disk and on S3; the rest is refused, and says where to look."""
    found = iceberg_conf("4.1.1", "lake", {"type": "sql", "uri": "sqlite:////srv/c.db", "warehouse": "file:///srv/w"})
    assert found == {
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0,org.xerial:sqlite-jdbc:3.50.3.0",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": "jdbc:sqlite:/srv/c.db",
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.warehouse": "file:///srv/w",
    }
    on_s3 = {
        "uri": "http://catalog:8181",
        "warehouse": "s3://lake/w",
        "s3.endpoint": "http://s3:9000",
        "s3.region": "r",
    }
    found = iceberg_conf("4.1.0", "c", on_s3)
    assert found["spark.jars.packages"].split(",")[1] == "org.apache.iceberg:iceberg-aws-bundle:1.11.0"
    assert found["spark.sql.catalog.c.type"] == "rest"
    assert found["spark.sql.catalog.c.client.region"] == "r"
    assert found["spark.sql.catalog.c.s3.path-style-access"] == "true"
    for other in ({"type": "glue"}, {"type": "sql", "uri": "postgresql://host/c"}, {}):
        with pytest.raises(Invalid, match=r"only SQLite and REST catalogs: set spark\.sql\.catalog\.lake"):
            iceberg_conf("4.1.1", "lake", other)


@pytest.fixture
def iceberg_spark(catalog: Path, tmp_path: Path) -> Iterator[SparkSession]:
    """Spark with Iceberg's runtime; its jars are fetched once for each content of pom.xml and kept under build/."""
    if not pyspark.__version__.startswith("4.1"):
        pytest.skip(f"the runtime in pom.xml is that for PySpark 4.1, and this is {pyspark.__version__}")
    jars = BUILD / f"iceberg-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not jars.is_dir():
        if shutil.which("mvn") is None:
            pytest.skip("Iceberg's runtime is fetched by Maven, and there is no mvn on the PATH")
        partial = jars.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, f"mvn could not fetch the jars:\n{fetched.stdout}\n{fetched.stderr}"
        partial.rename(jars)
    conf = sl.iceberg_conf("lake")
    wanted = {
        name.split(":")[1] + "-" + name.split(":")[2] + ".jar" for name in conf.pop("spark.jars.packages").split(",")
    }
    assert wanted == {path.name for path in jars.glob("*.jar")}
    conf["spark.jars"] = ",".join(str(path) for path in sorted(jars.glob("*.jar")))
    started = sl.session("local[2]", **conf, **{"spark.sql.warehouse.dir": str(tmp_path / "spark-warehouse")})
    yield started
    started.stop()


@pytest.mark.iceberg
@pytest.mark.timeout(300)
def test_spark_sql_reads_what_a_backfill_has_added(
    iceberg_spark: SparkSession, tmp_path: Path, archive_in: Any, batches: Any, rig: Any
) -> None:
    """Every row, every column; days prune; the snapshot says up to where; what came later is there after the next run."""
    builder = archive_in(f"file://{tmp_path}/archive")
    for partition in range(2):
        builder.add("orders", partition, batches(0, 80, timestamp_ms=1_372_900_000_000, step_ms=3_600_000))

    def run() -> None:
        table = open_table("iceberg:lake.raw.orders", "date", {})
        assert table is not None
        backfill(replace(rig.settings(builder, table.files_url), table=table), rig.HereRunner())

    def rows() -> list[tuple[Any, ...]]:
        found = iceberg_spark.sql("select *, unix_micros(timestamp) as time_us from lake.raw.orders").collect()
        told = []
        for row in found:
            headers = (
                None if row.headers is None else tuple((one.key, one.value and bytes(one.value)) for one in row.headers)
            )
            key, value = (None if each is None else bytes(each) for each in (row.key, row.value))
            told.append((row.partition, row.offset, row.time_us, row.timestampType, key, value, headers))
        return sorted(told, key=lambda row: row[:2])

    run()
    assert rows() == rig.archive_rows(builder)
    summary = iceberg_spark.sql("select summary from lake.raw.orders.snapshots").collect()[0].summary
    assert json.loads(summary["stratalog.offsets"]) == {"0": 80, "1": 80}
    day = iceberg_spark.sql("select count(*) from lake.raw.orders where timestamp < timestamp '2013-07-05T00:00:00Z'")
    assert day.collect()[0][0] == sum(row[2] < 1_372_982_400_000_000 for row in rig.archive_rows(builder)) > 0
    builder.add("orders", 1, batches(80, 20))
    run()
    iceberg_spark.sql("refresh table lake.raw.orders")
    assert rows() == rig.archive_rows(builder)
