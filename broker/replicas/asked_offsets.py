"""Remembers recent reads: what is read twice may not have been a sound batch."""

from __future__ import annotations

from typing import Final

__all__ = ["AskedOffsets"]

_OFFSETS_MAX: Final = 64
"""Offsets remembered of one partition. A client that cannot use a batch
asks for it again, or starts again where it began.
"""


class AskedOffsets:
    """A batch read from an offset is checked when it is read for the second time, and not again for a while.

    So the first reader of a log pays nothing, and many that read the same pay once. In the active segment, whose end many read at
    the same time, the reads of one reader count together: ``offset`` is a hash of both then.
    """

    __slots__ = ("_checked",)

    def __init__(self) -> None:
        self._checked: dict[int, bool] = {}

    def again(self, offset: int) -> bool:
        """True if ``offset`` was read before; remembers it for the next call."""
        checked = self._checked.get(offset)
        if checked is None and len(self._checked) >= _OFFSETS_MAX:
            del self._checked[next(iter(self._checked))]
        self._checked[offset] = checked is not None
        return checked is False
