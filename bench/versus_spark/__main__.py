"""``python -m bench.versus_spark [--cells a,b]``: Spark on the archive beside Spark on Apache Kafka; exit code 1 for a miss."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.outcome import Outcome
from bench.settings import Settings, touch_memory
from bench.versus.kafka import kafka_jars
from bench.versus.table import keep, measured, table
from bench.versus_spark.cells import CELLS
from bench.versus_spark.connector import connector_jars
from bench.versus_spark.records import Held

_TOUCHED_BYTES = 3 << 30


def main(arguments: list[str] | None = None) -> int:
    """Run the cells that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.versus_spark", description=__doc__)
    parser.add_argument("--cells", default="", help=f"names or beginnings of names, of: {', '.join(CELLS)}")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each kind; one more warms up")
    parser.add_argument("--keep", type=Path, help="a folder where the records stay, for cells that are run one by one")
    given = parser.parse_args(arguments)
    words = [word for word in given.cells.split(",") if word]
    chosen = [name for name in CELLS if not words or any(name.startswith(word) for word in words)]
    if not chosen:
        parser.error(f"no cell is called {given.cells}; there are {', '.join(CELLS)}")
    settings = Settings(repetitions=given.repetitions)
    kafka_jars()
    connector_jars()
    touch_memory(_TOUCHED_BYTES)
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        held = Held((given.keep or stack.enter_context(settings.folder(settings.disk))).absolute())
        for name in chosen:
            outcomes += measured(name, partial(CELLS[name], held, settings.repetitions))
    keep(outcomes, "spark")
    print(table(outcomes, "Spark on the archive (stratalog) beside Spark on Apache Kafka; for s3, files are 'kafka'"))
    return 0 if all(one.held for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
