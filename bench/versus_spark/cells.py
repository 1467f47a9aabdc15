"""Compared cells: scans, conversions to Parquet and micro-batches beside Kafka's source, a real S3 server beside files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import boto3

from bench.outcome import Bound, Outcome, median
from bench.versus_spark.job import Run
from bench.versus_spark.records import SETS, Held, RecordSet

__all__ = ["CELLS", "Measure"]

_OURS, _DEFAULT, _TUNED, _COLUMNS = "stratalog", "kafka", "kafka-tuned", "stratalog-columns"
_SMALL_BYTES = 100
_S3_BUCKET = "bench"
_S3_TAX = 1.3
_S3_SET = "100B-none"
_S3_SERVERS = ("seaweed", "versitygw")
"""By their names in ``localstack/run_s3.py``: one with a database of its own over volumes, one over plain files."""
_JOB_SECONDS = 380

Measure = Callable[[Held, int], list[Outcome]]


@dataclass(frozen=True, slots=True)
class _Compared:
    """A line: the figure of the ``other`` kind by that of ``ours``, or the other way round (``inverse``)."""

    name: str
    figure: str
    ours: str
    other: str
    bound: Bound
    inverse: bool = False

    def judge(self, runs: Mapping[str, list[Run]]) -> Outcome:
        """The median of the ratios of each repetition."""
        mine = [_figure(run, self.figure) for run in runs[self.ours]]
        theirs = [_figure(run, self.figure) for run in runs[self.other]]
        top, bottom = (mine, theirs) if self.inverse else (theirs, mine)
        pairs = [one / two for one, two in zip(top, bottom, strict=True)]
        details: dict[str, float | str] = {
            "stratalog": median(mine),
            "kafka": median(theirs),
            "pairs": " ".join(f"{pair:.3g}" for pair in pairs),
        }
        return Outcome(self.name, f"{self.other} and {self.ours}", median(pairs), self.bound, details=details)


def _figure(run: Run, figure: str) -> float:
    return run["spark_cpu"] + run["server_cpu"] if figure == "cpu" else run[figure]


def _run(  # one job of Spark, told on the terminal
    held: Held, action: str, kinds: Sequence[str], topic: str, repetitions: int, **more: str
) -> dict[str, list[Run]]:
    archives = more.pop("archives", json.dumps({_OURS: held.bucket}))
    command = [sys.executable, "-m", "bench.versus_spark.job", "--action", action, "--kinds", ",".join(kinds)]
    command += ["--topic", topic, "--archives", archives, "--folder", str(held.folder)]
    command += ["--repetitions", str(repetitions)]
    for name, value in more.items():
        command += [f"--{name.replace('_', '-')}", value]
    with (held.folder / "spark.log").open("w") as log:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False, timeout=_JOB_SECONDS)
    if ran.returncode:
        raise SystemExit(f"{action} of {topic} failed\n{(held.folder / 'spark.log').read_text()[-4000:]}")
    results: dict[str, list[Run]] = json.loads(ran.stdout.splitlines()[-1])
    for kind, runs in results.items():
        for figure in runs[0]:
            said = ", ".join(f"{run[figure]:.2f}" for run in runs)
            print(f"  {topic:12} {action} {kind:18} {figure:10} {said}", file=sys.stderr, flush=True)
    return results


def _beside_kafka(held: Held, action: str, kinds: Sequence[str], topic: str, repetitions: int) -> dict[str, list[Run]]:
    with held.kafka() as kafka:
        return _run(
            held,
            action,
            kinds,
            topic,
            repetitions,
            bootstrap=f"127.0.0.1:{kafka.port}",
            server_pids=str(kafka.pid),
        )


def _scan(records: RecordSet, held: Held, repetitions: int) -> list[Outcome]:
    held.make(records)
    runs = _beside_kafka(held, "scan", (_OURS, _COLUMNS, _DEFAULT, _TUNED), records.name, repetitions)
    name = f"scan-{records.name}"
    lines = (
        _Compared(f"{name}: wall, default", "wall", _OURS, _DEFAULT, Bound(">=", 2.0)),
        _Compared(f"{name}: CPU, default", "cpu", _OURS, _DEFAULT, Bound(">=", 1.5)),
        _Compared(f"{name}: wall, tuned", "wall", _OURS, _TUNED, Bound(">=", 1.4)),
        _Compared(f"{name}: CPU, tuned", "cpu", _OURS, _TUNED, Bound(">=", 1.0)),
        _Compared(f"{name}: wall, tuned, 3 columns named", "wall", _COLUMNS, _TUNED, Bound(">=", 1.4)),
        _Compared(f"{name}: CPU, tuned, 3 columns named", "cpu", _COLUMNS, _TUNED, Bound(">=", 1.0)),
    )
    return [line.judge(runs) for line in lines]


def _parquet(records: RecordSet, held: Held, repetitions: int) -> list[Outcome]:
    held.make(records)
    runs = _beside_kafka(held, "write", (_OURS, _DEFAULT, _TUNED), records.name, repetitions)
    name, small = f"parquet-{records.name}", records.value_bytes == _SMALL_BYTES
    per_core = [[records.count / 1e6 / _figure(run, "cpu") for run in runs[kind]] for kind in (_OURS, _DEFAULT)]
    details: dict[str, float | str] = {"stratalog": median(per_core[0]), "kafka": median(per_core[1])}
    bound = Bound(">=", 0.0)  # to be known: by the clock it is judged above
    return [
        _Compared(f"{name}: wall, default", "wall", _OURS, _DEFAULT, Bound(">=", 3.5 if small else 1.5)).judge(runs),
        _Compared(f"{name}: wall, tuned", "wall", _OURS, _TUNED, Bound(">=", 2.5 if small else 1.3)).judge(runs),
        Outcome(f"{name}: million rows/s/core", "of CPU time", median(per_core[0]), bound, details=details),
    ]


def _micro_batch(held: Held, repetitions: int) -> list[Outcome]:
    held.make(SETS[_S3_SET])
    runs = _beside_kafka(held, "micro-batch", (_OURS, _DEFAULT), _S3_SET, repetitions)
    line = _Compared("micro-batch: ms", "batch_ms", _OURS, _DEFAULT, Bound("<=", 1.0), inverse=True)
    return [line.judge(runs)]


def _s3(action: str, server: str, held: Held, repetitions: int) -> list[Outcome]:
    records = SETS[_S3_SET]
    held.make(records)
    with _s3_server(server) as (environment, pid):
        os.environ.update(environment)
        _upload(held.folder / "bucket", records.name)
        archives = json.dumps({_OURS: held.bucket, "s3": f"s3://{_S3_BUCKET}"})
        kinds = (_OURS, "s3")
        runs = _run(held, action, kinds, records.name, repetitions, archives=archives, server_pids=str(pid))
    name = f"s3-{'parquet' if action == 'write' else action}-{server}"
    return [
        _Compared(f"{name}: {figure}, server / files", figure, "s3", _OURS, Bound("<=", _S3_TAX), inverse=True).judge(
            runs
        )
        for figure in ("wall", "cpu")
    ]


@contextmanager
def _s3_server(name: str) -> Iterator[tuple[dict[str, str], int]]:
    """A server with an empty bucket: what clients need in their environment, and the process that it descends from."""
    launcher = Path(__file__).resolve().parents[2] / "localstack" / "run_s3.py"
    process = subprocess.Popen(
        [sys.executable, str(launcher), name, "--install", "--bucket", _S3_BUCKET],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        environment: dict[str, str] = {}
        for line in process.stdout:
            if match := re.match(r"export (\w+)='(.*)'", line):
                environment[match.group(1)] = match.group(2)
            if "LOCAL_STORE_URL" in environment:
                break
        else:
            raise SystemExit("the S3 server did not start")
        yield environment, process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def _upload(bucket: Path, topic: str) -> None:
    """The topic's archive in a folder, object by object, under the same keys."""
    client = boto3.client("s3")
    for path in sorted(bucket.glob(f"topics/{topic}-*/**/*")):
        if path.is_file():
            client.upload_file(str(path), _S3_BUCKET, path.relative_to(bucket).as_posix())


CELLS: dict[str, Measure] = {
    **{f"scan-{records.name}": partial(_scan, records) for records in SETS.values()},
    **{f"parquet-{records.name}": partial(_parquet, records) for records in SETS.values()},
    "micro-batch": _micro_batch,
    **{f"s3-scan-{server}": partial(_s3, "scan", server) for server in _S3_SERVERS},
    **{f"s3-parquet-{server}": partial(_s3, "write", server) for server in _S3_SERVERS},
}
