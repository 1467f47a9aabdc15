"""Limits the uploads that run at once on this broker: they cost the worker's memory and threads.

Files are sent a piece at a time, but a store that has to see all bytes of an object before it sends the first (MD5,
fsspec) holds it whole, and a large object is sent in parts, several of them in memory at once. Without a bound, a
broker with many busy partitions would hold one for each thread of its worker, and no thread would be left to fetch
chunks for readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from stratalog.broker.workers.io_worker import Submit
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands
from stratalog.tier.objects.segment_upload import SINGLE_PUT_BYTES_MAX
from stratalog.tier.stores.source import source_length

__all__ = ["UPLOADS_MAX", "UploadGate"]

UPLOADS_MAX: Final = 3

_ENDED: Final = commands.FailedReport("its leadership has ended before its turn came", retriable=False)


class _Waiting(NamedTuple):
    """An upload, the bytes of memory that it takes, and its number: they come in order."""

    command: commands.Upload
    answered: Callable[[commands.Report], None]
    buffered: int
    number: int


class UploadGate:
    """Lets every other command through, and uploads in the order in which they came.

    At most `UPLOADS_MAX` at a time, of objects that are small enough to be one PUT: some are checked while others are
    sent. A larger one goes up alone.
    """

    def __init__(self, submit: Submit, bytes_max: int = UPLOADS_MAX * SINGLE_PUT_BYTES_MAX) -> None:
        self._submit = submit
        self._bytes_max = bytes_max
        self._waiting: deque[_Waiting] = deque()
        self._running: dict[object, commands.Upload] = {}
        self._running_bytes = 0
        self._count = 0
        self._ended: dict[tuple[PartitionId, int], int] = {}
        """Leader epochs of partitions, and the number behind their last upload that waits for nothing."""

    @property
    def running(self) -> list[commands.Upload]:
        """Uploads under way, oldest first."""
        return list(self._running.values())

    @property
    def waiting_count(self) -> int:
        """Uploads that wait for those under way."""
        return len(self._waiting)

    def __call__(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        """Send the command, now or after the uploads before it."""
        if not isinstance(command, commands.Upload):
            self._submit(command, answered)
            return
        buffered = min(source_length(command.request.source), self._bytes_max)
        self._count += 1
        self._waiting.append(_Waiting(command, answered, buffered, self._count))
        self._start()

    def end(self, partition: PartitionId, leader_epoch: int) -> None:
        """Send none of the uploads that wait here for a leadership that has ended: it could not commit them."""
        if self._waiting:
            self._ended[partition, leader_epoch] = self._count

    def _start(self) -> None:
        while self._waiting and len(self._running) < UPLOADS_MAX:
            command, answered, buffered, number = self._waiting[0]
            if number <= self._ended.get((command.request.partition, command.claimant.leader_epoch), 0):
                self._waiting.popleft()
                answered(_ENDED)
                continue
            if self._running and self._running_bytes + buffered > self._bytes_max:
                return
            self._waiting.popleft()
            ticket = object()
            self._running[ticket] = command
            self._running_bytes += buffered
            self._submit(command, self._finishing(ticket, answered, buffered))
        if not self._waiting:
            self._ended.clear()

    def _finishing(
        self, ticket: object, answered: Callable[[commands.Report], None], buffered: int
    ) -> Callable[[commands.Report], None]:
        def finished(report: commands.Report) -> None:
            del self._running[ticket]
            self._running_bytes -= buffered
            try:
                answered(report)
            finally:
                self._start()

        return finished
