"""Remembers recent reads: what is read twice may not have been a sound batch."""

from __future__ import annotations

from typing import Final

__all__ = ["AskedOffsets"]

_OFFSETS_MAX: Final = 64
"""Offsets remembered of one partition. A client that cannot use a batch
asks for it again, or starts again where it began.
"""


class AskedOffsets:
    """A batch read from an offset is checked when it is read for the second, fourth, eighth time, and so on.

    So the first reader of a log pays nothing, and many that read the same pay for a few checks. A batch that was sound
    then may be damaged later: a client that cannot get past it has it checked when it has asked as often as all before. In the active
    segment, whose end many read at the same time, the reads of one reader count together: ``offset`` is a hash of both then.
    """

    __slots__ = ("_reads",)

    def __init__(self) -> None:
        self._reads: dict[int, int] = {}

    def again(self, offset: int) -> bool:
        """True if what is read at ``offset`` now is to be checked; counts the read."""
        count = self._reads.get(offset, 0) + 1
        if count == 1 and len(self._reads) >= _OFFSETS_MAX:
            del self._reads[next(iter(self._reads))]
        self._reads[offset] = count
        return count > 1 and count & (count - 1) == 0
