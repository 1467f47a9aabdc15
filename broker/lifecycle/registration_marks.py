"""The notes of a broker in its log directories for its next start: whether it can have lost records that others count on.

A stop without a farewell takes records of replicated partitions that were acknowledged before their sync. So the marks name the epoch of
the registration as long as every replicated partition syncs on ack, and go before the first one that does not.

A replica that lacks what it had takes the marks with it until the controller has heard of it, which is so with the next
registration. A stop before that, orderly or not, would leave an epoch by which the next process had lost nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from stratalog.broker.replicas.directories import Directories
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.registration_mark import read_registration, remove_registration, write_registration
from stratalog.wire.topic import Uuid

__all__ = ["RegistrationMarks"]

_NONE: Final = -1

log = logging.getLogger(__name__)


class RegistrationMarks:
    """Those of one broker. A disk that fails is reported, and takes the mark with it."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._is_void = False
        self._epoch = _NONE
        """The newest registration of this process; before the first one, that of a process before, if it lost nothing."""
        self._has_lost = False
        """Whether a replica lacks what it had, and the controller has not heard of it."""

    def directories(self) -> tuple[Uuid, ...]:
        """The directories that a registration names: those that are online, and those that are away and may have logs.

        The next start of a broker by itself, whose metadata place no log, knows of the latter from there alone.
        """
        found = self._directories
        return (*(one.directory_id for one in found.online), *sorted(found.settled.away))

    def previous_broker_epoch(self) -> int:
        """The registration of the process before, if it lost nothing in any directory; else -1.

        One that is offline does not count: its replicas neither lead nor are counted on until it is back, and says then
        what it lost. Raises `OSError`.

        The mark of a clean stop has gone with the loading of a directory. A process that ends before it opens a log, as no
        controller answers, would be the second one to ask: so that epoch is left as the mark of a registration.
        """
        self._epoch = min(_lossless(one.files) for one in self._directories.online)
        if self._epoch != _NONE:
            self._in_each("leave", self._leave_again)
        return self._epoch

    def _leave_again(self, files: LogDirectory) -> None:
        if files.clean:
            write_registration(files.files, files.path, self._epoch)

    def registered(self, broker_epoch: int) -> None:
        """The controller has given this process an epoch, and counts nothing here by what was there before."""
        self._has_lost = False
        self._epoch = broker_epoch
        if not self._is_void:
            self._in_each("leave", lambda files: write_registration(files.files, files.path, broker_epoch))

    def may_lose(self) -> None:
        """From now on a stop without a farewell may take what was acknowledged; the next start says so."""
        if not self._is_void:
            self._is_void = True
            self._in_each("remove", lambda files: remove_registration(files.files, files.path))

    def data_lost(self) -> None:
        """A replica lacks what it had: until the next registration a start, whatever ends this process, says so."""
        if not self._has_lost:
            self._has_lost = True
            self._in_each("remove", lambda files: remove_registration(files.files, files.path))

    def epoch_at_stop(self) -> int:
        """The epoch for the marks of a clean stop; -1 if that takes back nothing that was lost.

        The image may have a later registration: of another process with this id, whose records are not in these directories.
        """
        return _NONE if self._has_lost else self._epoch

    def _in_each(self, what: str, change: Callable[[LogDirectory], None]) -> None:
        for one in self._directories.all:
            if one.writer.offline is not None:
                continue
            try:
                change(one.files)
            except OSError as error:
                log.error("%s: cannot %s the mark of the registration: %s", one.path, what, error)
                one.writer.report(error)


def _lossless(files: LogDirectory) -> int:
    if files.was_offline:
        return _NONE
    return files.clean_broker_epoch if files.clean else read_registration(files.files, files.path)
