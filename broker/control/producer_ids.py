"""Producer ids for idempotent producers, from blocks that the controller gives out once for good (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from stratalog.broker.control.control_plane import ControlPlane
from stratalog.metadata.controller.controller import allocate_producer_ids

__all__ = ["AHEAD_BELOW", "Allocate", "ProducerIds", "allocate_here"]

AHEAD_BELOW: Final = 0.1
"""The next block is asked for when this part of the present one is left, as in Kafka's ``RPCProducerIdManager``."""

Allocate = Callable[[], Awaitable[tuple[int, int]]]
"""Asks the controller for a block: its first id, and how many there are. Raises `KafkaError`."""


async def allocate_here(control: ControlPlane, node_id: int) -> tuple[int, int]:
    """A block of a cluster whose controller is this node."""
    return await control.execute(
        lambda image: allocate_producer_ids(image, node_id, image.brokers.brokers[node_id].epoch),
        source=allocate_here,
    )


class ProducerIds:
    """Gives out ids, one at a time."""

    def __init__(self, allocate: Allocate, *, asks_ahead: bool = False) -> None:
        """``asks_ahead``: the next block is asked for before the present one is used up, so that no id waits for it."""
        self._allocate = allocate
        self._asks_ahead = asks_ahead
        self._next = 0
        self._left = 0
        self._floor = 0
        self._ahead_at = 0
        self._coming: asyncio.Future[tuple[int, int]] | None = None
        """The next block, or a failure that is known only now."""
        self._turn = asyncio.Lock()

    def skip_to(self, first: int) -> None:
        """Give out nothing below ``first`` any more, also of blocks that were asked for before."""
        self._floor = max(self._floor, first)
        if self._next < self._floor:
            self._left = 0

    @property
    def floor(self) -> int:
        """Ids below it are given out no more."""
        return self._floor

    async def renew(self) -> None:
        """Give out ids of a block that is allocated from now on, and none of those before. Raises `KafkaError`."""
        async with self._turn:
            first, count = await self._allocate()
            self.skip_to(first)
            self._next, self._left, self._ahead_at = first, count, int(count * AHEAD_BELOW)

    async def next(self) -> int:
        """An id that is unused and will never be given out again. Raises `KafkaError`."""
        async with self._turn:
            while not self._left:
                await self._begin_block()
            producer_id = self._next
            self._next += 1
            self._left -= 1
            if self._asks_ahead and self._left <= self._ahead_at and self._coming is None:
                self._coming = self._ask()
            return producer_id

    async def _begin_block(self) -> None:
        """Wait for the next block. A caller that is cancelled meanwhile leaves it to the one behind."""
        coming = self._coming
        if coming is None or (coming.done() and (coming.cancelled() or coming.exception() is not None)):
            coming = self._coming = self._ask()
        await asyncio.wait({coming})
        self._coming = None
        first, count = coming.result()
        above = max(self._floor - first, 0)
        self._next, self._left = first + above, max(count - above, 0)
        self._ahead_at = int(count * AHEAD_BELOW)

    def _ask(self) -> asyncio.Future[tuple[int, int]]:
        coming = asyncio.ensure_future(self._allocate())
        coming.add_done_callback(_seen)
        return coming


def _seen(coming: asyncio.Future[tuple[int, int]]) -> None:
    """A block that was asked for ahead may fail: the next id asks again."""
    if not coming.cancelled():
        coming.exception()
