"""Computes the offset up to which sealed segments are old enough to be uploaded. Pure.

Kafka's copy lag (KIP-1241): a segment goes once its newest record has reached an age, or once so many bytes of the
local log lie behind it; either is enough, and a lag of 0 means at once. Ours on top: not before some time after it was
sealed, unless local retention by size would let it go. Segments are uploaded in order, so the first one that must wait
holds back those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["AT_ONCE", "NO_END", "CopyLag", "SealedSegment", "eligible_end", "waits_for"]

NO_END: Final = (1 << 63) - 1


class CopyLag(NamedTuple):
    """The copy lag that a topic wants. ``age_ms`` and ``behind_bytes``: 0 is at once, -1 never for that reason alone.

    ``local_bytes`` is the effective local retention by size, -1 without bound.
    """

    age_ms: int = 0
    behind_bytes: int = -1
    sealed_ms: int = 0
    local_bytes: int = -1

    @property
    def is_none(self) -> bool:
        """True if every sealed segment may be uploaded at once."""
        return not self.sealed_ms and not (self.age_ms and self.behind_bytes)


AT_ONCE: Final = CopyLag()


class SealedSegment(NamedTuple):
    """A frozen local segment: ``sealed_ms`` is when, ``max_timestamp_ms`` -1 if unknown."""

    end: int
    size_bytes: int
    max_timestamp_ms: int
    sealed_ms: int


def waits_for(segment: SealedSegment, behind_bytes: int, lag: CopyLag, now_ms: int) -> str | None:
    """Why the segment is not uploaded yet; None if it may be. ``behind_bytes`` of the local log lie behind it."""
    age_ms = now_ms - segment.max_timestamp_ms
    if lag.age_ms and lag.behind_bytes:
        by_age = lag.age_ms > 0 and (age_ms >= lag.age_ms or age_ms < 0)
        by_place = 0 < lag.behind_bytes <= behind_bytes
        if not (by_age or by_place):
            return f"remote.copy.lag: its newest record is {age_ms} ms old, {behind_bytes} bytes lie behind it"
    sealed_for_ms = now_ms - segment.sealed_ms
    if sealed_for_ms < lag.sealed_ms and not 0 <= lag.local_bytes <= behind_bytes:
        return f"stratalog.upload.lag.ms: sealed {sealed_for_ms} ms ago"
    return None


def eligible_end(segments: Sequence[SealedSegment], active_bytes: int, lag: CopyLag, now_ms: int) -> int:
    """The offset below which everything may be uploaded now; beyond all offsets if nothing waits.

    ``segments`` are the sealed ones in order, ``active_bytes`` those of the one being written.
    """
    if lag.is_none:
        return NO_END
    behind_bytes = active_bytes + sum(one.size_bytes for one in segments)
    end = 0
    for one in segments:
        behind_bytes -= one.size_bytes
        if waits_for(one, behind_bytes, lag, now_ms) is not None:
            return end
        end = one.end
    return NO_END
