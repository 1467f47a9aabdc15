"""Coroutines that run beside the quorum's events: requests to others, snapshots, answers to proposals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Beside"]


class Beside:
    """The tasks of one quorum. A call starts one. Lives on the event loop."""

    def __init__(self, on_fault: Callable[[BaseException], None]) -> None:
        """``on_fault`` hears of a task that failed: it must not leave a request in flight, or a snapshot under way, for good."""
        self._on_fault = on_fault
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_fault(error)

    def cancel(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)
