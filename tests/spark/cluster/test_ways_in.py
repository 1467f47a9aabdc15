"""stratalog on a cluster whose executors do not know the checkout: in a zip, and as an installed wheel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stratalog.spark.ledger.target import open_target
from stratalog.tier import open_store

JOB = Path(__file__).resolve().parents[3] / "spark" / "jobs" / "backfill.py"


def local_steps(archive: str, place: Path) -> list[tuple[str, dict[str, Any]]]:
    """Everything once, in a directory."""
    return [
        ("where", {}),
        ("batch", {"archive": archive}),
        ("count", {"archive": archive}),
        ("stream", {"archive": archive, "place": f"file://{place}/stream", "maxOffsetsPerTrigger": "1500"}),
        ("to_parquet", {"archive": archive, "target": f"{place}/lake"}),
        ("parquet", {"place": f"file://{place}/lake"}),
    ]


def test_a_zip_of_py_files(
    tmp_path: Path, take: Callable[..., Any], zipped: Path, bare_python: str, orders: Any, rig: Any, digest: Any
) -> None:
    """Neither driver nor executors have it installed; after the archive has grown a new driver goes on with the stream."""
    archive = orders(open_store(f"file://{tmp_path}/archive"))
    url = archive.store.url
    where, batch, count, stream, converted, parquet = take(
        *local_steps(url, tmp_path), python=bare_python, py_files=zipped
    )
    wanted = digest(rig.archive_rows(archive))
    assert wanted[0] == 4000
    (seen,) = {json.loads(each)[0] for each in where["executors"]} - {where["driver"][0]} or {where["driver"][0]}
    assert "stratalog.zip/" in seen
    assert [batch, count, stream, converted, parquet] == [wanted, 4000, 4000, 4000, wanted]
    orders(archive.store, 1000, archive, first=2000)
    again = [
        ("stream", {"archive": url, "place": f"file://{tmp_path}/stream", "maxOffsetsPerTrigger": "1500"}),
        ("parquet", {"place": f"file://{tmp_path}/stream/rows"}),
    ]
    grown = digest(rig.archive_rows(archive))
    assert take(*again, python=bare_python, py_files=zipped) == [6000, grown]


def test_an_installed_wheel(
    tmp_path: Path, take: Callable[..., Any], wheel_python: str, orders: Any, rig: Any, digest: Any
) -> None:
    """PySpark finds the format by itself: nothing is registered."""
    archive = orders(open_store(f"file://{tmp_path}/archive"))
    where, *answers = take(*local_steps(archive.store.url, tmp_path), python=wheel_python)
    wanted = digest(rig.archive_rows(archive))
    (seen,) = {json.loads(each)[0] for each in where["executors"]}
    assert Path(seen).is_relative_to(Path(wheel_python).parents[1])
    assert answers == [wanted, 4000, 4000, 4000, wanted]


def test_the_backfill_job(
    tmp_path: Path, submit: Callable[..., Any], zipped: Path, bare_python: str, orders: Any, rig: Any
) -> None:
    """``spark-submit --py-files stratalog.zip spark/jobs/backfill.py``, as the manual says; the second run finds nothing."""
    archive = orders(open_store(f"file://{tmp_path}/archive"))
    command = [str(JOB), "--bucket", archive.store.url, "--topic", "orders", "--to", str(tmp_path / "lake")]
    said = submit(*command, "--task-bytes", "30KiB", python=bare_python, py_files=zipped).ended(0)
    assert said.startswith("orders: 4,000 rows in ")
    store = open_target(str(tmp_path / "lake"), {}).store
    assert rig.target_rows(store) == rig.archive_rows(archive)
    again = submit(*command, python=bare_python, py_files=zipped).ended(0)
    assert again == "orders: nothing new in the archive.\n"
