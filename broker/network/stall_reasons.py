"""Why a connection is not read for a while: bits, since several may hold together."""

from __future__ import annotations

from typing import Final

__all__ = ["ENDED", "MEMORY", "MUTED", "PARKED", "QUEUED", "SLICED", "TURN"]

TURN: Final = 1
"""It has had its turn."""
PARKED: Final = 2
"""Too many of its requests wait for their answers, or answers of too many bytes wait for one before them."""
QUEUED: Final = 4
"""It has not taken the bytes of answers that were sent."""
MUTED: Final = 8
"""A quota of its client is used up."""
MEMORY: Final = 16
"""There is no memory for the frame that it sends."""
ENDED: Final = 32
"""It is closed."""
SLICED: Final = 64
"""The work for one of its requests takes several turns of the loop."""
