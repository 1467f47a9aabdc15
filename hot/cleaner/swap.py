"""A cleaned segment replaces those it was made from: the names on the disk, in an order that a crash respects.

1. `stage`: all its files but the ``.log`` are renamed from ``.cleaned`` to ``.swap``, durably, then the ``.log``,
   durably. From here on the new segment counts: the next start completes the other steps.
2. The log reads it, under those names, instead of the old ones (`hot.log.compaction`).
3. `retire`: the old files are renamed ``.deleted``, oldest first, each segment durably before the next. A crash
   leaves the new segment and the newest of the old ones, so no record comes back for which a tombstone is gone.
4. `settle`: the new files get their own names, the ``.log`` last.

Names change on the owner's thread, which also knows whether the partition is still there; between two steps the owner
has `sync` called in any thread. `hot.recovery.interrupted` is the other half. Source: Kafka's ``LocalLog.replaceSegments``,
which does not order its renames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from stratalog.hot.cleaner.cleaner import CleanedSegment
from stratalog.hot.segments.segment import CLEANED, DELETED, SUFFIXES, SWAP, Segment, segment_path
from stratalog.hot.storage.filesystem import Filesystem

__all__ = ["SegmentSwap"]


class SegmentSwap:
    """One swap. `stage`, `withdraw` and `retire` yield wherever `sync` must have run before they go on."""

    __slots__ = ("_directory", "_files", "_is_retired", "_number", "_suffixes", "cleaned", "is_in", "old", "segment")

    def __init__(
        self,
        files: Filesystem,
        directory: str,
        cleaned: CleanedSegment,
        old: Sequence[Segment],
        segment: Segment,
        number: int,
    ) -> None:
        """``number`` is another one for each swap of a log."""
        self._number = number
        self._files = files
        self._directory = directory
        self._suffixes = [suffix for suffix in cleaned.suffixes if suffix != ".log"]
        self.cleaned = cleaned
        self.old = old
        """The segments that are replaced, oldest first."""
        self.segment = segment
        """The segment that replaces them."""
        self.is_in = False
        """Whether the log reads it already."""
        self._is_retired = False

    def _path(self, suffix: str) -> str:
        return segment_path(self._directory, self.cleaned.base_offset, suffix)

    def sync(self) -> None:
        """Make the names durable; from any thread. Raises `OSError`."""
        self._files.sync_directory(self._directory)

    def stage(self) -> Iterator[None]:
        """The new segment counts when this has ended. Raises `OSError`; then `withdraw` is due."""
        for suffix in self._suffixes:
            self._files.rename(self._path(suffix) + CLEANED, self._path(suffix) + SWAP)
        yield
        self._files.rename(self._path(".log") + CLEANED, self._path(".log") + SWAP)
        yield

    def withdraw(self) -> Iterator[None]:
        """The log has changed meanwhile: the new segment does not count after all. Raises `OSError`.

        The ``.log`` is ``.cleaned`` as long as other files are ``.swap``: else these would count by themselves.
        """
        with suppress(FileNotFoundError):  # `stage` did not get so far
            self._files.rename(self._path(".log") + SWAP, self._path(".log") + CLEANED)
        yield
        for suffix in self._suffixes:
            self._files.unlink(self._path(suffix) + SWAP)
            self._files.unlink(self._path(suffix) + CLEANED)
        yield
        self._files.unlink(self._path(".log") + CLEANED)

    def retire(self) -> Iterator[None]:
        """Take the old segments' names away. Raises `OSError`; then call it again.

        A segment that a crash brings back must not lack its index of aborted transactions: the ``.log`` goes first.
        """
        if self._is_retired:  # the new segment may have the name of an old one by now
            return
        for old in self.old:
            for suffix, doomed in zip(SUFFIXES, self.doomed_paths(old), strict=True):
                with suppress(FileNotFoundError):  # not every segment has all files
                    self._files.rename(segment_path(self._directory, old.base_offset, suffix), doomed)
                if suffix == ".log":
                    yield
        yield
        self._is_retired = True

    def settle(self) -> None:
        """Give the new files their own names. Raises `OSError`; then call it again."""
        for suffix in [*self._suffixes, ".log"]:
            with suppress(FileNotFoundError):  # it has its name since the last try
                self._files.rename(self._path(suffix) + SWAP, self._path(suffix))
        self.segment.name_suffix = ""

    def doomed_paths(self, old: Segment) -> list[str]:
        """The names that the files of an old segment get.

        With a number: a file that another swap has left under the same name would be freed by the renaming, which
        takes long.
        """
        return [
            f"{segment_path(self._directory, old.base_offset, suffix)}.{self._number}{DELETED}" for suffix in SUFFIXES
        ]
