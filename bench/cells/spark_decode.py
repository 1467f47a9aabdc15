"""Cost of decoding a record: the array code and the compiled kernel in turns over the same archived bytes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.archives import json_values
from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, interleaved
from bench.settings import Settings

__all__ = ["CELL", "main"]

_NUMPY = Line("spark-decode-numpy", "ns of CPU a record, 100 B uncompressed, array code", Bound("<=", 260))
_COMPILED = Line("spark-decode-compiled", "ns of CPU a record, 100 B uncompressed, compiled kernel", Bound("<=", 30))

_RANGE_BYTES = 8 << 20
_RANGES = 4
"""More bytes than a core keeps to itself: ranges come from elsewhere, and are decoded once."""
_TURNS = 15
_PATHS = {"numpy": "off", "compiled": "require"}
_FIRST_MS = 1_784_678_400_000


@dataclass(frozen=True, slots=True)
class _Kind:
    """Records as they lie in an archive: value bytes, varied by half of that or not, codec, bytes of a batch."""

    name: str
    value_bytes: int
    varied: bool = False
    codec: str = "NONE"
    batch_bytes: int = 64 << 10


_KINDS = (
    _Kind("100 B", 100),
    _Kind("100 B varied", 100, varied=True),
    _Kind("100 B, batches of 16 KiB", 100, batch_bytes=16 << 10),
    _Kind("100 B, lz4", 100, codec="LZ4"),
    _Kind("100 B, zstd", 100, codec="ZSTD"),
    _Kind("1 KiB", 1024),
    _Kind("1 KiB varied", 1024, varied=True),
)


def _measure(_: Settings) -> list[Outcome]:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.cells.spark_decode"], stdout=subprocess.PIPE, text=True, check=False
    )
    if ran.returncode:
        raise SystemExit("the decoder could not be measured")
    found: dict[str, dict[str, float]] = json.loads(ran.stdout.splitlines()[-1])
    for name, each in found.items():
        figures = ", ".join(f"{path} {ns:.1f}" for path, ns in each.items())
        print(f"  {name:25} {figures} ns", file=sys.stderr, flush=True)
    numpy = {name: each["numpy"] for name, each in found.items()}
    outcomes = [_NUMPY.outcome(numpy[_KINDS[0].name], **numpy)]
    if "compiled" not in found[_KINDS[0].name]:
        return [*outcomes, _COMPILED.not_measured("the compiled kernel is not installed (make kernel)")]
    compiled = {name: each["compiled"] for name, each in found.items()}
    return [*outcomes, _COMPILED.outcome(compiled[_KINDS[0].name], **compiled)]


def _ranges(kind: _Kind) -> Iterator[tuple[bytes, int]]:
    """Some megabytes of batches with keys of ten bytes, and the number of their records."""
    from stratalog.wire.batch import Record, build_batch
    from stratalog.wire.compression import Codec

    dice = random.Random(7)
    low, high = (kind.value_bytes // 2, kind.value_bytes * 3 // 2) if kind.varied else (kind.value_bytes,) * 2
    values = [value[: dice.randint(low, high)] for value in json_values(4000, high)]
    count = kind.batch_bytes // (kind.value_bytes + 20)
    offset = 0
    for _ in range(_RANGES):
        data = bytearray()
        first = offset
        while len(data) < _RANGE_BYTES:
            content = [
                Record(at, _FIRST_MS + at // 100, b"k%09d" % at, values[dice.randrange(len(values))])
                for at in range(offset, offset + count)
            ]
            data += build_batch(content, codec=Codec[kind.codec])
            offset += count
        yield bytes(data), offset - first


def _nanoseconds(kind: _Kind, paths: tuple[str, ...]) -> dict[str, float]:
    from stratalog.spark.rows.decode import Window, decode_batches
    from stratalog.spark.rows.kernel import VARIABLE
    from stratalog.spark.rows.schema import COLUMNS
    from stratalog.wire.topic import TopicPartition

    partition, window = TopicPartition("rows", 0), Window(0, 1 << 62)
    columns = [name for name in COLUMNS if name != "headers"]
    ranges = list(_ranges(kind))

    def run(path: str, _: int) -> float:
        os.environ[VARIABLE] = _PATHS[path]
        began, rows = time.thread_time_ns(), 0
        for data, _ in ranges:
            # As in a task, whose ranges have had their CRC compared and whose rows go on batch by batch.
            for batch in decode_batches(data, partition, columns, window, checked=True):
                rows += batch.num_rows
        spent = time.thread_time_ns() - began
        if rows != sum(count for _, count in ranges):
            raise SystemExit(f"{kind.name}, {path}: {rows} rows")
        return spent / rows

    interleaved(paths, 1, run)
    return {path: min(each) for path, each in interleaved(paths, _TURNS, run).items()}


def main() -> None:
    """Decode each kind in both ways by turns, and print one line of JSON: the best of the runs, by kind and path."""
    from stratalog.spark.environment.worker_memory import keep_freed_memory
    from stratalog.spark.rows.kernel import chosen_kernel

    keep_freed_memory()
    paths = tuple(_PATHS) if chosen_kernel({}).kernel else ("numpy",)
    print(json.dumps({kind.name: _nanoseconds(kind, paths) for kind in _KINDS}))


CELL = Cell("spark-decode", (_NUMPY, _COMPILED), _measure)

if __name__ == "__main__":
    main()
