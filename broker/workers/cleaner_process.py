"""The cleaner's worker process: started by a cleaning, kept while others may follow soon, ended after that with its memory.

A topic that is written to all the time is cleaned every few seconds, and a start of Python takes longer than most cleanings.
"""

from __future__ import annotations

import asyncio
from typing import Final

from stratalog.broker.workers.main import Start
from stratalog.broker.workers.spawner import Spawner
from stratalog.broker.workers.workers import Workers

__all__ = ["CleanerProcess"]

REST_SECONDS: Final = 60.0
_NICENESS: Final = 15


class CleanerProcess:
    """Lives on the event loop. ``workers`` is None while there is no process."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self.workers: Workers | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def begin(self, threads: int) -> Workers:
        """The workers for a cleaning; ``threads`` at a time if they are started now."""
        self._stay()
        if self.workers is None:
            start = Start("stratalog.broker.workers.cpu_worker:cpu_worker", threads=threads, niceness=_NICENESS)
            self.workers = self._spawner.workers("cleaner", start)
        return self.workers

    def rest(self) -> None:
        """No cleaning is under way: end the process if none follows soon."""
        self._stay()
        if self.workers is not None:
            self._resting = asyncio.get_running_loop().call_later(REST_SECONDS, self.end)

    def end(self) -> None:
        """End the process; the next cleaning starts another."""
        self._stay()
        workers, self.workers = self.workers, None
        if workers is not None:
            self._ending = asyncio.get_running_loop().create_task(workers.close())

    async def close(self) -> None:
        """End the process, and wait for it."""
        self.end()
        if self._ending is not None:
            await self._ending

    def _stay(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
