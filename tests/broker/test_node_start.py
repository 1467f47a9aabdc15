"""A start that ends: by itself, with an error, or because the node has failed meanwhile."""

import asyncio
import errno

import pytest

from stratalog.broker.node_start import StartFailed, start_or_abandon
from stratalog.wire.errors import Invalid


class Beginning:
    """A start that waits until the test ends it."""

    def __init__(self):
        self.failed = asyncio.Event()
        self.end = asyncio.get_running_loop().create_future()
        self.steps = []

    async def start(self):
        try:
            await self.end
        finally:
            self.steps.append("started")

    async def abandon(self):
        self.steps.append("abandoned")

    def run(self):
        return asyncio.ensure_future(start_or_abandon(self.start, self.abandon, self.failed))


async def test_a_start_that_ends_well_abandons_nothing():
    """Also if the node fails in the same moment: its end comes as that of any node that serves."""
    one = Beginning()
    one.end.set_result(None)
    one.failed.set()
    await one.run()
    assert one.steps == ["started"]


async def test_a_start_that_raises_lets_go_of_everything_and_raises_the_same():
    """A full disk is said as such."""
    one = Beginning()
    one.end.set_exception(Invalid("no"))
    with pytest.raises(Invalid, match="no"):
        await one.run()
    assert one.steps == ["started", "abandoned"]
    full = Beginning()
    full.end.set_exception(OSError(errno.ENOSPC, "No space left on device", "/d"))
    with pytest.raises(Exception, match="/d"):
        await full.run()


async def test_a_node_that_fails_while_it_starts_waits_for_nothing():
    """A broker whose metadata cannot be applied would wait for its registration."""
    one = Beginning()
    running = one.run()
    await asyncio.sleep(0)
    one.failed.set()
    with pytest.raises(StartFailed, match="last critical line"):
        await running
    assert one.steps == ["started", "abandoned"]


async def test_a_start_that_is_cancelled_lets_go_of_everything():
    """As at a second Ctrl-C."""
    one = Beginning()
    running = one.run()
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert one.steps == ["started", "abandoned"]
