"""Start time of a test's broker: the fixture ``stratalog_broker``, without the imports of the first one."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.build import broker_environment
from bench.cell import Cell, Line
from bench.outcome import Bound, Outcome, median
from bench.settings import Settings

__all__ = ["CELL"]

_BROKERS = 20
_LINE = Line("fixture-start", "ms until a test has its broker, by the clock", Bound("<=", 200))

_PROGRAM = """
import json, sys, time
began = time.perf_counter()
from stratalog.broker.embedded import EmbeddedBroker, LoopThread
imported = time.perf_counter() - began
thread, starts, stops = LoopThread(), [], []
for number in range(int(sys.argv[2])):
    began = time.perf_counter()
    broker = EmbeddedBroker(f"{sys.argv[1]}/{number}", thread).start()
    starts.append(time.perf_counter() - began)
    broker.create_topic("t")
    began = time.perf_counter()
    broker.discard()
    stops.append(time.perf_counter() - began)
thread.close()
print(json.dumps({"imported": imported, "starts": starts, "stops": stops}))
"""


def _measure(settings: Settings) -> list[Outcome]:
    with settings.folder(settings.disk) as folder:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(folder), str(_BROKERS)],
            capture_output=True,
            text=True,
            check=True,
            env=broker_environment(),
        )
    found = json.loads(done.stdout)
    start, stop = (median(found[name]) * 1e3 for name in ("starts", "stops"))
    slowest, imported = max(found["starts"]) * 1e3, found["imported"] * 1e3
    print(
        f"  start {start:.0f} ms (slowest {slowest:.0f}), stop {stop:.0f} ms, imports {imported:.0f} ms",
        file=sys.stderr,
    )
    outcome = _LINE.outcome(start, slowest_ms=slowest, stop_ms=stop, import_ms=imported)
    outcome.note = (
        f"slowest of {_BROKERS} {slowest:.0f} ms, stop {stop:.0f} ms, the imports before the first {imported:.0f} ms"
    )
    return [outcome]


CELL = Cell(_LINE.cell, (_LINE,), _measure)
