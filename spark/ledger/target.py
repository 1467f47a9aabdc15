"""Where a backfill writes: a directory, or an object store. Files are staged out of sight and published one by one.

In a directory publishing is a rename. In an object store it is a copy by the store itself and a deletion; what is
staged was uploaded by one PUT or one multipart upload, so that no part of a file is ever seen under any name.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, unquote, urlsplit

from crc32c import crc32c

from stratalog.spark.archive_store import open_archive
from stratalog.tier import open_store
from stratalog.tier.stores.object_copy import copy_object
from stratalog.tier.stores.store import FileRange, NotFound, ObjectStore
from stratalog.wire.errors import Invalid

__all__ = ["DirectoryTarget", "ObjectTarget", "Target", "open_target"]

_PART_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20


class Target(Protocol):
    """Operations that the job and its workers need on a place to write to. Keys are relative to it."""

    @property
    def store(self) -> ObjectStore:
        """For the ledger: create-if-absent and compare-and-swap."""

    @property
    def url(self) -> str:
        """Where it is, for people and for workers."""

    def is_there(self) -> bool:
        """Whether anything can have been written to it."""

    def new_path(self, prefix: str) -> Path:
        """A new empty local file for a worker to write to; ``prefix`` is where it will be staged."""

    def stage(self, path: Path, key: str) -> tuple[int, int]:
        """Take the finished file ``path`` to ``key``, durably and atomically; its size and CRC-32C. Idempotent."""

    def publish(self, key: str, final_key: str) -> None:
        """Move a staged file to its final place; nothing is done where it was moved before.

        Raises `NotFound` if it is in neither place.
        """

    def remove(self, keys: Iterable[str]) -> None:
        """Delete files; those that are not there count as deleted."""

    def folders(self, prefix: str) -> AbstractSet[str]:
        """The names right below ``prefix``, which ends in a slash."""

    def remove_folder(self, prefix: str) -> None:
        """Delete everything below ``prefix``, which ends in a slash."""


class DirectoryTarget:
    """A local or mounted directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = "file://" + quote(str(root))

    @cached_property
    def store(self) -> ObjectStore:
        """The directory as a store; made if it is not there."""
        return open_store(self.url)

    def is_there(self) -> bool:
        """Whether there is such a directory."""
        return self.root.is_dir()

    def new_path(self, prefix: str) -> Path:
        """Beside its staged place, so that staging is a rename."""
        folder = self.root / prefix
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f".{uuid.uuid4().hex}.writing"
        path.touch(exist_ok=False)  # with the mode of any new file: others may read it, unlike those of tempfile
        return path

    def stage(self, path: Path, key: str) -> tuple[int, int]:
        """Sync, then rename."""
        size_bytes, crc = _fingerprint(path, sync=True)
        _rename(path, self.root / key)
        return size_bytes, crc

    def publish(self, key: str, final_key: str) -> None:
        """Rename."""
        final = self.root / final_key
        try:
            _rename(self.root / key, final)
        except FileNotFoundError as error:
            if not final.exists():
                raise NotFound("publish", key, self.url, "the file is in neither place") from error

    def remove(self, keys: Iterable[str]) -> None:
        """Unlink."""
        for key in keys:
            (self.root / key).unlink(missing_ok=True)

    def folders(self, prefix: str) -> AbstractSet[str]:
        """Directories."""
        try:
            return {each.name for each in os.scandir(self.root / prefix) if each.is_dir()}
        except FileNotFoundError:
            return frozenset()

    def remove_folder(self, prefix: str) -> None:
        """With all that is in it."""
        shutil.rmtree(self.root / prefix, ignore_errors=True)


class ObjectTarget:
    """A bucket, or any store of the port."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

        self.url = store.url

    def is_there(self) -> bool:
        """A bucket is there, or the first request says what is wrong."""
        return True

    def new_path(self, prefix: str) -> Path:
        """A temporary file: Parquet is uploaded when it is finished, by one request or one multipart upload."""
        del prefix
        descriptor, name = tempfile.mkstemp(prefix="stratalog-", suffix=".parquet")
        os.close(descriptor)
        return Path(name)

    def stage(self, path: Path, key: str) -> tuple[int, int]:
        """Upload, then remove the temporary file."""
        size_bytes, crc = _fingerprint(path, sync=False)
        self.store.put_large(key, FileRange(str(path), 0, size_bytes), part_bytes=_PART_BYTES)
        path.unlink()
        return size_bytes, crc

    def publish(self, key: str, final_key: str) -> None:
        """Copy inside the store; the staged object is left to `remove_folder`."""
        try:
            copy_object(self.store, key, final_key)
        except NotFound:
            self.store.head(final_key)

    def remove(self, keys: Iterable[str]) -> None:
        """Delete, many at a time."""
        self.store.delete_many(keys)

    def folders(self, prefix: str) -> AbstractSet[str]:
        """The part of keys between ``prefix`` and the next slash."""
        return {info.key[len(prefix) :].partition("/")[0] for info in self.store.list(prefix)}

    def remove_folder(self, prefix: str) -> None:
        """List and delete."""
        self.store.delete_many([info.key for info in self.store.list(prefix)])


def open_target(url: str, options: Mapping[str, str]) -> Target:
    """The target of this process for ``url``: a path, ``file:///path``, ``s3://bucket/prefix``; opened once.

    Raises `Invalid` for options that the kind of target has no use for, and where a file is in the way.
    """
    return _open(url, tuple(sorted(options.items())))


@lru_cache(maxsize=8)
def _open(url: str, options: tuple[tuple[str, str], ...]) -> Target:
    if ":" not in url.partition("/")[0]:
        url = "file://" + quote(str(Path(url).absolute()))
    if not url.startswith("file:"):
        return ObjectTarget(open_archive(url, dict(options)))
    parts = urlsplit(url)
    if options or parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise Invalid(f"{url} is no directory to write to: give a path or file:///path, without options of S3")
    root = Path(unquote(parts.path))
    in_the_way = next((each for each in (root, *root.parents) if each.exists()), root)
    if in_the_way.exists() and not in_the_way.is_dir():
        raise Invalid(f"{root} cannot be written to: {in_the_way} is no directory")
    return DirectoryTarget(root)


def _fingerprint(path: Path, *, sync: bool) -> tuple[int, int]:
    crc = size_bytes = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            crc = crc32c(piece, crc)
            size_bytes += len(piece)
        if sync:
            os.fsync(file.fileno())
    return size_bytes, crc


def _rename(path: Path, target: Path) -> None:
    """Durably: the directories on the way are synced too."""
    made = [each for each in (target.parent, *target.parent.parents) if not each.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    for folder in {target.parent, *(each.parent for each in made)}:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
