"""Starts what runs beside an event loop: threads, worker processes, syncs by the kernel.

Code that needs one of them asks the spawner of its loop. That is the system's, unless the loop has one of its own: a
loop with virtual time has threads and workers that live in it, so that the whole broker runs on it unchanged.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Protocol, cast

from stratalog.broker.workers.main import Start, load_target
from stratalog.broker.workers.watch import Patience
from stratalog.broker.workers.workers import ProcessWorkers, ThreadWorkers, Workers
from stratalog.hot.storage.kernel_sync import KernelSync

__all__ = ["Spawner", "SystemSpawner", "spawner_of"]


class Spawner(Protocol):
    """Starts threads and processes beside an event loop."""

    def threads(self, count: int, name: str) -> Executor:
        """A pool of ``count`` threads."""
        ...

    def workers(self, role: str, start: Start, *, patience: Patience | None = None) -> Workers:
        """Workers that execute commands outside of the event loop; ``patience`` says when a command counts as hung."""
        ...

    def kernel_sync(self, directory: str) -> KernelSync[Any] | None:
        """A queue of syncs for files below ``directory``; None if threads have to do it."""
        ...


class SystemSpawner:
    """Threads of this process and processes of this system."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def threads(self, count: int, name: str) -> Executor:
        """A pool of ``count`` threads."""
        return ThreadPoolExecutor(count, thread_name_prefix=name)

    def workers(self, role: str, start: Start, *, patience: Patience | None = None) -> Workers:
        """A worker process; threads for a store that lives in the memory of this process."""
        if str(start.options.get("url", "")).startswith("memory:"):
            target = load_target(start.target, start.options)
            return ThreadWorkers(self._loop, target, threads=start.threads, role=role)
        return ProcessWorkers(self._loop, role, start, patience=patience)

    def kernel_sync(self, directory: str) -> KernelSync[Any] | None:
        """A queue of syncs for files below ``directory``; None if threads have to do it."""
        return KernelSync.open(directory)


def spawner_of(loop: asyncio.AbstractEventLoop) -> Spawner:
    """The attribute ``spawner`` of ``loop`` if it has one, else threads and processes of the system."""
    own = getattr(loop, "spawner", None)
    return SystemSpawner(loop) if own is None else cast("Spawner", own)
