"""A replica whose log has not what its machine believes begins anew: with what is on the disk, as after a restart.

The log may be large, and the disk full for long: it is read in slices, and after pauses that grow.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

from stratalog.broker.quorum.log_changes import LogChanges
from stratalog.broker.quorum.quorum_parts import QuorumParts
from stratalog.broker.quorum.state_writing import StateWriting
from stratalog.hot.storage.shortages import SHORTAGES
from stratalog.metadata.image.snapshot import SnapshotId
from stratalog.metadata.raft.log_view import LogView
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["BeginningAnew"]

_FIRST_SECONDS: Final = 1.0
_SECONDS_MAX: Final = 8.0
_QUIET_SECONDS: Final = 60.0
"""After so long without a refusal the pauses are short again."""

log = logging.getLogger(__name__)


class BeginningAnew:
    """The way from a refused change to the next machine. Lives on the event loop."""

    def __init__(
        self,
        parts: QuorumParts,
        changes: LogChanges,
        state: StateWriting,
        *,
        beside: Callable[[Coroutine[Any, Any, None]], None],
        begin: Callable[[LogView], None],
    ) -> None:
        """``begin`` gets the log as it is on the disk; ``beside`` runs a coroutine, and ends the node if that fails."""
        self._parts = parts
        self._changes = changes
        self._state = state
        self._beside = beside
        self._begin = begin
        self._pause_seconds = 0.0
        self._refused_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def after(self, error: KafkaError) -> None:
        """Begin anew after a pause; ``error`` says why."""
        now = self._parts.clock.monotonic()
        is_quiet = now - self._refused_at >= _QUIET_SECONDS
        self._pause_seconds = _FIRST_SECONDS if is_quiet else min(2 * self._pause_seconds, _SECONDS_MAX)
        self._refused_at = now
        log.error("%s; this replica begins anew in %g s", error.message, self._pause_seconds)
        self._later()

    def close(self) -> None:
        """Begin no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self) -> None:
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._again)

    def _again(self) -> None:
        if self._state.is_under_way or self._changes.is_loading:  # that of before must not land on the new one's
            self._later()
        else:
            self._beside(self._read())

    async def _read(self) -> None:
        """Read the log and go on with it; later, if there is no room on the disk yet, or no descriptor left."""
        try:
            view = await self._view()
            if view is not None:
                self._begin(view)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            self.after(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log cannot be read: {error}"))

    async def _view(self) -> LogView | None:
        """The log. One that the leader's snapshot has overtaken begins behind it first: there was no room for that.

        None if there still is none: `after` has heard of it.
        """
        parts, newest = self._parts, self._changes.half_begun
        if newest is None:
            parts.replica.settle()  # else its end is that of batches which were refused
            view: LogView = await parts.in_slices(parts.look())
            if view.overtaken_by is None:
                return view
            newest = SnapshotId(*view.overtaken_by)
        if not await self._changes.begin_behind(newest):
            return None
        found: LogView = await parts.in_slices(parts.look())
        return found
