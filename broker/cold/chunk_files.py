"""Chunks of the archive on the local disk: asked of the worker once, however many readers wait, sent by sendfile.

The books are kept by `stratalog.tier.reading.cache`, `ColdAdmission` says which reader may fetch now; this owns the files.
Files that an earlier run left behind are taken over by their names, and checked before they are served. To unlink takes
a millisecond a file, so it is done elsewhere, and no two files ever have the same name. Where the archive itself is on
this disk its objects are checked and sent as they are; those files are never touched.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from typing import Final

from stratalog.broker.cold.admission import ColdAdmission
from stratalog.broker.cold.cache_names import chunk_name, known_files, name_around
from stratalog.broker.cold.fill_gate import FILLS_MAX, FillGate
from stratalog.broker.runtime.ballast import clear_cache, same_file_system
from stratalog.broker.workers.io_worker import Submit
from stratalog.hot.storage.filesystem import File, RealFilesystem
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import commands, reports
from stratalog.tier.reading.aborted_cache import AbortedCache
from stratalog.tier.reading.cache import Admission, CacheLimits, ChunkCache
from stratalog.tier.reading.cached_chunk import CachedChunk
from stratalog.tier.reading.chunk_pins import Reader
from stratalog.tier.reading.readahead import ReadAhead
from stratalog.tier.reading.remote_log import ChunkId, ChunkRef, group_neighbours
from stratalog.wire.topic import Uuid

__all__ = ["ChunkFiles", "FillFailed"]

_OPEN_FILES_MAX: Final = 256
_DISK_FAILURES_MAX: Final = 2 * FILLS_MAX
"""So many fills in a row that the disk refuses may be those under way while room is made, and their repetitions."""

log = logging.getLogger(__name__)

FillFailed = Callable[[ChunkRef, reports.Report], None]


class ChunkFiles:
    """The chunk cache of one broker.

    ``aside`` has a function called in another thread, one after the other; by default it is called at once.
    """

    def __init__(
        self,
        directory: str,
        limits: CacheLimits,
        submit: Submit,
        now_ms: Callable[[], int],
        *,
        admission: ColdAdmission,
        is_gone: Callable[[Reader], bool] = lambda _reader: False,
        aside: Callable[[Callable[[], None]], object] = lambda run: run(),
    ) -> None:
        self.directory = directory
        self.books = ChunkCache(limits, is_gone=is_gone)
        self.ahead = ReadAhead(limits.cache_bytes)
        self.aborted = AbortedCache()
        self.admission = admission
        self._submit = submit
        self._gate = FillGate(submit)
        self._now_ms = now_ms
        self._files = RealFilesystem()
        self._open: OrderedDict[str, File] = OrderedDict()
        self._disk_failures = 0
        """Fills that the disk has refused since the last one that came."""
        self._scanned = False
        self._scan_waiters: dict[Reader, None] | None = None
        """Readers to wake when an earlier run's files are known, until they ask again."""
        self._aside = aside
        self._names = map(f"{os.urandom(4).hex()}-{{}}".format, count())

    def now_ms(self) -> int:
        """The clock of pins and holds."""
        return self._now_ms()

    # -- reading --------------------------------------------------------------------------------------------------

    def get(self, chunk_id: ChunkId, reader: Reader) -> tuple[CachedChunk, File] | None:
        """A cached chunk and its open file, pinned for the reader; None if it is not there. Raises `OSError`."""
        chunk = self.books.get(chunk_id, reader, self._now_ms())
        if chunk is None:
            return None
        file = self._open.get(chunk.path)
        if file is None:
            try:
                file = self._files.open_read(chunk.path)
            except FileNotFoundError:
                log.warning("the file %s is gone; the chunk is fetched again", chunk.path)
                self.books.forget(chunk_id)
                return None
            if chunk.shared:  # kept open, an object that retention deletes would go on using its disk
                return chunk, file
            self._open[chunk.path] = file
            while len(self._open) > _OPEN_FILES_MAX:
                self._open.popitem(last=False)
        self._open.move_to_end(chunk.path)
        return chunk, file

    def drop(self, chunk_id: ChunkId) -> None:
        """Forget a chunk whose file cannot be read. The file is closed and removed, and the chunk can be fetched again."""
        self.books.forget(chunk_id)
        self._remove_evicted()

    def read_past(self, chunk_id: ChunkId, reader: Reader) -> None:
        """The reader will not need the chunk again."""
        self.books.read_past(chunk_id, reader)
        self.admission.room()

    def leave(self, reader: Reader) -> None:
        """The reader is gone, or reads elsewhere."""
        self.books.leave(reader)
        self.ahead.leave(reader)
        self.admission.admit(reader)
        self.admission.room()

    # -- filling --------------------------------------------------------------------------------------------------

    def want(
        self,
        partition: PartitionId,
        refs: Iterable[ChunkRef],
        reader: Reader,
        *,
        failed: FillFailed,
        ahead: bool = False,
    ) -> bool:
        """Fetch those of ``refs`` that are neither cached nor on their way, neighbours by one GET.

        Readers that wait for a chunk are woken when it has come; ``failed`` is called for each that does not. False if
        not all of them may be fetched now; then the reader waits for its turn, unless it only looks ``ahead``. Raises
        `OSError` if the cache directory cannot be used.
        """
        self._files.make_directory(self.directory)  # the directory may have been cleared away
        if not self._scanned:
            self._scan(reader)
            return False
        if self._scan_waiters:
            self._scan_waiters.pop(reader, None)
        to_fill: list[ChunkRef] = []
        wait_ms: int | None = None
        try:
            for group in group_neighbours(list(refs)):
                wait_ms = self._ask(partition, group, reader, to_fill, ahead=ahead)
                if wait_ms is not None:
                    break
        finally:  # after an error too: others wait for what the books have on its way
            self._remove_evicted()
            for group in group_neighbours(to_fill):
                self._fill(partition, group, failed, ahead=ahead)
        if wait_ms is None or ahead:
            self.admission.admit(reader)
        else:
            self.admission.refuse(reader, wait_ms)
        return wait_ms is None

    def _ask(
        self,
        partition: PartitionId,
        group: Sequence[ChunkRef],
        reader: Reader,
        to_fill: list[ChunkRef],
        *,
        ahead: bool,
    ) -> int | None:
        """Take what comes by one GET into the books; None, or for how long the reader may not have it, 0 for room."""
        topic, now_ms = partition.topic_id, self._now_ms()
        lacking = [ref for ref in group if self.books.lacks(ref.id)]
        if lacking and (wait_ms := self.admission.wait_ms(reader, topic)):
            return wait_ms
        for ref in group:
            lacks = self.books.lacks(ref.id)
            admission = self.books.ask(ref.id, ref.chunk.length, reader, now_ms, topic)
            if admission is Admission.THROTTLED:
                return 0
            if admission is Admission.WAIT and not ahead:
                self._gate.hurry(ref.id)
            if admission is Admission.FILL:
                to_fill.append(ref)
                if lacks:
                    self.admission.take(reader, topic, ref.chunk.length)
        return None

    def _fill(
        self, partition: PartitionId, group: Sequence[ChunkRef], failed: FillFailed, *, ahead: bool = False
    ) -> None:
        topic_id = partition.topic_id
        fills = tuple(
            commands.ChunkFill(ref.chunk, self.books.path_to_check(ref.id) or self._new_path(topic_id, ref.id))
            for ref in group
        )

        def answered(report: reports.Report) -> None:
            if isinstance(report, reports.CorruptReport) and len(group) > 1:
                for ref in group:  # by itself, so that what is damaged hides no neighbour
                    self._fill(partition, (ref,), failed)
                return
            if isinstance(report, reports.ChunksFilled) and not report.chunks:
                self._note_free(0)
                words = f"the disk of the chunk cache {self.directory} is full"
                report = reports.FailedReport(words, retriable=True, local=True)
            if not isinstance(report, reports.ChunksFilled):
                self._fail(group, self._disk_refuses(report), failed)
                return
            self._disk_failures = 0
            waited: dict[Reader, None] = {}
            for ref, chunk in zip(group, report.chunks, strict=True):
                self._open.pop(chunk.path, None)
                waited.update(dict.fromkeys(self.books.filled(ref.id, chunk, self._now_ms())))
            if report.free_bytes >= 0:
                self._note_free(report.free_bytes)
            for reader in waited:
                self.admission.wake(reader)
            self.admission.room()

        command = commands.FillChunks(partition, group[0].key, fills)
        self._gate.fill(command, answered, [ref.id for ref in group], ahead=ahead)

    def _disk_refuses(self, report: reports.Report) -> reports.Report:
        """The report of a fill that failed; one that readers hear of, once the disk has refused more than a few in a row.

        They would wait for ever else, and the bucket would be read for them again and again.
        """
        if not isinstance(report, reports.FailedReport) or not report.local:
            return report
        self._disk_failures += 1
        if self._disk_failures <= _DISK_FAILURES_MAX:
            return report
        words = f"the chunk cache {self.directory} takes no file: {report.message}. Free its disk, or move it"
        return reports.FailedReport(words, retriable=False, local=True)

    def _fail(self, group: Sequence[ChunkRef], report: reports.Report, failed: FillFailed) -> None:
        for ref in group:  # all of them, before readers hear of the first
            self.books.failed(ref.id)
        for ref in group:
            failed(ref, report)
        self._remove_evicted()
        self.admission.room()

    # -- a chunk that comes with the table of its object --------------------------------------------------------------

    def begin_first(self, partition: PartitionId, uuid: Uuid, number: int, reader: Reader) -> tuple[str, str] | None:
        """A path, around the number that the chunk will turn out to have: about ``number``. Then `end_first` must follow.

        None if it is here already, or if the reader has to wait for its turn. Raises `OSError`.
        """
        near = [ChunkId(uuid, number + step) for step in (-1, 0, 1)]
        if not self._scanned or not all(map(self.books.lacks, near)):
            return None
        self._files.make_directory(self.directory)
        if self.admission.wait_ms(reader, partition.topic_id) or not self._gate.pass_by():
            return None
        before, behind = name_around(partition.topic_id, uuid, next(self._names))
        return f"{self.directory}/{before}", behind

    def end_first(
        self, partition: PartitionId, chunk_id: ChunkId, filled: reports.FilledChunk | None, reader: Reader
    ) -> None:
        """The fill begun by `begin_first` is over; ``filled`` is its result, if any."""
        try:
            if filled is not None:
                self._take_in(partition.topic_id, chunk_id, filled, reader)
        finally:
            self._gate.passed()

    def _take_in(self, topic: Uuid, chunk_id: ChunkId, filled: reports.FilledChunk, reader: Reader) -> None:
        now_ms = self._now_ms()
        self.admission.take(reader, topic, filled.length)
        if self.books.ask(chunk_id, filled.length, reader, now_ms, topic) is Admission.FILL:
            for waited in self.books.filled(chunk_id, filled, now_ms):
                self.admission.wake(waited)
        elif not filled.shared:
            self._remove([filled.path])
        self._remove_evicted()

    def _new_path(self, topic_id: Hashable, chunk_id: ChunkId) -> str:
        assert isinstance(topic_id, bytes)
        return f"{self.directory}/{chunk_name(topic_id, chunk_id, next(self._names))}"

    # -- room on the disk -----------------------------------------------------------------------------------------

    def give_way(self, directory: str) -> None:
        """The disk of ``directory`` is full: if the cache lies there, remove every chunk without a reader."""
        if not same_file_system(directory, self.directory):
            return
        self._note_free(0)
        if not self._scanned and self._scan_waiters is None:  # what an earlier run left is in no books yet
            self._aside(self._clear)

    def _clear(self) -> None:
        try:
            removed = clear_cache(self.directory)
        except OSError as error:
            log.warning("the chunk cache %s cannot be cleared: %s", self.directory, error)
        else:
            log.warning("the disk is full: %d files of the chunk cache %s have gone", removed, self.directory)

    def _note_free(self, free_bytes: int) -> None:
        self.books.note_free(free_bytes)
        self.ahead.resize(self.books.limit_bytes)
        self._remove_evicted()

    def _scan(self, reader: Reader) -> None:
        """See what an earlier run left, before anything is fetched; the reader is woken then."""
        if self._scan_waiters is not None:
            self._scan_waiters[reader] = None
            return
        waiters = self._scan_waiters = {reader: None}

        def answered(report: reports.Report) -> None:
            if isinstance(report, reports.CacheScanned):
                self._scanned = True
                self._take_over(report)
                while waiters:  # a fetch of many partitions is a reader for each: woken for one of them it asks for all
                    waiting = next(iter(waiters))
                    del waiters[waiting]
                    self.admission.wake(waiting)
            else:
                log.warning("the chunk cache %s is looked through with the next fetch: %s", self.directory, report)
            self._scan_waiters = None

        self._submit(commands.ScanCache(self.directory), answered)

    def _take_over(self, report: reports.CacheScanned) -> None:
        kept, useless = known_files(report.files, self.books.limits.cache_bytes)
        for found in kept:
            path = f"{self.directory}/{found.name}"
            if not self.books.restore(found.chunk_id, path, found.length, found.topic_id):
                useless.append(found.name)
        self._remove([f"{self.directory}/{name}" for name in useless])
        self._note_free(report.free_bytes)
        if kept:
            log.info("%d chunks of an earlier run are in the cache %s", len(self.books), self.directory)

    def _remove_evicted(self) -> None:
        evicted = self.books.take_evicted()
        for file in evicted:
            self._open.pop(file.path, None)
        self._remove([file.path for file in evicted if not file.shared])

    def _remove(self, paths: Sequence[str]) -> None:
        def run() -> None:
            for path in paths:
                try:
                    self._files.unlink(path)
                except FileNotFoundError:
                    continue  # the directory has been cleared away
                except OSError as error:
                    log.warning("cache file %s cannot be removed and is left until the next start: %s", path, error)

        if paths:
            self._aside(run)
