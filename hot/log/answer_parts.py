"""How much of an answer one turn of the loop appends."""

from __future__ import annotations

import struct
from typing import Final

from stratalog.wire.batch import LOG_OVERHEAD_BYTES

__all__ = ["BATCHES_PER_TURN", "bytes_of_a_turn"]

BATCHES_PER_TURN: Final = 500
"""Some 10 ms with their writes; an answer of 4 MiB may have 30,000."""
_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8


def bytes_of_a_turn(records: memoryview) -> int:
    """The size of the first batches, as many as one turn of the loop takes."""
    position = 0
    for _ in range(BATCHES_PER_TURN):
        if position + LOG_OVERHEAD_BYTES > len(records):
            break
        (length,) = _LENGTH.unpack_from(records, position + _LENGTH_POSITION)
        if length <= 0:
            break  # damage: the append says so
        position += LOG_OVERHEAD_BYTES + length
    else:
        return min(position, len(records))
    return len(records)
