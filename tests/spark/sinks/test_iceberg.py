"""Backfills into Iceberg tables."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from stratalog.spark.backfill import convert
from stratalog.spark.backfill.backfill import BackfillSettings, backfill
from stratalog.spark.ledger.lake_table import Table
from stratalog.spark.ledger.ledger import Head
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.ledger.parquet_files import FileLimits
from stratalog.spark.sinks import open_table
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid, StratalogError

DAY_MS = 86_400_000
YEAR_500_MS = -46_388_000_000_000


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A catalog in SQLite, configured as pyiceberg's are."""
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path / 'catalog.db'}")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path / 'warehouse'}")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it reads the environment when it is imported
    return load_catalog("lake")


@pytest.fixture
def orders(tmp_path: Path, archive_in: Any, batches: Any) -> Any:
    """Two partitions over three days."""
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    for partition in range(2):
        builder.add(
            "orders", partition, *(batches(at, 40, timestamp_ms=1_372_900_000_000 + at * 3_600_000) for at in (0, 40))
        )
    return builder


def into(rig: Any, archive: Any, table: Table | None, **options: Any) -> BackfillSettings:
    assert table is not None
    return replace(rig.settings(archive, table.files_url, **options), table=table)


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    """As the rig tells rows; pyiceberg's own reader shows a list that is null as an empty one."""
    times = found.column("timestamp").cast(pa.int64()).to_pylist()
    rows = []
    for row, time_us in zip(found.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
        headers = tuple((one["key"], one["value"]) for one in row["headers"] or ()) or None
        rows.append((row["partition"], row["offset"], time_us, row["timestampType"], row["key"], row["value"], headers))
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.story
def test_every_row_is_in_the_table_once(catalog: Any, orders: Any, batches: Any, rig: Any) -> None:
    """A snapshot a run, with offsets; what came since is one more; days prune."""
    table = open_table("iceberg:lake.raw.orders", "date", {})
    wanted = into(rig, orders, table)
    assert backfill(wanted, rig.HereRunner()).rows == 160
    found = catalog.load_table("raw.orders")
    assert rows_of(found.scan().to_arrow()) == rig.archive_rows(orders)
    assert json.loads(found.current_snapshot().summary["stratalog.offsets"]) == {"0": 80, "1": 80}
    day = found.scan(row_filter="timestamp < '2013-07-05T00:00:00+00:00'")
    files = list(day.plan_files())
    assert 0 < len(files) < len(list(found.scan().plan_files()))
    assert {task.file.file_path.split("/")[-2] for task in files} == {"date=2013-07-04"}
    orders.add("orders", 1, batches(80, 20))
    again = into(rig, orders, open_table("iceberg:lake.raw.orders", "date", {}))
    assert backfill(again, rig.HereRunner()).rows == 20
    found = catalog.load_table("raw.orders")
    assert rows_of(found.scan().to_arrow()) == rig.archive_rows(orders)
    assert len(found.metadata.snapshots) == 2


def test_a_run_is_added_once_whatever_dies(
    catalog: Any, orders: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies before the table has it, and again when it has it and the ledger does not know."""
    wanted = into(rig, orders, open_table("iceberg:lake.raw.orders", "none", {}))

    class Killed(BaseException):
        pass

    def die(*arguments: Any) -> None:
        raise Killed

    for owner, name in ((type(wanted.table), "add"), (LedgerStore, "_swap")):
        assert catalog.load_table("raw.orders").current_snapshot() is None
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, die)
            with pytest.raises(Killed):
                backfill(wanted, rig.HereRunner())
    assert rows_of(catalog.load_table("raw.orders").scan().to_arrow()) == rig.archive_rows(orders)
    assert backfill(wanted, rig.HereRunner()).runs == 0
    found = catalog.load_table("raw.orders")
    assert rows_of(found.scan().to_arrow()) == rig.archive_rows(orders)
    assert len(found.metadata.snapshots) == 1


def test_tables_that_do_not_fit_are_refused(catalog: Any, orders: Any, rig: Any) -> None:
    """Other columns, other partitions, no name; a dry run makes no table; files of a table are not replaced."""
    assert open_table("iceberg:lake.raw.orders", "date", {}, create=False) is None
    assert catalog.list_namespaces() == []
    table = open_table("iceberg:lake.raw.orders", "hour", {})
    with pytest.raises(Invalid, match="is partitioned by hour, the files by date"):
        open_table("iceberg:lake.raw.orders", "date", {})
    catalog.create_table("raw.other", pa.schema([pa.field("x", pa.int64())]))
    with pytest.raises(Invalid, match="has the columns x, not key, value"):
        open_table("iceberg:lake.raw.other", "date", {})
    for name in ("iceberg:lake", "iceberg:lake.orders"):
        with pytest.raises(Invalid, match="write iceberg:catalog"):
            open_table(name, "date", {})
    with pytest.raises(Invalid, match="not replaced"):
        backfill(into(rig, orders, table, partitioning="hour", rewrite=True), rig.HereRunner())


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line."""
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.catalog", None)
    with pytest.raises(Invalid, match=r"pip install 'stratalog\[iceberg\]'"):
        open_table("iceberg:lake.raw.orders", "date", {})


@pytest.mark.story
@pytest.mark.parametrize("partitioning", ["date", "hour"])
def test_times_that_no_calendar_has_are_in_the_table_too(
    partitioning: str, catalog: Any, tmp_path: Path, archive_in: Any, rig: Any
) -> None:
    """Their days share a folder, and each has a file, by which the table knows the partition."""
    archive = archive_in(f"file://{tmp_path / 'archive'}")
    times_ms = (YEAR_500_MS, YEAR_500_MS + 3 * DAY_MS, 1_372_900_000_000, YEAR_500_MS + 1)
    records = [Record(offset, time_ms, b"k", b"v") for offset, time_ms in enumerate(times_ms)]
    archive.add("orders", 0, bytes(build_batch(records, leader_epoch=0)))
    wanted = into(rig, archive, open_table("iceberg:lake.raw.orders", partitioning, {}), partitioning=partitioning)
    assert backfill(wanted, rig.HereRunner()).files == 3
    assert rows_of(catalog.load_table("raw.orders").scan().to_arrow()) == rig.archive_rows(archive)


@pytest.mark.story
def test_files_that_the_table_does_not_take_are_an_error_with_a_way_out(
    catalog: Any, orders: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those with times of two partitions in one, which an earlier version has made."""
    wanted = into(rig, orders, open_table("iceberg:lake.raw.orders", "date", {}))
    monkeypatch.setattr(BackfillSettings, "file_limits", FileLimits())
    monkeypatch.setattr(convert, "folders_of", lambda _: lambda batch: [("", batch)])
    with pytest.raises(StratalogError, match=r"iceberg:lake.raw.orders does not take the files of run.*to a new table"):
        backfill(wanted, rig.HereRunner())


@pytest.mark.story
def test_a_ledger_that_was_lost_is_an_error(catalog: Any, orders: Any, rig: Any) -> None:
    """The table's snapshots name runs that the ledger does not have; those of other topics do not count."""
    table = open_table("iceberg:lake.raw.orders", "date", {})
    assert table is not None
    backfill(into(rig, orders, table), rig.HereRunner())
    assert (table.last_run(Head("orders", "id")), table.last_run(Head("others", "id"))) == (1, 0)
    shutil.rmtree(Path(table.files_url.removeprefix("file://")) / "_stratalog")
    with pytest.raises(Invalid, match=r"has run 1 of topic orders, and the ledger below _stratalog/ there is gone"):
        backfill(into(rig, orders, table), rig.HereRunner())
