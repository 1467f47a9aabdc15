"""The leader epochs of a log, from its batches and from its checkpoint. Pure.

Batches alone do not show where an epoch began: compaction removes the first ones of an epoch, or all of them. The
checkpoint alone is not enough either: after a power cut it may be older, or newer, than the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.hot.state.leader_epochs import EpochEntry, LeaderEpochCache

__all__ = ["EpochSpans"]


class EpochSpans:
    """The epochs of batches that are read one after the other. ``latest_epoch`` is the newest so far."""

    __slots__ = ("_spans", "latest_epoch")

    def __init__(self, latest_epoch: int) -> None:
        """``latest_epoch`` is that of what lies before, -1 if nothing does."""
        self.latest_epoch = latest_epoch
        self._spans: list[list[int]] = []  # epoch, offset of its first batch here, last offset of its last

    def note(self, epoch: int, base_offset: int, last_offset: int) -> None:
        """The next batch; epochs never go back. Batches of the oldest formats have none, -1."""
        if self._spans and self._spans[-1][0] == epoch:
            self._spans[-1][2] = last_offset
        elif epoch >= 0:
            self._spans.append([epoch, base_offset, last_offset])
            self.latest_epoch = epoch

    def history(self, known: Sequence[EpochEntry], end_offset: int) -> LeaderEpochCache:
        """The history of the log up to ``end_offset``: what was known up to the first batch that contradicts it."""
        checkpoint = LeaderEpochCache(known)
        agreed = 0
        for epoch, first, last in self._spans:
            if checkpoint.epoch_for(first) != epoch or checkpoint.epoch_for(last) != epoch:
                break
            agreed += 1
        new = self._spans[agreed:]
        found = LeaderEpochCache()
        for entry in checkpoint.until(new[0][1] if new else end_offset):
            found.assign(*entry)
        for epoch, first, _ in new:
            found.assign(epoch, first)
        found.truncate_from_end(end_offset)
        return found

    def recovered(self, before: LeaderEpochCache, end_offset: int) -> LeaderEpochCache:
        """`history` of a log that was recovered up to ``end_offset``, with ``before`` as its checkpoint has it.

        The checkpoint may stay as long as it does no more than lack the last epochs.
        """
        found = self.history(before.entries, end_offset)
        new = found.entries[len(before.entries) :]
        found.dirty = before.dirty or found.entries[: len(before.entries)] != before.entries
        if new:
            found.note_unstored(new[0].start_offset)
        return found
