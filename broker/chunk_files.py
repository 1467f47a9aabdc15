"""Chunks of the archive on the local disk: asked of the worker once, however many readers wait, sent by sendfile.

The books are kept by `stratalog.tier.cache`; this owns the files. What an earlier run left behind is removed: which
chunk of which object a file holds is known only to the run that fetched it. To unlink takes a millisecond a file, so it
is done elsewhere, and no two files ever have the same name. Where the archive itself is on this disk
its objects are checked and sent as they are; those files are never touched.
"""

from __future__ import annotations

import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final

from stratalog.broker.io_worker import Submit
from stratalog.hot.filesystem import File, RealFilesystem
from stratalog.tier import commands
from stratalog.tier.cache import Admission, CachedChunk, ChunkCache, Reader
from stratalog.tier.keys import PartitionId
from stratalog.tier.readahead import ReadAhead
from stratalog.tier.remote_log import ChunkId, ChunkRef, group_neighbours

__all__ = ["ChunkFiles", "FillFailed"]

_OPEN_FILES_MAX: Final = 256
_NAME: Final = re.compile(r"[0-9a-f]{32}\.\d+\.chunk(\.tmp)?.*")

log = logging.getLogger(__name__)

FillFailed = Callable[[ChunkRef, commands.Report], None]


class ChunkFiles:
    """The chunk cache of one broker.

    ``aside`` has a function called in another thread, one after the other; by default it is called at once.
    """

    def __init__(
        self,
        directory: str,
        limit_bytes: int,
        submit: Submit,
        now_ms: Callable[[], int],
        *,
        aside: Callable[[Callable[[], None]], object] = lambda run: run(),
    ) -> None:
        self.directory = directory
        self.books = ChunkCache(limit_bytes)
        self.ahead = ReadAhead(limit_bytes)
        self._submit = submit
        self._now_ms = now_ms
        self._files = RealFilesystem()
        self._open: OrderedDict[str, File] = OrderedDict()
        self._prepared = False
        self._aside = aside
        self._names = map(f"{os.urandom(4).hex()}-{{}}".format, count())

    def _prepare(self) -> None:
        """Make the directory and remove what an earlier run left. Raises `OSError`."""
        os.makedirs(self.directory, exist_ok=True)  # noqa: PTH103 - paths are strings throughout
        names = [entry.name for entry in self._files.scan(self.directory) if _NAME.fullmatch(entry.name)]
        self._remove([f"{self.directory}/{name}" for name in names])
        self._prepared = True

    # -- reading --------------------------------------------------------------------------------------------------

    def get(self, chunk_id: ChunkId, reader: Reader) -> tuple[CachedChunk, File] | None:
        """A cached chunk and its open file, pinned for the reader; None if it is not there."""
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

    def leave(self, reader: Reader) -> None:
        """The reader is gone, or reads elsewhere."""
        self.books.leave(reader)
        self.ahead.leave(reader)

    # -- filling --------------------------------------------------------------------------------------------------

    def want(
        self,
        partition: PartitionId,
        refs: Iterable[ChunkRef],
        reader: Reader,
        *,
        filled: Callable[[], None],
        failed: FillFailed,
    ) -> bool:
        """Fetch those of ``refs`` that are neither cached nor on their way, neighbours by one GET.

        ``filled`` is called as chunks arrive, ``failed`` for each that does not. False if there is no room for all of
        them now. Raises `OSError` if the cache directory cannot be used.
        """
        if not self._prepared:
            self._prepare()
        self._files.make_directory(self.directory)  # somebody may have cleared it away
        now_ms = self._now_ms()
        to_fill, complete = [], True
        for ref in refs:
            admission = self.books.ask(ref.id, ref.chunk.length, reader, now_ms)
            if admission is Admission.FILL:
                to_fill.append(ref)
            elif admission is Admission.THROTTLED:
                complete = False
                break
        self._remove_evicted()
        for group in group_neighbours(to_fill):
            self._fill(partition, group, filled, failed)
        return complete

    def _fill(
        self, partition: PartitionId, group: tuple[ChunkRef, ...], filled: Callable[[], None], failed: FillFailed
    ) -> None:
        fills = tuple(
            commands.ChunkFill(ref.chunk, self.books.path_to_check(ref.id) or self._new_path(ref.id)) for ref in group
        )

        def answered(report: commands.Report) -> None:
            if isinstance(report, commands.CorruptReport) and len(group) > 1:
                for ref in group:  # by itself, so that what is damaged hides no neighbour
                    self._fill(partition, (ref,), filled, failed)
                return
            if not isinstance(report, commands.ChunksFilled):
                for ref in group:
                    self.books.failed(ref.id)
                    failed(ref, report)
                return
            for ref, chunk in zip(group, report.chunks, strict=True):
                self._open.pop(chunk.path, None)
                self.books.filled(ref.id, chunk, self._now_ms())
            filled()

        self._submit(commands.FillChunks(partition, group[0].key, fills), answered)

    def _new_path(self, chunk_id: ChunkId) -> str:
        return f"{self.directory}/{chunk_id.uuid.hex()}.{chunk_id.number}.chunk.{next(self._names)}"

    def _remove_evicted(self) -> None:
        evicted = self.books.take_evicted()
        for chunk in evicted:
            self._open.pop(chunk.path, None)
        self._remove([chunk.path for chunk in evicted if not chunk.shared])

    def _remove(self, paths: Sequence[str]) -> None:
        def run() -> None:
            for path in paths:
                try:
                    self._files.unlink(path)
                except OSError as error:
                    log.warning("cache file %s cannot be removed and is left until the next start: %s", path, error)

        if paths:
            self._aside(run)
