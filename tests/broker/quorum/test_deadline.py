"""The timer of the quorum's machine."""

import asyncio

from stratalog.broker.quorum.deadline import Deadline


async def test_it_rings_once_at_the_time_that_was_set_last():
    """A time that is set anew takes the place of the one before, earlier or later."""
    rung, times = [], [5.0]
    deadline = Deadline(lambda: times[0], lambda: rung.append(times[0]))
    assert deadline.now_ms() == 5000
    deadline.set(5005)
    deadline.set(60_000)
    await asyncio.sleep(0.02)
    assert rung == []
    deadline.set(5005)
    deadline.set(5005)
    await asyncio.sleep(0.02)
    assert rung == [5.0]
    deadline.set(5005)
    deadline.set(None)
    await asyncio.sleep(0.02)
    assert rung == [5.0]
