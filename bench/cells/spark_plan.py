"""Planning a Spark read of 100,000 ranges: the driver's time and memory, without a session."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from bench.cell import Cell, Line
from bench.cells.archive_scale import MANY, START_MS, WRITER, entry_of
from bench.cells.spark_memory import parse_peak_kib
from bench.outcome import Bound, Outcome, median
from bench.settings import Settings
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Uploaded, claim
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.view import NO_ENTRIES
from stratalog.tier.messages.commands import Commit
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.work.archive_commands import commit_uploads

__all__ = ["CELL", "main"]

PARTITION_COUNT = 4
AT_ONCE = 1_000
CORE_COUNT = 2

_SECONDS = Line("spark-plan-100k", "s for the plan of a Spark read of 100,000 ranges", Bound("<=", 3.0))
_MEMORY = Line("spark-plan-memory", "MB of the process that plans it", Bound("<=", 300.0))


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.memory) as folder:
        store = LocalStore(str(folder))
        for number in range(PARTITION_COUNT):
            partition = PartitionId("scale", b"s" * 16, number)
            change_manifest(store, partition, lambda manifest: claim(manifest, WRITER, now_ms=START_MS))
            for first in range(0, MANY // PARTITION_COUNT, AT_ONCE):
                uploads = tuple(Uploaded(entry_of(partition, first + n), WRITER) for n in range(AT_ONCE))
                commit_uploads(store, Commit(partition, WRITER, uploads, START_MS, known_end=NO_ENTRIES))
        found = [_planned(folder) for _ in range(settings.repetitions)]
    if {each["objects"] for each in found} != {MANY}:
        raise SystemExit(f"{MANY} ranges are archived, planned were {found}")
    return [
        _SECONDS.outcome(median(each["seconds"] for each in found), tasks=found[0]["tasks"]),
        _MEMORY.outcome(max(each["megabytes"] for each in found), before=found[0]["megabytes_before"]),
    ]


def _planned(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.cells.spark_plan", "--bucket", folder.as_uri()]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> None:
    """The driver's side: plan once, print one line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bucket", required=True)
    given = parser.parse_args(arguments)
    from stratalog.spark.archive_store import open_archive
    from stratalog.spark.source.options import parse_options
    from stratalog.spark.source.read_plan import plan

    before = _megabytes()
    options = parse_options({"path": given.bucket, "subscribe": "scale"})
    started = time.perf_counter()
    tasks = plan(open_archive(options.archive, {}), options, CORE_COUNT)
    seconds = time.perf_counter() - started
    # Tasks are of about one size, so some objects are read by two.
    objects = len({each.key for task in tasks for each in task})
    figures = {"objects": objects, "tasks": len(tasks), "seconds": seconds}
    print(json.dumps({**figures, "megabytes": _megabytes(), "megabytes_before": before}))


def _megabytes() -> float:
    """The most that this process has had in memory; ``getrusage`` would tell that of who started it, if that was more."""
    return parse_peak_kib(Path("/proc/self/status").read_text()) * 1024 / 1e6


CELL = Cell("spark-plan", (_SECONDS, _MEMORY), _measure)

if __name__ == "__main__":
    main()
