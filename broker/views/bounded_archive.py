"""The archive of one partition as it was: `RemotePartition` for what lies wholly below an end, the tail from a file.

`RemotePartition` sees a shorter archive than there is: its commands to the worker, and their reports, pass through
here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stratalog.broker.cold.reader import RemotePartition, RemoteSlices
from stratalog.broker.workers.io_worker import ask
from stratalog.hot.log.times import TimestampOffset
from stratalog.hot.storage.filesystem import RealFile
from stratalog.tier.messages import commands
from stratalog.tier.messages.reports import BoundedViewRead, Tail
from stratalog.tier.objects.chunk_table import ROW_BYTES
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.parts import FileSlice

if TYPE_CHECKING:
    from stratalog.broker.cold.chunk_files import ChunkFiles
    from stratalog.broker.runtime.metrics import TopicMetrics
    from stratalog.broker.workers.io_worker import Submit
    from stratalog.tier.manifests.entry import LeaderEpoch
    from stratalog.tier.reading.chunk_pins import Reader

__all__ = ["BoundedArchive"]


class _TailFile:
    """The batches of a tail in an unlinked file, from which they are sent as any others."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        fd, path = tempfile.mkstemp(prefix="stratalog-view-")
        self._file = RealFile(fd, path)  # it closes with the last slice of it
        Path(path).unlink()
        left = memoryview(tail.data)
        while left:
            left = left[self._file.writev([left]) :]
        self._batches = [(header.next_offset, at, header.size_bytes) for at, header in iter_headers(tail.data)]

    def read(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> RemoteSlices:
        """Whole batches from the one that holds ``offset`` on."""
        tail = self.tail
        start = size_bytes = 0
        next_offset = offset
        for after, at, batch_bytes in self._batches:
            if after <= offset:
                continue
            if size_bytes + batch_bytes > max_bytes and not (min_one_batch and not size_bytes):
                break
            start = start if size_bytes else at
            size_bytes += batch_bytes
            next_offset = after
        else:
            next_offset = tail.end
        parts = [FileSlice(self._file, start, size_bytes)] if size_bytes else []
        return RemoteSlices(parts, size_bytes, next_offset, tail.aborted)


class BoundedArchive:
    """The part of an archive that `archived_log` needs; it never holds more than it held when it was opened."""

    def __init__(
        self,
        command: commands.ReadBoundedView,
        *,
        submit: Submit,
        chunks: ChunkFiles,
        metrics: TopicMetrics,
        wake: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._command = command
        self._worker = submit
        self._inner = RemotePartition(
            command.partition, submit=self._submit, chunks=chunks, metrics=metrics, wake=wake, now_ms=now_ms
        )
        self._end_offset = 0
        self._tail: _TailFile | None = None

    def take(self, report: BoundedViewRead) -> None:
        """The view has been read. It may be read again, if objects were replaced: then it ends where it ended."""
        self._command = commands.ReadBoundedView(
            self._command.partition, report.end_offset, None, self._command.key, self._command.sha256
        )
        self._end_offset = report.end_offset
        self._tail = None if report.tail is None else _TailFile(report.tail)
        self._inner.apply(report.view)

    def _submit(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        """Pass a command of `RemotePartition` to the worker; its report is as if the archive ended at the tail."""
        tail = None if self._tail is None else self._tail.tail
        if isinstance(command, commands.ReadManifest):
            self._worker(self._command, lambda report: answered(self._reread(report)))
        elif isinstance(command, commands.ReadFooter) and tail is not None and command.key == tail.key:
            whole = replace(command, path=None)  # the chunk might be one that the view does not hold whole
            self._worker(whole, lambda report: answered(_without_tail(report, tail)))
        else:
            self._worker(command, answered)

    def _reread(self, report: commands.Report) -> commands.Report:
        if not isinstance(report, BoundedViewRead):
            return report
        self._tail = None if report.tail is None else _TailFile(report.tail)
        return commands.ManifestRead(report.view)

    # -- as RemoteReader --------------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """Whether the view has been read."""
        return self._inner.known

    @property
    def leader_epochs(self) -> tuple[LeaderEpoch, ...]:
        """Those of the view."""
        return self._inner.leader_epochs

    @property
    def start_offset(self) -> int:
        """The first readable offset."""
        return min(self._inner.start_offset, self._end_offset)

    @property
    def end_offset(self) -> int:
        """Where the view ends."""
        return self._end_offset

    @property
    def archive_clean_offset(self) -> int:
        """Always the default: views are not compacted."""
        return 0

    def read(self, reader: Reader, offset: int, max_bytes: int, *, min_one_batch: bool) -> RemoteSlices | None:
        """Cached batches, or None while they are being fetched; those of the tail at once. Raises `KafkaError`."""
        tail = self._tail
        if tail is not None and offset >= tail.tail.base:
            self._inner.crossed(reader, offset)
            return tail.read(offset, max_bytes, min_one_batch=min_one_batch)
        return self._inner.read(reader, offset, max_bytes, min_one_batch=min_one_batch)

    def throttle_ms(self, reader: Reader) -> int:
        """How long the reader waits for its turn to have something fetched."""
        return self._inner.throttle_ms(reader)

    def crossed(self, reader: Reader, offset: int) -> None:
        """The reader has everything up to ``offset``."""
        self._inner.crossed(reader, offset)

    def end_reads(self) -> None:
        """The view is shown no longer."""
        self._inner.end_reads()

    def may_hold(self, timestamp_ms: int, before_offset: int) -> bool:
        """Whether the view may hold a record at or after this time."""
        tail = self._tail
        return (tail is not None and tail.tail.latest_ms >= timestamp_ms) or self._inner.may_hold(
            timestamp_ms, before_offset
        )

    async def find_timestamp(self, timestamp_ms: int, from_offset: int, before_offset: int) -> TimestampOffset | None:
        """The first record at or after a time in ``[from_offset, before_offset)``. Raises `KafkaError`."""
        tail = None if self._tail is None else self._tail.tail
        below = before_offset if tail is None else min(before_offset, tail.base)
        found = await self._inner.find_timestamp(timestamp_ms, from_offset, below) if from_offset < below else None
        if found is not None or tail is None or tail.latest_ms < timestamp_ms:
            return found
        start, end = max(from_offset, tail.base), min(before_offset, tail.end)
        report = await ask(
            self._worker, commands.FindTimestamp(self._command.partition, tail.key, timestamp_ms, start, end)
        )
        if not isinstance(report, commands.TimestampFound):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, getattr(report, "message", str(report)))
        if report.offset < 0:
            return None
        return TimestampOffset(report.timestamp_ms, report.offset, report.leader_epoch)

    async def find_max_timestamp(self, before_offset: int) -> TimestampOffset | None:
        """The first record with the largest timestamp. Raises `KafkaError`."""
        tail = None if self._tail is None else self._tail.tail
        below = before_offset if tail is None else min(before_offset, tail.base)
        found = await self._inner.find_max_timestamp(below)
        if tail is None or tail.latest_offset < 0 or (found is not None and found.timestamp_ms >= tail.latest_ms):
            return found
        return TimestampOffset(tail.latest_ms, tail.latest_offset, tail.latest_epoch)


def _without_tail(report: commands.Report, tail: Tail) -> commands.Report:
    """A chunk table without the chunks that the view does not hold whole."""
    if not isinstance(report, commands.FooterRead):
        return report
    return commands.FooterRead(report.key, report.chunks[: tail.chunk_count * ROW_BYTES], report.blobs)
