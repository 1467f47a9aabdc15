"""Files of the local store: staging, publishing durably, locking, and the sidecars that keep user metadata.

Everything that is not an object lives in ``.stratalog/`` under the root: ``tmp/`` for files being written, ``locks/``
for ``flock``, ``metadata/`` for sidecars. Objects themselves are plain files whose path is their key.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from stratalog.tier.stores.direct_file import PIECE_BYTES, DirectFile, read_pieces
from stratalog.tier.stores.source import crc32c_of
from stratalog.tier.stores.store import Buffer

__all__ = ["PRIVATE_DIRECTORY", "LocalFiles", "Staged", "content_version"]

PRIVATE_DIRECTORY = ".stratalog"
_LOCK_COUNT = 256
_ABANDONED_AFTER_MS = 24 * 3_600_000
_VERSION_CHARS = 32
_JUST_READ_MAX = 64


class Staged(Struct, frozen=True):
    """A complete file that no reader can see yet."""

    path: Path
    size_bytes: int
    version: str
    crc32c: int


def content_version(data: Buffer) -> str:
    """Return the version of an object with these bytes: the first 128 bits of their SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()[:_VERSION_CHARS]


def _fingerprint(descriptor: int, size_bytes: int) -> tuple[str, int]:
    """Return version and CRC-32C of the first ``size_bytes`` of an open file, as its disk has them. Raises `OSError`."""
    digest = hashlib.sha256()
    crc = 0
    for part in read_pieces(descriptor, size_bytes):
        digest.update(part)
        crc = crc32c_of(part, crc)
    return digest.hexdigest()[:_VERSION_CHARS], crc


class LocalFiles:
    """File operations below ``root``; every method raises ``OSError`` as the system gives it.

    ``sync=False`` leaves out every fsync: for tests and for data that may be lost with the power.
    """

    def __init__(self, root: str, *, sync: bool) -> None:
        self.root = Path(root).absolute()
        self._private = self.root / PRIVATE_DIRECTORY
        self._sync = sync
        self._durable_directories: set[Path] = set()
        self._just_read: OrderedDict[tuple[int, int, int], tuple[str, int]] = OrderedDict()

    def path(self, key: str) -> Path:
        """Return the path of the object ``key`` (validated by the caller)."""
        return self.root / key

    def stage(self, slices: Iterable[Buffer]) -> Staged:
        """Write a new file out of sight and sync it."""
        self._ensure_directory(self._private / "tmp")
        path = self._private / "tmp" / uuid.uuid4().hex
        digest = hashlib.sha256()
        size_bytes = crc = 0
        with DirectFile(path) as file:
            try:
                for data in slices:
                    for part in file.append(data):
                        digest.update(part)
                        crc = crc32c_of(part, crc)
                        size_bytes += len(part)
                file.finish(sync=self._sync)
            except BaseException:
                path.unlink()
                raise
        return Staged(path, size_bytes, digest.hexdigest()[:_VERSION_CHARS], crc)

    def discard(self, staged: Staged) -> None:
        """Remove a staged file; one that was published by ``replace`` is already gone."""
        with suppress(FileNotFoundError):
            staged.path.unlink()

    def replace(self, staged: Staged, key: str) -> None:
        """Make the staged file the object ``key``, in one step, whatever was there."""
        target = self.path(key)
        self._ensure_directory(target.parent)
        staged.path.replace(target)
        self._sync_directory(target.parent)

    def link(self, staged: Staged, key: str) -> None:
        """Make the staged file the object ``key``; ``FileExistsError`` if there is one."""
        target = self.path(key)
        self._ensure_directory(target.parent)
        target.hardlink_to(staged.path)
        self._sync_directory(target.parent)

    def unlink(self, key: str) -> None:
        """Remove the object and its metadata; nothing happens if there is none."""
        target = self.path(key)
        with suppress(FileNotFoundError, NotADirectoryError):
            target.unlink()
            self._sync_directory(target.parent)
        with suppress(FileNotFoundError):
            self._sidecar(key).unlink()

    def fingerprint(self, descriptor: int, status: os.stat_result) -> tuple[str, int]:
        """Return version and CRC-32C of an open file, read from its disk: every second time, if it has not changed.

        An upload is looked at twice, once before it is committed and once before the local copy goes; what the disk
        gave a moment ago is good for both.
        """
        identity = status.st_ino, status.st_ctime_ns, status.st_size
        found = self._just_read.pop(identity, None)
        if found is None:
            found = _fingerprint(descriptor, status.st_size)
            if status.st_size >= PIECE_BYTES:
                self._just_read[identity] = found
                if len(self._just_read) > _JUST_READ_MAX:
                    self._just_read.popitem(last=False)
        return found

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Hold the key's writers' lock against all threads and processes on this file system.

        One of 256 lock files; ``flock`` belongs to the open file, so threads of one process exclude each other too,
        and a killed process lets go.
        """
        directory = self._private / "locks"
        self._ensure_directory(directory)
        name = f"{crc32c_of(key.encode()) % _LOCK_COUNT:02x}"
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read_metadata(self, key: str, version: str) -> dict[str, str]:
        """Return the metadata written with this version of the object; empty if there was none."""
        return self._sidecar_entries(key).get(version, {})

    def write_metadata(self, key: str, current: str | None, version: str, metadata: Mapping[str, str]) -> None:
        """Record the metadata of the version about to be published (call under the lock, before publishing).

        The entry of the ``current`` version stays beside it, so that a crash in between leaves either object with its
        own metadata; the next write drops it.
        """
        entries = self._sidecar_entries(key)
        if not entries and not metadata:
            return
        kept = {current: entries[current]} if current is not None and current in entries else {}
        kept[version] = dict(metadata)
        path = self._sidecar(key)
        staged = self.stage([json.dumps({"key": key, "versions": kept}, sort_keys=True).encode()])
        try:
            self._ensure_directory(path.parent)
            staged.path.replace(path)
            self._sync_directory(path.parent)
        finally:
            self.discard(staged)

    def remove_abandoned(self, now_ms: int) -> int:
        """Remove staged files that a killed writer left more than a day before ``now_ms``; return how many."""
        removed = 0
        for path in (self._private / "tmp").glob("*"):
            with suppress(FileNotFoundError):
                if now_ms - path.stat().st_mtime_ns // 1_000_000 > _ABANDONED_AFTER_MS:
                    path.unlink()
                    removed += 1
        return removed

    def _sidecar(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._private / "metadata" / name[:2] / f"{name}.json"

    def _sidecar_entries(self, key: str) -> dict[str, dict[str, str]]:
        try:
            entries: dict[str, dict[str, str]] = json.loads(self._sidecar(key).read_bytes())["versions"]
        except FileNotFoundError:
            return {}
        return entries

    def _ensure_directory(self, directory: Path) -> None:
        """Create the directory and make its whole path below the root durable, once per process.

        Another process may have made a part of the path and not have synced it yet; our own object must not be
        acknowledged on the strength of that.
        """
        if directory in self._durable_directories and directory.is_dir():
            return
        directory.mkdir(parents=True, exist_ok=True)
        for parent in directory.parents:
            if not parent.is_relative_to(self.root):
                break
            self._sync_directory(parent)
        self._durable_directories.add(directory)

    def _sync_directory(self, directory: Path) -> None:
        if not self._sync:
            return
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
