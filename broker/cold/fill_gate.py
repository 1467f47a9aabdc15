"""In which order chunks are fetched, and how many at once: a bound on the worker's memory, and threads left for others.

Chunks that a reader waits for go before those fetched ahead, also when they were asked for ahead and a reader has
caught up with them. The rest waits here, in the broker, where its order can still change: a short request, for a
manifest or a chunk table, never stands behind a queue of fills.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.messages import commands, reports
from stratalog.tier.reading.remote_log import ChunkId

__all__ = ["FILLS_MAX", "FillGate"]

FILLS_MAX: Final = 4
"""GETs of up to 12 MiB at once: more would not be faster, and each holds what it fetches."""

_Answered = Callable[[reports.Report], None]
_Waiting = tuple[commands.FillChunks, _Answered, Sequence[ChunkId]]


class FillGate:
    """Lets fills through, at most `FILLS_MAX` at a time."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._running = 0
        self._demanded: OrderedDict[ChunkId, _Waiting] = OrderedDict()  # by the first chunk of each
        self._ahead: OrderedDict[ChunkId, _Waiting] = OrderedDict()
        self._first_of: dict[ChunkId, ChunkId] = {}  # of the chunks that wait ahead

    def __len__(self) -> int:
        """Fills that wait."""
        return len(self._demanded) + len(self._ahead)

    def fill(
        self, command: commands.FillChunks, answered: _Answered, chunk_ids: Sequence[ChunkId], *, ahead: bool
    ) -> None:
        """Fetch chunks, now or when it is their turn; none of them is being fetched already."""
        first = chunk_ids[0]
        if ahead:
            self._ahead[first] = command, answered, chunk_ids
            self._first_of.update(dict.fromkeys(chunk_ids, first))
        else:
            self._demanded[first] = command, answered, chunk_ids
        self._start()

    def pass_by(self) -> bool:
        """Count a fetch that is part of another command; False if as many as may be are under way, or another fetch
        waits.

        `passed` ends it.
        """
        if self._running >= FILLS_MAX or len(self):
            return False
        self._running += 1
        return True

    def passed(self) -> None:
        """End a fetch that `pass_by` counted."""
        self._running -= 1
        self._start()

    def hurry(self, chunk_id: ChunkId) -> None:
        """A reader waits for the chunk: if it was only to be fetched ahead, it is not any more."""
        first = self._first_of.get(chunk_id)
        if first is not None:
            self._demanded[first] = self._leave_ahead(first)

    def _leave_ahead(self, first: ChunkId) -> _Waiting:
        waiting = self._ahead.pop(first)
        for chunk_id in waiting[2]:
            del self._first_of[chunk_id]
        return waiting

    def _start(self) -> None:
        while self._running < FILLS_MAX:
            if self._demanded:
                _, (command, answered, _) = self._demanded.popitem(last=False)
            elif self._ahead:
                command, answered, _ = self._leave_ahead(next(iter(self._ahead)))
            else:
                return
            self._running += 1
            self._submit(command, self._finishing(answered))

    def _finishing(self, answered: _Answered) -> _Answered:
        def finished(report: reports.Report) -> None:
            self._running -= 1
            try:
                answered(report)
            finally:
                self._start()

        return finished
