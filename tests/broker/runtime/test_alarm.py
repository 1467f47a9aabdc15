"""Timers of machines."""

import asyncio
import time
from math import inf

from stratalog.broker.runtime.alarm import Alarm


async def test_an_alarm_rings_at_the_earliest_time_that_was_set_once(until):
    """A later time waits for the next setting; after a ring or a cancellation nothing is set."""
    rings = []
    alarm = Alarm(time.monotonic, lambda: rings.append(alarm.now_ms()))
    due = alarm.now_ms() + 30
    alarm.set(inf)
    alarm.set(due + 10_000)
    alarm.set(due)
    alarm.set(due + 5000)
    await until(lambda: rings)
    assert due <= rings[0] < due + 2000
    alarm.set(alarm.now_ms() - 5)
    await until(lambda: len(rings) == 2)
    alarm.set(alarm.now_ms() + 10)
    alarm.cancel()
    alarm.cancel()
    await asyncio.sleep(0.05)
    assert len(rings) == 2
