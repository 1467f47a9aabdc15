"""Writes ``quorum-state`` in a thread: a vote or an epoch that is not on the disk does not count.

A full disk is waited for, as that of the logs is: until there is room the node sends no message that the state has to come
before, and so takes no part in elections. Any other error ends the node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.hot.storage.shortages import SHORTAGES
from stratalog.metadata.raft.actions import StoreQuorumState

__all__ = ["StateWriting"]

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0
_TOLD_EACH: Final = 30
"""Every so many attempts it is said again."""


class StateWriting:
    """One state at a time. Lives on the event loop."""

    def __init__(self, replica: MetadataReplica, ended: Callable[[BaseException | None], None]) -> None:
        """``ended`` is called with None when a state is on the disk, else with the error."""
        self._replica = replica
        self._ended = ended
        self._storing: asyncio.Future[None] | asyncio.TimerHandle | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a state is being written, or waits for room."""
        return self._storing is not None

    def write(self, action: StoreQuorumState, attempt: int = 0) -> None:
        """Begin to write a state."""
        replica = self._replica
        storing = asyncio.get_running_loop().run_in_executor(replica.threads, replica.store_state, action.state)
        self._storing = storing
        storing.add_done_callback(partial(self._stored, action, attempt))

    def close(self) -> None:
        """Wait for room no longer."""
        if isinstance(self._storing, asyncio.TimerHandle):
            self._storing.cancel()
            self._storing = None

    def _stored(self, action: StoreQuorumState, attempt: int, done: asyncio.Future[None]) -> None:
        self._storing = None
        if done.cancelled():
            return
        error = done.exception()
        if not isinstance(error, OSError) or error.errno not in SHORTAGES:
            self._ended(error)
            return
        if attempt % _TOLD_EACH == 0:
            text = (
                "quorum-state cannot be written: %s. Until it can this node neither votes nor leads the metadata quorum"
            )
            log.error(text, error)
        again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.write, action, attempt + 1)
        self._storing = again
