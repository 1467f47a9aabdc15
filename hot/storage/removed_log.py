"""The files of a log that was removed: it has none, for those of its paths may be another log's by now."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["NoFiles", "RemovedLog"]


class RemovedLog(OSError):
    """A log was used after its removal. It says nothing about the disk."""


class NoFiles:
    """Stands in the place of a `Filesystem`: a topic that is made again has logs in the same paths."""

    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse every operation. Raises `RemovedLog`."""
        raise RemovedLog(f"{self._why} ({name})")
