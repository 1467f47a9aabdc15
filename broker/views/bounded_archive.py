"""The archive of one partition as it was: `RemotePartition` for what lies wholly below an end, the tail from a file.

`RemotePartition` sees a shorter archive than there is: its commands to the worker, and their reports, pass through
here.
"""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from stratalog.broker.cold.reader import RemotePartition, RemoteSlices
from stratalog.broker.workers.io_worker import ask
from stratalog.hot.log.times import TimestampOffset
from stratalog.hot.storage.filesystem import RealFile
from stratalog.tier.messages import commands
from stratalog.tier.messages.reports import BoundedViewRead, Tail
from stratalog.tier.objects.chunk_table import ROW_BYTES
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.parts import FileSlice

if TYPE_CHECKING:
    from stratalog.broker.cold.chunk_files import ChunkFiles
    from stratalog.broker.cold.manifest_views import RemoteViews
    from stratalog.broker.runtime.metrics import TopicMetrics
    from stratalog.broker.workers.io_worker import Submit
    from stratalog.tier.manifests.entry import LeaderEpoch
    from stratalog.tier.reading.chunk_pins import Reader

__all__ = ["BoundedArchive", "KeptTail", "TailFile"]


class TailFile:
    """The tails of a view in one unlinked file, from which their batches are sent as any others."""

    def __init__(self) -> None:
        """Raises `OSError`."""
        fd, path = tempfile.mkstemp(prefix="stratalog-view-")
        self._file = RealFile(fd, path)  # it closes with the last slice of it
        Path(path).unlink()
        self.size_bytes = 0

    def keep(self, tail: Tail) -> KeptTail:
        """Write a tail down. Raises `OSError`; then the file takes no other one."""
        left = memoryview(tail.data)
        while left:
            left = left[self._file.writev([left]) :]
        position, self.size_bytes = self.size_bytes, self.size_bytes + len(tail.data)
        return KeptTail(self._file, position, structs.replace(tail, data=b""))


class KeptTail:
    """One of them. A chunk of 4 MiB may have tens of thousands of batches: they are found without a look at each."""

    def __init__(self, file: RealFile, position: int, tail: Tail) -> None:
        self.tail = tail
        self._file = file
        self._position = position
        self._ends = array("q", tail.ends)
        self._positions = array("q", tail.positions)

    def is_of(self, tail: Tail) -> bool:
        """Whether it has the bytes of ``tail``: objects never change."""
        return structs.replace(tail, data=b"") == self.tail

    def read(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> RemoteSlices:
        """Whole batches from the one that holds ``offset`` on."""
        tail, ends, positions = self.tail, self._ends, self._positions
        first = bisect_right(ends, offset)
        last = max(bisect_right(positions, positions[first] + max_bytes) - 1, first)
        if last == first < len(ends) and min_one_batch:
            last += 1
        next_offset = tail.end if last == len(ends) else ends[last - 1] if last > first else offset
        size_bytes = positions[last] - positions[first]
        at = self._position + positions[first]
        parts = [FileSlice(self._file, at, size_bytes)] if size_bytes else []
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
        ranges: RemoteViews | None = None,
    ) -> None:
        """``ranges`` bounds the archived ranges that are in memory, those of other views too: they are read again on demand."""
        self._command = command
        self._worker = submit
        self._inner = RemotePartition(
            command.partition,
            submit=self._submit,
            chunks=chunks,
            metrics=metrics,
            wake=wake,
            now_ms=now_ms,
            views=ranges,
        )
        self._end_offset = 0
        self._tail: KeptTail | None = None
        self._has_ended = False

    def take(self, report: BoundedViewRead, tails: TailFile) -> None:
        """The view has been read; ``tails`` gets its tail. Raises `OSError`.

        It may be read again, if objects were replaced: then it ends where it ended.
        """
        self._command = commands.ReadBoundedView(
            self._command.partition, report.end_offset, None, self._command.key, self._command.sha256
        )
        self._end_offset = report.end_offset
        self._tail = None if report.tail is None else tails.keep(report.tail)
        self._inner.apply(report.view)

    def _submit(self, command: commands.Command, answered: Callable[[commands.Report], None]) -> None:
        """Pass a command of `RemotePartition` to the worker; its report is as if the archive ended at the tail."""
        tail = None if self._tail is None else self._tail.tail
        if isinstance(command, commands.ReadManifest):
            self._worker(self._command, lambda report: self._take_anew(report, answered))
        elif isinstance(command, commands.ReadFooter) and tail is not None and command.key == tail.key:
            whole = structs.replace(command, path=None)  # the chunk might be one that the view does not hold whole
            self._worker(whole, lambda report: answered(_without_tail(report, tail)))
        else:
            self._worker(command, answered)

    def _take_anew(self, report: commands.Report, answered: Callable[[commands.Report], None]) -> None:
        answered(self._reread(report))
        if self._has_ended:  # while it was read: its ranges would stay in memory, and its file open
            self._inner.end_reads()

    def _reread(self, report: commands.Report) -> commands.Report:
        if not isinstance(report, BoundedViewRead):
            return report
        tail = report.tail
        try:
            if tail is None:
                self._tail = None
            elif self._tail is None or not self._tail.is_of(tail):
                self._tail = TailFile().keep(tail)
        except OSError as error:
            return commands.FailedReport(
                f"the last part of a view cannot be kept: {error}", retriable=False, local=True
            )
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
        self._has_ended = True
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
