"""What touches every record of a batch: handed to the ``cpu`` worker, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stratalog.broker.cpu_worker import Rework
from stratalog.broker.machine import machine_of
from stratalog.broker.worker_main import Start
from stratalog.broker.workers import Workers
from stratalog.hot.batch_search import BatchSearch, TimestampOffset
from stratalog.wire.compression import Codec

__all__ = ["DeepWork"]


class DeepWork:
    """The ``cpu`` worker of a broker; the process starts with the first command."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    @classmethod
    def in_process(cls, loop: asyncio.AbstractEventLoop) -> DeepWork:
        """With a worker process of its own."""
        return cls(machine_of(loop).workers("cpu", Start("stratalog.broker.cpu_worker:cpu_worker", niceness=5)))

    def rework(
        self, batch: bytes, codec: Codec | None, keys_required: bool, done: Callable[[bytearray | Exception], None]
    ) -> None:
        """Bring a batch to a topic's settings."""
        self._workers.submit(
            Rework(batch, codec, keys_required),
            lambda report, error: done(report if error is None else error),
        )

    async def search(self, search: BatchSearch) -> TimestampOffset | None:
        """Look for a record in a batch: here in a small one, else in the worker; others have their turn before.

        Raises `Corrupt`, and `Retriable` if the worker is lost.
        """
        if search.small:
            await asyncio.sleep(0)
            return search.find()
        found: TimestampOffset | None = await self._workers.submit(search)
        return found

    async def close(self) -> None:
        """End the worker; what it still does fails."""
        await self._workers.close()
