"""Truncation of a log to an offset, wherever that lies: on a batch border, inside a batch, or where offsets are missing."""

from __future__ import annotations

from stratalog.hot.log_trim import LogTrim
from stratalog.hot.segment import Segment

__all__ = ["LogTruncate"]


class LogTruncate(LogTrim):
    """The half of a log that takes its end away on demand."""

    __slots__ = ()

    def truncate_to(self, offset: int) -> None:
        """Remove every batch with a record at or above ``offset``, and go on there.

        Inside a batch all of it goes, and the log goes on where it began. Where offsets are missing the log ends at
        ``offset`` itself, as in Kafka: it is what the leader and this replica agree on. An empty segment of that name says
        so to the next start. Durable on return. Raises `OSError`.
        """
        self.write_queued()
        if offset >= self.log_end_offset:
            return
        segment = self._segments[self._segments.floor(offset)]
        located = segment.locate(offset)
        border = offset if located is None else min(offset, located[1].base_offset)
        if border < max(self._segments[0].base_offset, self.log_start_offset):
            start = offset if offset < self.log_start_offset else max(border, self.log_start_offset)
            state = self._state_at(start).to_bytes()
            log_start = min(start, self.log_start_offset)
            self.truncate_fully_and_start_at(start, self.leader_epochs.until(start), state, log_start_offset=log_start)
            return
        batches_end = _batches_end(segment, border)
        self._void_recovery_point(batches_end)
        self._cut(border)
        if batches_end < border:
            self._go_on_at(border)
        self._sync_names()

    def _go_on_at(self, offset: int) -> None:
        """Begin a segment at ``offset``, above the last batch; an active one without any makes room for it."""
        old = self._segments.active
        if old.size_bytes:
            self._begin_segment(offset)
            self.write_queued()
            return
        new = Segment(self._files, self.directory, offset, self.config, self._cache)
        new.file.fdatasync()
        self._files.sync_directory(self.directory)
        self._segments.remove_from(len(self._segments) - 1)
        if self._segments:
            self._segments[-1].next_offset = offset
        self._segments.append(new)
        self._dirty.append(new)
        self._doom_durably(old)


def _batches_end(segment: Segment, border: int) -> int:
    """The offset behind the last batch of ``segment`` below ``border``; its own first one if there is none."""
    end = segment.base_offset
    if border > end and segment.written_bytes:
        for _, header in segment.headers(segment.indexes.offsets.lookup(border - 1)):
            if header.base_offset >= border:
                break
            end = header.next_offset
    return end
