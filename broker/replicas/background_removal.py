"""One thread that removes files of deleted segments and partitions, so that no client waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.workers.spawner import spawner_of
from stratalog.hot.storage.removal import Removal

__all__ = ["BackgroundRemoval"]


class BackgroundRemoval:
    """Runs one removal after the other; lives on the event loop, only ``Removal.run`` leaves it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = spawner_of(loop).threads(1, "removal")
        self._pending = 0

    @property
    def idle(self) -> bool:
        """True if no removal waits or runs."""
        return not self._pending

    def submit(self, removal: Removal, writer: DirectoryWriter, failed: Callable[[], None] | None = None) -> None:
        """Queue a removal. On an error, call ``failed`` on the loop and give the directory's ``writer`` the error."""
        self._pending += 1
        self._thread.submit(self._run, removal, writer, failed)

    def _run(self, removal: Removal, writer: DirectoryWriter, failed: Callable[[], None] | None) -> None:
        error: OSError | None = None
        try:
            removal.run()
        except OSError as problem:
            error = problem
        except Exception as problem:  # noqa: BLE001 - a mistake of ours must be heard, not end the thread's job silently
            error = OSError(f"files could not be removed: {problem!r}")
        self._loop.call_soon_threadsafe(self._ended, error, writer, failed)

    def _ended(self, error: OSError | None, writer: DirectoryWriter, failed: Callable[[], None] | None) -> None:
        self._pending -= 1
        if error is None:
            return
        if failed is not None:
            failed()
        if writer.offline is None:
            writer.report(error)

    def close(self) -> None:
        """End after the running removal; the next start does the rest."""
        self._thread.shutdown(wait=True, cancel_futures=True)
