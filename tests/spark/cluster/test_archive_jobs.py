"""The jobs on an archive on a cluster: executors have them out of the zip; what they find and leave is compared row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stratalog.tier import open_store
from stratalog.tier.manifests.manifest_store import read_manifest

JOBS = Path(__file__).resolve().parents[3] / "spark" / "jobs"
GONE = b"key-3"
UNHEALTHY = 4

Row = tuple[Any, ...]


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A store for an archive, and settings of Spark by which executors reach it: a directory, and S3 in Hadoop's words."""
    if request.param == "file":
        yield open_store(f"file://{tmp_path}/archive"), {}
        return
    s3 = request.getfixturevalue("s3")
    yield s3.store("s3://stratalog/jobs/archive"), s3.s3a()


@pytest.fixture
def job(submit: Callable[..., Any], zipped: Path, bare_python: str, place: Any) -> Callable[..., list[Any]]:
    """``spark-submit --py-files stratalog.zip JOB …``; its lines of JSON."""
    store, conf = place

    def run(name: str, *command: str, ends: int = 0) -> list[Any]:
        command = (str(JOBS / f"{name}.py"), "--bucket", store.url, "--topic", "orders", "--json", *command)
        said = submit(*command, python=bare_python, py_files=zipped, conf=conf).ended(ends)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    return run


def figures(rows: list[Row], partition: int) -> dict[str, Any]:
    """Figures that ``stats`` must find, by a loop over single records."""
    own = [row for row in rows if row[0] == partition]
    offsets = [row[1] for row in own]
    return {
        "partition": partition,
        "records": len(own),
        "bytes": sum(len(row[4] or b"") + len(row[5] or b"") for row in own),
        "keys": len({row[4] for row in own} - {None}),
        "null_keys": sum(row[4] is None for row in own),
        "null_values": sum(row[5] is None for row in own),
        "missing_offsets": 2000 - len(own),
        "gaps": sum(this - before > 1 for before, this in zip([-1, *offsets], [*offsets, 2000], strict=True)),
        "first_offset": min(offsets),
        "last_offset": max(offsets),
    }


def newest(rows: list[Row]) -> list[Row]:
    """The last record of each key of a partition; one whose value is null stays for a day."""
    last = {(row[0], row[4]): row for row in rows if row[4] is not None}
    return sorted(last.values(), key=lambda row: row[:2])


def reread(archive: Any) -> Any:
    """The archive by the manifests that are in the bucket now."""
    for at, manifest in archive.manifests.items():
        archive.manifests[at] = read_manifest(archive.store, manifest.partition).manifest
    return archive


def test_figures_erasure_compaction_and_verification(job: Any, place: Any, orders: Any, rig: Any) -> None:
    """One after the other on one archive; what one leaves is what the next must find, and damage is found by its key."""
    archive = orders(place[0])
    before = rig.archive_rows(archive)

    def check_figures(rows: list[Row]) -> None:
        for found, partition in zip(job("stats"), (0, 1), strict=True):
            wanted = figures(rows, partition)
            assert {name: found[name] for name in wanted} == wanted

    check_figures(before)
    (erased,) = job("erase", "--key", GONE.decode())
    kept = [row for row in before if row[4] != GONE]
    assert erased["erased"] == len(before) - len(kept) > 0
    assert archive.store.head(erased["audit"]).size_bytes > 0
    assert rig.archive_rows(reread(archive)) == kept
    (compacted,) = job("compact", "--any-policy")
    left = newest(kept)
    assert rig.archive_rows(reread(archive)) == left
    assert compacted["records"] - compacted["records_kept"] == len(kept) - len(left) > 0
    check_figures(left)
    assert job("verify")[-1]["anomalies"] == 0
    entry = archive.manifests["orders", 1].entries[0]
    whole = archive.store.get(entry.key)[0]
    archive.store.put(entry.key, bytes([*whole[:200], whole[200] ^ 1, *whole[201:]]))
    *damage, summary = job("verify", ends=UNHEALTHY)
    assert summary["anomalies"] == len(damage) > 0
    assert {each["key"] for each in damage} == {entry.key}
