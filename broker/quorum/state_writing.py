"""Writes ``quorum-state`` in a thread: a vote or an epoch that is not on the disk does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.metadata.raft.actions import StoreQuorumState

__all__ = ["StateWriting"]


class StateWriting:
    """One state at a time. Lives on the event loop."""

    def __init__(self, replica: MetadataReplica, ended: Callable[[BaseException | None], None]) -> None:
        """``ended`` is called with None when a state is on the disk, else with the error."""
        self._replica = replica
        self._ended = ended
        self._storing: asyncio.Future[None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a state is being written."""
        return self._storing is not None

    def write(self, action: StoreQuorumState) -> None:
        """Begin to write a state."""
        replica = self._replica
        self._storing = asyncio.get_running_loop().run_in_executor(replica.threads, replica.store_state, action.state)
        self._storing.add_done_callback(self._stored)

    def _stored(self, done: asyncio.Future[None]) -> None:
        self._storing = None
        if not done.cancelled():
            self._ended(done.exception())
