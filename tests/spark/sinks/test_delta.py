"""Backfills into Delta tables."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from stratalog.spark.backfill.backfill import BackfillSettings, backfill, foresee_backfill
from stratalog.spark.ledger.ledger_store import LedgerStore
from stratalog.spark.sinks import is_table, open_table
from stratalog.spark.sinks.delta import _storage_options
from stratalog.tier.stores.store import StoreUnavailable
from stratalog.wire.errors import Invalid


@pytest.fixture
def orders(tmp_path: Path, archive_in: Any, batches: Any) -> Any:
    """Two partitions over three days."""
    builder = archive_in(f"file://{tmp_path / 'archive'}")
    for partition in range(2):
        builder.add(
            "orders", partition, *(batches(at, 40, timestamp_ms=1_372_900_000_000 + at * 3_600_000) for at in (0, 40))
        )
    return builder


def into(rig: Any, archive: Any, url: Path, **options: Any) -> BackfillSettings:
    table = open_table(f"delta:{url}", options.get("partitioning", "date"), {})
    assert table is not None
    return replace(rig.settings(archive, table.files_url, **options), table=table)


def rows_of(url: Path) -> list[tuple[Any, ...]]:
    """As the rig tells rows."""
    found = pa.table(DeltaTable(str(url)).to_pyarrow_table())
    times = found.column("timestamp").cast(pa.int64()).to_pylist()
    rows = []
    for row, time_us in zip(found.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
        headers = None if row["headers"] is None else tuple((one["key"], one["value"]) for one in row["headers"])
        rows.append((row["partition"], row["offset"], time_us, row["timestampType"], row["key"], row["value"], headers))
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize("partitioning", ["date", "hour", "none", "date,value.x"])
def test_every_row_is_in_the_table_once(partitioning: str, tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """A version a run, with its name and offsets in the commit; folders are columns."""
    url = tmp_path / "lake"
    assert backfill(into(rig, orders, url, partitioning=partitioning), rig.HereRunner()).rows == 160
    assert rows_of(url) == rig.archive_rows(orders)
    orders.add("orders", 1, batches(80, 20))
    assert backfill(into(rig, orders, url, partitioning=partitioning), rig.HereRunner()).rows == 20
    assert rows_of(url) == rig.archive_rows(orders)
    table = DeltaTable(str(url))
    assert table.version() == 2
    assert table.history(1)[0]["stratalog.offsets"] == '{"0": 80, "1": 100}'
    if partitioning == "date":
        assert table.to_pyarrow_table(filters=[("date", "=", date(2013, 7, 4))]).num_rows > 0


def test_a_run_is_added_once_whatever_dies(
    tmp_path: Path, orders: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies before the table has it, and again when it has it and the ledger does not know."""
    url = tmp_path / "lake"
    wanted = into(rig, orders, url)

    class Killed(BaseException):
        pass

    def die(*arguments: Any) -> None:
        raise Killed

    for owner, name in ((type(wanted.table), "add"), (LedgerStore, "_swap")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, die)
            with pytest.raises(Killed):
                backfill(wanted, rig.HereRunner())
    assert rows_of(url) == rig.archive_rows(orders)
    assert backfill(into(rig, orders, url), rig.HereRunner()).runs == 0
    assert (rows_of(url), DeltaTable(str(url)).version()) == (rig.archive_rows(orders), 1)


def orders_file(folder: Path) -> Path:
    """A file where a table should be."""
    file = folder / "file"
    file.write_text("no table")
    return file


def test_a_ledger_that_was_lost_is_an_error(tmp_path: Path, orders: Any, batches: Any, rig: Any) -> None:
    """Removed, or brought back from an older copy: the table knows more runs. No row is added twice or called converted."""
    url = tmp_path / "lake"
    backfill(into(rig, orders, url), rig.HereRunner())
    shutil.copytree(url / "_stratalog", tmp_path / "old")
    orders.add("orders", 1, batches(80, 20))
    backfill(into(rig, orders, url), rig.HereRunner())
    before = rows_of(url)
    assert before == rig.archive_rows(orders)
    shutil.rmtree(url / "_stratalog")
    orders.add("orders", 0, batches(80, 20))
    with pytest.raises(Invalid, match=r"has run 2 of topic orders, and the ledger below _stratalog/ there is gone"):
        backfill(into(rig, orders, url), rig.HereRunner())
    shutil.copytree(tmp_path / "old", url / "_stratalog")
    with pytest.raises(Invalid, match="stands at 1: a backfill would add rows twice"):
        foresee_backfill(into(rig, orders, url))
    assert rows_of(url) == before


def test_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Other partitions; a dry run makes no table; other schemes name no table."""
    url = tmp_path / "lake"
    assert open_table(f"delta:{url}", "date", {}, create=False) is None
    assert not url.exists()
    open_table(f"delta:{url}", "date", {})
    with pytest.raises(Invalid, match="partitioned by date: choose another --partition-by"):
        open_table(f"delta:{url}", "none", {})
    for wrong in ("", str(orders_file(tmp_path))):
        with pytest.raises((Invalid, StoreUnavailable), match="delta:"):
            open_table(f"delta:{wrong}", "date", {})
    assert not is_table("s3://lake/raw")
    with pytest.raises(Invalid, match="names no table"):
        open_table("hudi:x", "date", {})


def test_options_of_s3_have_the_names_that_deltalake_knows() -> None:
    """Plain HTTP is allowed where the endpoint says so."""
    found = _storage_options({"s3.endpoint": "http://here", "s3.access-key": "k", "s3.addressing-style": "path"})
    assert found["AWS_ENDPOINT_URL"] == "http://here"
    assert (found["AWS_ALLOW_HTTP"], found["AWS_ACCESS_KEY_ID"]) == ("true", "k")
    assert "AWS_ALLOW_HTTP" not in _storage_options({"s3.endpoint": "https://here"})


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line."""
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(Invalid, match=r"pip install 'stratalog\[delta\]'"):
        open_table("delta:/x", "date", {})
