"""Work that touches every record of a batch: handed to the ``cpu`` worker, so that the event loop goes on.

A batch of two kilobytes may take the worker seconds. So each source, a connection for instance, has at most a few
commands there at a time: its others wait in line here, and the sources take turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from stratalog.broker.workers.cpu_worker import Rework
from stratalog.broker.workers.main import Start
from stratalog.broker.workers.spawner import spawner_of
from stratalog.broker.workers.watch import WorkerState
from stratalog.broker.workers.workers import OnDone, Workers
from stratalog.hot.segments.batch_search import BatchSearch, TimestampOffset
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Retriable
from stratalog.wire.record_rules import RecordRules

__all__ = ["DeepWork", "FairQueue"]

_AT_WORKER_MAX: Final = 4
"""As many as the worker has threads: what lies there waits in the order in which it came."""
_OF_ONE_SOURCE_MAX: Final = 2
"""One is worked on while the other one's answer is on its way."""
_MEMORY_BYTES: Final = 3 << 30
"""Memory that the worker may allocate beyond its code: the cleaner's maps and four batches that are being opened."""


class FairQueue:
    """Commands for a worker, by source: sources take turns, and none has more than its share there."""

    def __init__(self, submit: Callable[[Any, OnDone], object]) -> None:
        self._submit = submit
        self._waiting: dict[Hashable, deque[tuple[Any, OnDone]]] = {}
        self._of_source: dict[Hashable, int] = {}
        self._at_worker = 0

    def put(self, source: Hashable, command: Any, on_done: OnDone) -> None:
        """Submit ``command`` when it is the turn of ``source``; ``on_done`` hears of its end as of the worker's."""
        self._waiting.setdefault(source, deque()).append((command, on_done))
        self._pump()

    def _pump(self) -> None:
        while self._at_worker < _AT_WORKER_MAX:
            sources = [one for one in self._waiting if self._of_source.get(one, 0) < _OF_ONE_SOURCE_MAX]
            if not sources:
                return
            source = sources[0]
            # Out and in again: a source that had a turn is last.
            commands = self._waiting.pop(source)
            command, on_done = commands.popleft()
            if commands:
                self._waiting[source] = commands
            self._at_worker += 1
            self._of_source[source] = self._of_source.get(source, 0) + 1
            done = partial(self._done, source, on_done)
            try:
                self._submit(command, done)
            except Exception as error:  # noqa: BLE001 - the waiting caller gets every error
                done(None, error)

    def _done(self, source: Hashable, on_done: OnDone, report: Any, error: Exception | None) -> None:
        self._at_worker -= 1
        self._of_source[source] -= 1
        if not self._of_source[source]:
            del self._of_source[source]
        try:
            on_done(report, error)
        finally:
            self._pump()


LOOKED_AT_BYTES_MAX: Final = 4 << 20
"""Refused batches that wait to be looked at: any client may send them, so they are few."""


class DeepWork:
    """The ``cpu`` worker of a broker; the process starts with the first command."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._queue = FairQueue(workers.submit)
        self._looked_at_bytes = 0

    @classmethod
    def in_process(cls, loop: asyncio.AbstractEventLoop) -> DeepWork:
        """With a worker process of its own."""
        start = Start("stratalog.broker.workers.cpu_worker:cpu_worker", niceness=5, memory_bytes=_MEMORY_BYTES)
        return cls(spawner_of(loop).workers("cpu", start))

    def rework(
        self,
        batch: bytes,
        codec: Codec | None,
        rules: RecordRules,
        done: Callable[[bytearray | Exception], None],
        opened_bytes_max: int,
        source: Hashable,
    ) -> None:
        """Bring a batch to a topic's settings, in the turn of ``source``.

        A batch that needs no other form is only looked at, to say which of its records are refused; `Retriable` is
        reported at once where too many bytes wait for that already.
        """
        looked_at = 0 if codec is not None or rules.keys_required else len(batch)
        if looked_at and self._looked_at_bytes and self._looked_at_bytes + looked_at > LOOKED_AT_BYTES_MAX:
            done(Retriable(f"{self._looked_at_bytes} bytes of refused batches are looked at already"))
            return
        self._looked_at_bytes += looked_at

        def report(outcome: bytearray, error: Exception | None) -> None:
            self._looked_at_bytes -= looked_at
            done(outcome if error is None else error)

        self._queue.put(source, Rework(batch, codec, rules, opened_bytes_max), report)

    async def search(self, search: BatchSearch, source: Hashable = None) -> TimestampOffset | None:
        """Look for a record in a batch: here in a small one, else in the worker; others have their turn before.

        In the worker it takes the turn of ``source``.

        Raises `Corrupt`, and `Retriable` if the worker is lost.
        """
        if search.small:
            await asyncio.sleep(0)
            return search.find()
        outcome: asyncio.Future[TimestampOffset | None] = asyncio.get_running_loop().create_future()

        def done(report: TimestampOffset | None, error: Exception | None) -> None:
            if outcome.cancelled():
                return
            if error is None:
                outcome.set_result(report)
            else:
                outcome.set_exception(error)

        self._queue.put(source, search, done)
        return await outcome

    @property
    def worker(self) -> WorkerState:
        """How the worker does."""
        return self._workers.state

    async def close(self) -> None:
        """End the worker; what it still does fails."""
        await self._workers.close()
