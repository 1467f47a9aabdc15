"""Tells those who follow the quorum who leads it, once for each change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from stratalog.broker.quorum.leadership import LeaderAndEpoch, LeaderListener

__all__ = ["LeadershipNews"]


class LeadershipNews:
    """The last leader that was announced, and those who hear of the next. Lives on the event loop."""

    def __init__(self) -> None:
        self._announced: tuple[LeaderAndEpoch, bool] = LeaderAndEpoch(), False
        self._listeners: list[LeaderListener] = []
        self._waiting: list[asyncio.Future[None]] = []

    def follow(self, listener: LeaderListener) -> None:
        """Call ``listener`` with each leader from the next one on, and with whether this node's controller is active."""
        self._listeners.append(listener)

    def announce(self, leader: LeaderAndEpoch, is_active: bool) -> None:
        """Call those who follow, if this is not what they have heard last; wake those who wait in any case."""
        self.wake()
        if (leader, is_active) != self._announced:
            self._announced = leader, is_active
            for listener in tuple(self._listeners):
                listener(leader, is_active)

    def wake(self) -> None:
        """Let those who wait look again."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.done():
                done.set_result(None)

    async def wait_until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until ``holds`` does, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not holds():
                    await self.wait()

    async def wait(self) -> None:
        """Wait until something may have changed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        await done
