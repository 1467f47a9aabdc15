"""The start of a node, and what becomes of one that fails half-way: everything is let go of, and the caller hears why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from stratalog.broker.runtime.ballast import raise_if_full
from stratalog.wire.errors import StratalogError

__all__ = ["StartFailed", "start_or_abandon"]


class StartFailed(StratalogError):
    """The node asked to be ended before it had started."""


async def start_or_abandon(
    start: Callable[[], Coroutine[Any, Any, None]],
    abandon: Callable[[], Awaitable[None]],
    failed: asyncio.Event,
) -> None:
    """Start, unless ``failed`` is set meanwhile: a node whose metadata cannot be applied would wait for ever.

    Raises what ``start`` raises, and `StartFailed`; ``abandon`` has let go of everything then.
    """
    starting, failing = asyncio.ensure_future(start()), asyncio.ensure_future(failed.wait())
    try:
        await asyncio.wait({starting, failing}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            raise StartFailed("the node has ended while it started: the last critical line of its log says why")
        await starting
    except BaseException as error:
        starting.cancel()
        await asyncio.wait({starting})
        await abandon()
        raise_if_full(error)
        raise
    finally:
        failing.cancel()
