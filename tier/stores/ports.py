"""Time and chance as the stores and their wrappers see them; tests and simulations hand in their own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

__all__ = ["ClockMs", "Timing", "system_clock_ms"]

ClockMs: TypeAlias = Callable[[], int]
"""Unix time in milliseconds."""


def system_clock_ms() -> int:
    """Return the system's Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def _monotonic_s() -> float:
    return time.monotonic_ns() / 1e9


class Timing(Struct, frozen=True):
    """Time and chance: seconds that never go back, a way to let them pass, and dice."""

    now_s: Callable[[], float] = _monotonic_s
    sleep_s: Callable[[float], None] = time.sleep
    random: random.Random = field(default_factory=random.Random)
