"""Cleanings in the worker: one session each, from the map to the last group.

The map is the one thing that a worker keeps between commands, because building it is half of the work. A worker that
dies loses it: the cleaning is begun again.
"""

from __future__ import annotations

import sys
from typing import Final

from msgspec import Struct

from stratalog.broker.workers.cleaner_files import CleanerFilesystem
from stratalog.hot.cleaner.cleaner import CleanedSegment, Cleaning, CleanJob, MapBuilt
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.tier.stores.throttled_store import TokenBucket
from stratalog.wire.errors import Retriable

__all__ = ["BeginCleaning", "CleanGroup", "CleanerSessions", "EndCleaning", "SessionLost"]

_UNLIMITED: Final = sys.float_info.max
_BURST_BYTES: Final = 1 << 20


class SessionLost(Retriable):
    """The worker does not know the cleaning: it was started anew meanwhile."""


class BeginCleaning(Struct, frozen=True):
    """Build the map of ``job``; answered by :class:`MapBuilt`. ``session`` is drawn by the broker, never twice."""

    session: int
    job: CleanJob
    bytes_per_second: float


class CleanGroup(Struct, frozen=True):
    """Write the new segment of group ``number``; answered by :class:`CleanedSegment`."""

    session: int
    number: int
    bytes_per_second: float


class EndCleaning(Struct, frozen=True):
    """Forget the map."""

    session: int


class CleanerSessions:
    """The cleanings of one worker. They share one limit of bytes read and written a second."""

    def __init__(self, files: Filesystem | None = None) -> None:
        self._files: Filesystem = CleanerFilesystem() if files is None else files
        self._cleanings: dict[int, Cleaning] = {}
        self._bucket = TokenBucket(_UNLIMITED, burst_bytes=_BURST_BYTES)
        self._limited = False

    @property
    def count(self) -> int:
        """Cleanings under way."""
        return len(self._cleanings)

    def execute(self, command: BeginCleaning | CleanGroup | EndCleaning) -> MapBuilt | CleanedSegment | None:
        """Do it. Raises `Corrupt` for a log that cannot be read as it stands, `OSError`, `SessionLost`."""
        if isinstance(command, EndCleaning):
            self._cleanings.pop(command.session, None)
            return None
        self._limited = command.bytes_per_second < _UNLIMITED
        self._bucket.set_rate(command.bytes_per_second)
        if isinstance(command, BeginCleaning):
            cleaning = Cleaning(command.job, self._files, self._pace)
            built = cleaning.build_map()
            self._cleanings[command.session] = cleaning
            return built
        known = self._cleanings.get(command.session)
        if known is None:
            raise SessionLost(f"cleaning {command.session} is not known here: the worker was started anew")
        return known.clean_group(command.number)

    def _pace(self, size_bytes: int) -> None:
        if self._limited:
            self._bucket.take(size_bytes)
