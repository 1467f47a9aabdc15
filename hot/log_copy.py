"""Copies the files of an open log into another directory, piece by piece, while batches are appended.

Each pass brings the copy to where the log was at a `CopyView`. Files that have been copied stay as long as the log only grows;
a segment that was cleaned is copied anew, one that has left the log leaves the copy, and after a cut all of it begins anew.
The bytes of a copy are synced, dropped from the cache and read once more, before they count.

Everything runs on a thread of its own, one call at a time.
"""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from crc32c import crc32c
from msgspec import Struct

from stratalog.hot.log.moving import CopyView
from stratalog.hot.recovery.snapshots import SNAPSHOT
from stratalog.hot.segments.segment import SUFFIXES, Segment, segment_path
from stratalog.hot.storage.checkpoint import LEADER_EPOCHS, write_durably, write_topic_id
from stratalog.hot.storage.filesystem import File, Filesystem, append_all
from stratalog.wire.topic import Uuid

__all__ = ["PIECE_BYTES", "LogCopy", "SourceFailed"]

PIECE_BYTES: Final = 1 << 20
"""The bytes that are read and written together at most."""
_LOG, *_BESIDE = SUFFIXES
_FIRST: Final = 0


class SourceFailed(Exception):
    """The log could not be read: ``error`` says why. `FileNotFoundError`: a file has left the log, or was cut, meanwhile."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class _Copied(Struct):
    """The part of a segment that is in the copy."""

    segment: Segment
    log_bytes: int = 0
    is_complete: bool = False


class LogCopy:
    """One copy. Raises `OSError` where its own disk fails, `SourceFailed` where the log's does."""

    def __init__(self, files: Filesystem, source: str, target: str, topic_id: Uuid) -> None:
        """``source`` and ``target`` are the directories of the log and of the copy."""
        self._files = files
        self._source = source
        self.target = target
        self._topic_id = topic_id
        self._generation = -1
        self._copied: dict[int, _Copied] = {}
        self._snapshots: set[int] = set()
        self.allowed_bytes = PIECE_BYTES
        """The most that the next piece may have."""
        self.end_offset = 0
        """All of the log below it is in the copy."""

    def begin(self) -> None:
        """Make the directory, durably."""
        self._files.make_directory(self.target)
        write_topic_id(self._files, self.target, self._topic_id)
        self._files.sync_directory(self.target.rpartition("/")[0])

    def missing_bytes(self, view: CopyView) -> int:
        """The bytes of segments that a pass to ``view`` would copy. May be asked between two calls."""
        if view.generation != self._generation:
            return view.size_bytes
        every = (*view.frozen, (view.active, view.active_bytes))
        return sum(size - self._bytes_of(segment) for segment, size in every)

    def is_near(self, view: CopyView, rest_bytes: int) -> bool:
        """Whether only so much of the active segment is missing at most. May be asked between two calls."""
        if view.generation != self._generation or self.missing_bytes(view) > rest_bytes:
            return False
        return all(self._has(segment) for segment, _ in view.frozen)

    def _has(self, segment: Segment) -> bool:
        copied = self._copied.get(segment.base_offset)
        return copied is not None and copied.segment is segment and copied.is_complete

    def _bytes_of(self, segment: Segment) -> int:
        copied = self._copied.get(segment.base_offset)
        return copied.log_bytes if copied is not None and copied.segment is segment else 0

    def copying(self, view: CopyView) -> Generator[int, None, None]:
        """Bring the copy to ``view``: yields the bytes of each piece, durable when it has ended.

        Raises `SourceFailed` with a `FileNotFoundError` for a view that is not settled, before it changes anything.
        """
        if not view.is_settled:
            raise SourceFailed(
                FileNotFoundError(errno.ENOENT, "a cleaned segment has no name of its own yet", self._source)
            )
        if view.generation != self._generation:
            self._begin_anew(view.generation)
        self._drop_what_left(view)
        for segment, size in view.frozen:
            copied = self._of(segment)
            if copied.is_complete:
                continue
            yield from self._grow(copied, size)
            for suffix in _BESIDE:
                yield from self._replace(segment.base_offset, suffix)
            copied.is_complete = True
        yield from self._grow(self._of(view.active), view.active_bytes)
        if view.active_bytes:
            # Kafka takes its absence for damage as soon as a recovery point lies in the segment, full or not.
            self._files.open_append(self._path(self.target, view.active.base_offset, ".index")).close()
        for offset in view.snapshots:
            if offset not in self._snapshots:
                yield from self._replace(offset, SNAPSHOT)
                self._snapshots.add(offset)
        self._files.sync_directory(self.target)
        self.end_offset = view.written_offset

    def finish(self, leader_epochs: bytes) -> None:
        """Add the history of leader epochs as it is at the view of the last pass."""
        write_durably(self._files, f"{self.target}/{LEADER_EPOCHS}", leader_epochs)

    # -- what is no part of the log any more ------------------------------------------------------------------

    def _begin_anew(self, generation: int) -> None:
        for base_offset in list(self._copied):
            self._drop(base_offset)
        self._drop_snapshots(set())
        self._generation = generation
        self.end_offset = 0

    def _drop_what_left(self, view: CopyView) -> None:
        current = {segment.base_offset: segment for segment, _ in view.frozen}
        current[view.active.base_offset] = view.active
        for base_offset, copied in list(self._copied.items()):
            if current.get(base_offset) is not copied.segment:
                self._drop(base_offset)
        self._drop_snapshots(set(view.snapshots))

    def _drop(self, base_offset: int) -> None:
        for suffix in SUFFIXES:
            self._files.unlink(self._path(self.target, base_offset, suffix))
        del self._copied[base_offset]

    def _drop_snapshots(self, kept: set[int]) -> None:
        for offset in self._snapshots - kept:
            self._files.unlink(self._path(self.target, offset, SNAPSHOT))
        self._snapshots &= kept

    # -- copying ----------------------------------------------------------------------------------------------

    def _of(self, segment: Segment) -> _Copied:
        return self._copied.setdefault(segment.base_offset, _Copied(segment))

    def _grow(self, copied: _Copied, size_bytes: int) -> Generator[int, None, None]:
        """Add what the ``.log`` of a segment has up to ``size_bytes``; makes the file if there is none."""
        base_offset, begin = copied.segment.base_offset, copied.log_bytes
        if begin == size_bytes > _FIRST:
            return
        target = self._files.open_append(self._path(self.target, base_offset, _LOG))
        try:
            target.truncate(begin)
            if size_bytes > begin:
                with self._reading(base_offset, _LOG) as source:
                    yield from self._transfer(source, target, begin, size_bytes)
            else:
                target.fdatasync()
        finally:
            target.close()
        copied.log_bytes = size_bytes

    def _replace(self, offset: int, suffix: str) -> Generator[int, None, None]:
        """Copy a whole small file; one that is not there is not in the copy."""
        path = self._path(self.target, offset, suffix)
        try:
            with self._reading(offset, suffix) as source:
                target = self._files.open_append(path)
                try:
                    target.truncate(0)
                    yield from self._transfer(source, target, 0, source.size_bytes())
                finally:
                    target.close()
        except SourceFailed as failure:
            if not isinstance(failure.error, FileNotFoundError):
                raise
            self._files.unlink(path)

    @contextmanager
    def _reading(self, offset: int, suffix: str) -> Iterator[File]:
        try:
            source = self._files.open_read(self._path(self._source, offset, suffix))
        except OSError as error:
            raise SourceFailed(error) from error
        try:
            yield source
        finally:
            source.close()

    def _transfer(self, source: File, target: File, begin: int, end: int) -> Generator[int, None, None]:
        """Append ``[begin, end)`` of ``source`` to ``target``, sync it, and read it back from the disk."""
        position, crc = begin, 0
        while position < end:
            data = _read(source, min(end - position, max(self.allowed_bytes, 1), PIECE_BYTES), position)
            append_all(target, [data])
            position += len(data)
            crc = crc32c(data, crc)
            yield len(data)
        target.fdatasync()
        target.drop_cache()
        position, found = begin, 0
        while position < end:
            data = target.pread(min(end - position, PIECE_BYTES), position)
            if not data:
                break
            position += len(data)
            found = crc32c(data, found)
            yield 0
        if (position, found) != (end, crc):
            raise OSError(errno.EIO, f"bytes {begin} to {end} of a copy in {self.target} are not what was written")

    @staticmethod
    def _path(directory: str, offset: int, suffix: str) -> str:
        return segment_path(directory, offset, suffix)


def _read(source: File, size_bytes: int, position: int) -> bytes:
    try:
        data = source.pread(size_bytes, position)
        if not data:
            raise FileNotFoundError(errno.ENOENT, f"a file of the log ends at {position}: it was cut meanwhile")
    except OSError as error:
        raise SourceFailed(error) from error
    return data
