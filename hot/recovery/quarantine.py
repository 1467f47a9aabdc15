"""Where damaged or unexpected files go: moved aside with a note that says why, never deleted.

A quarantine is a directory beside the partition's, named ``<topic>-<partition>.<32 hex digits>-stray``: the form
that Kafka itself gives to a partition it does not know what to do with, so that either broker still starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from stratalog.hot.storage.directory_names import name_beside
from stratalog.hot.storage.filesystem import File, Filesystem, append_all

__all__ = ["NOTE", "STRAY", "Quarantine"]

STRAY: Final = re.compile(r"(?P<name>\S+)\.(?P<id>[0-9a-f]{32})-stray")
NOTE: Final = "quarantine.json"
_COPY_BYTES: Final = 1 << 20


class Quarantine:
    """One quarantine directory; it comes into being with the first thing put in. Everything is durable on return."""

    __slots__ = ("_directory", "_files", "_notes", "_now_ms", "_partition_directory")

    def __init__(self, files: Filesystem, partition_directory: str, now_ms: int) -> None:
        self._files = files
        self._partition_directory = partition_directory
        self._now_ms = now_ms
        self._directory: str | None = None
        self._notes: list[dict[str, str | int]] = []

    @property
    def directory(self) -> str | None:
        """Where things were put, None if nothing was."""
        return self._directory

    def move(self, names: Sequence[str], reason: str) -> None:
        """Move files of the partition directory here; absent ones are skipped. Raises `OSError`."""
        target, known = self._ensure(), len(self._notes)
        for name in names:
            try:
                self._files.rename(f"{self._partition_directory}/{name}", f"{target}/{name}")
            except FileNotFoundError:
                continue
            self._notes.append({"file": name, "reason": reason})
        if len(self._notes) > known:
            self._finish()

    def keep(self, name: str, source: File, position: int, size_bytes: int, reason: str) -> None:
        """Keep a copy of the ``size_bytes`` from ``position`` on that are about to be cut off. Raises `OSError`."""
        target = self._ensure()
        file = self._files.open_append(f"{target}/{name}")
        try:
            file.truncate(0)
            for first in range(position, position + size_bytes, _COPY_BYTES):
                append_all(file, [source.pread(min(_COPY_BYTES, position + size_bytes - first), first)])
            file.fdatasync()
        finally:
            file.close()
        self._notes.append({"file": name, "reason": reason, "bytes": size_bytes})
        self._finish()

    def _ensure(self) -> str:
        if self._directory is None:
            parent, _, name = self._partition_directory.rpartition("/")
            taken = {entry.name for entry in self._files.scan(parent)}
            number = self._now_ms
            while (kept := name_beside(name, f".{number:032x}-stray")) in taken:
                number += 1
            self._directory = f"{parent}/{kept}"
            self._files.make_directory(self._directory)
            self._files.sync_directory(parent)
        return self._directory

    def _finish(self) -> None:
        """Write the note, then make both directories durable: a file is never in neither of them."""
        directory = self._ensure()
        file = self._files.open_append(f"{directory}/{NOTE}")
        try:
            file.truncate(0)
            append_all(file, [json.dumps(self._notes, indent=1).encode()])
            file.fdatasync()
        finally:
            file.close()
        self._files.sync_directory(directory)
        self._files.sync_directory(self._partition_directory)
