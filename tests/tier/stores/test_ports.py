from __future__ import annotations

import time

from stratalog.tier.stores.ports import Timing, system_clock_ms


def test_the_defaults_are_the_systems():
    """Without injection time is the system's: Unix milliseconds, and seconds that do not go back."""
    before_s = time.time()
    now_ms = system_clock_ms()
    assert int(before_s * 1000) <= now_ms <= time.time() * 1000
    timing = Timing()
    first = timing.now_s()
    timing.sleep_s(0.0)
    assert timing.now_s() >= first


def test_dice_are_not_shared():
    """Two timings without a seed roll differently."""
    assert Timing().random.random() != Timing().random.random()
