"""``python -m bench.watched_node ARGUMENTS``: the command ``stratalog ARGUMENTS``, which says the long turns of its event loop.

Each turn of at least `TOLD_MS` is a line on stderr: ``turn 31.4 ms``. It is CPU time of the loop's thread, which other
programs of the machine do not change; the garbage collector's time is in it.
"""

from __future__ import annotations

import re
import sys
import time
from typing import Any, Final

from stratalog.broker.runtime.event_loop import BrokerLoop
from stratalog.cli.main import main

__all__ = ["TOLD_MS", "turn_ms_of"]

TOLD_MS: Final = 10.0
_TOLD: Final = re.compile(r"turn ([0-9.]+) ms")


def turn_ms_of(line: str) -> float | None:
    """The length of the turn that a line of a node tells; None for any other line."""
    found = _TOLD.fullmatch(line)
    return None if found is None else float(found[1])


def _watch() -> None:
    """Time every turn of every loop of this process from now on."""
    loop_class: Any = BrokerLoop
    turn = loop_class._run_once  # noqa: SLF001 - asyncio has no hook for a turn

    def timed(loop: Any) -> None:
        began = time.thread_time()
        turn(loop)
        taken_ms = (time.thread_time() - began) * 1e3
        if taken_ms >= TOLD_MS:
            print(f"turn {taken_ms:.1f} ms", file=sys.stderr, flush=True)

    loop_class._run_once = timed  # noqa: SLF001


if __name__ == "__main__":
    _watch()
    main()
