"""A store in a directory: the embedded default, and the one to read without any service.

An object is a plain file whose path below the root is its key, so ``cp``, ``rsync`` and ``aws s3 sync`` see the same
layout as in a bucket. Several processes may use one directory at once. Writes go to a staged file that is synced and
then linked (create) or renamed (replace), and the directory is synced: a reader never sees a part of an object.
Versions are hashes of the content; writers of one key exclude each other by ``flock``, so ``compare_and_swap`` never
loses an update. NFS and other shared file systems work as far as their ``flock`` and ``link`` do.

A directory cannot hold both ``a`` and ``a/b``; the archive's key names never need that.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from operator import itemgetter
from urllib.parse import quote

from stratalog.tier.stores.file_backed import Look, SeenBytes, pieces_of
from stratalog.tier.stores.local_files import LocalFiles, Staged, content_version
from stratalog.tier.stores.ports import ClockMs, system_clock_ms
from stratalog.tier.stores.source import SourceUnreadable, source_parts, source_slices
from stratalog.tier.stores.store import (
    AlreadyExists,
    Buffer,
    Capabilities,
    ChecksumMismatch,
    InvalidKey,
    InvalidRange,
    Metadata,
    NotFound,
    ObjectInfo,
    PreconditionFailed,
    Source,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    UploadInfo,
    Version,
    validate_key,
    validate_metadata,
    validate_prefix,
    validate_range,
)

__all__ = ["LocalStore"]

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_SHAPE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST})
_SURROGATE = re.compile("[\ud800-\udfff]")


class LocalStore:
    """Objects below the directory ``root``.

    ``create`` makes the directory if it is missing; without it a missing directory raises :class:`NotFound`, so that
    a reader with a wrong path does not see an empty archive. ``sync=False`` leaves out every fsync (tests).
    """

    capabilities = Capabilities(
        conditional_create=True, compare_and_swap=True, checksums=True, ordered_list=True, multi_writer=True
    )

    def __init__(
        self, root: str, *, create: bool = True, sync: bool = True, clock_ms: ClockMs = system_clock_ms
    ) -> None:
        self._files = LocalFiles(root, sync=sync)
        self.url = "file://" + quote(str(self._files.root))
        with self._translated("open", ""):
            if create:
                self._files.root.mkdir(parents=True, exist_ok=True)
            if not self._files.root.is_dir():
                raise NotFound("open", "", self.url, "there is no such directory", "Check the path of the archive.")
            if create:
                self._files.remove_abandoned(clock_ms())

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object durably; see :meth:`ObjectStore.put`."""
        with self._writing("put", key, data, crc32c) as staged:
            self._publish("put", key, staged, metadata)
        return staged.version

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object if there is none; see :meth:`ObjectStore.put_if_absent`."""
        kept = validate_metadata("put_if_absent", key, self.url, metadata)
        with self._writing("put_if_absent", key, data, crc32c) as staged, self._files.locked(key):
            if os.path.lexists(self._files.path(key)):
                raise AlreadyExists("put_if_absent", key, self.url, "there is such an object")
            self._files.write_metadata(key, None, staged.version, kept)
            try:
                self._files.link(staged, key)
            except FileExistsError as error:
                raise AlreadyExists("put_if_absent", key, self.url, "there is such an object") from error
        return staged.version

    def compare_and_swap(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        expected: Version,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Replace the expected version; see :meth:`ObjectStore.compare_and_swap`."""
        with self._writing("compare_and_swap", key, data, crc32c) as staged:
            self._publish("compare_and_swap", key, staged, metadata, expected=expected)
        return staged.version

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """Write the object through one staged file, ``part_bytes`` at a time."""
        validate_key("put_large", key, self.url)
        validate_range("put_large", key, self.url, 0, part_bytes)
        with self._translated("put_large", key):
            staged = self._files.stage(source_parts(source, part_bytes))
            try:
                self._publish("put_large", key, staged, metadata)
            finally:
                self._files.discard(staged)
        return staged.version

    def get(self, key: str) -> tuple[bytes, Version]:
        """Return bytes and version; see :meth:`ObjectStore.get`."""
        with self._reading("get", key) as (descriptor, status):
            data = _read(descriptor, 0, status.st_size)
        return data, content_version(data)

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """Return exactly the range; see :meth:`ObjectStore.get_range`."""
        with self._reading_range(key, position, length) as descriptor:
            return _read(descriptor, position, length)

    def look_through(self, key: str, position: int, length: int, look: Look) -> SeenBytes:
        """Show the range; see :class:`FileBacked`."""
        with (
            self._reading_range(key, position, length) as descriptor,
            closing(pieces_of(descriptor, position, length)) as pieces,
        ):
            look(pieces)
        return SeenBytes(length)

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes and the total size; see :meth:`ObjectStore.get_suffix`."""
        validate_range("get_suffix", key, self.url, 0, length)
        with self._reading("get_suffix", key) as (descriptor, status):
            length = min(length, status.st_size)
            return _read(descriptor, status.st_size - length, length), status.st_size

    def head(self, key: str) -> ObjectInfo:
        """Describe the object.

        Version and CRC-32C are computed from the bytes now on disk (not from the page cache, if the object is large),
        so this reads the whole file and finds what became of it since it was written. A second look at a large object
        untouched since the first one repeats its answer; a third one reads again.
        """
        while True:
            with self._reading("head", key) as (descriptor, status):
                version, crc = self._files.fingerprint(descriptor, status)
                metadata = self._files.read_metadata(key, version)
                if not metadata and not self._is_current(key, status):
                    continue  # replaced meanwhile: the sidecar may already be the next one's
            return ObjectInfo(key, status.st_size, version, status.st_mtime_ns // 1_000_000, metadata, crc)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order; see :meth:`ObjectStore.list`."""
        validate_prefix("list", prefix, self.url)
        directory = prefix.rpartition("/")[0]
        base = directory.encode() + b"/" if directory else b""
        with self._translated("list", prefix):
            yield from self._walk(base, prefix.encode(), start_after.encode())

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete the objects; see :meth:`ObjectStore.delete_many`."""
        for key in keys:
            validate_key("delete_many", key, self.url)
            with self._translated("delete_many", key), self._files.locked(key):
                if not self._files.path(key).is_dir():
                    self._files.unlink(key)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Yield nothing: staged files of killed writers are removed when the store is opened."""
        del prefix
        return iter(())

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Do nothing: there are no unfinished uploads."""
        del upload_id
        validate_key("abort_upload", key, self.url)

    def file_of(self, key: str) -> str:
        """The object's file; see :class:`FileBacked`."""
        validate_key("file_of", key, self.url)
        return str(self._files.path(key))

    @contextmanager
    def _writing(self, operation: str, key: str, data: Source, crc32c: int | None) -> Iterator[Staged]:
        validate_key(operation, key, self.url)
        with self._translated(operation, key):
            # Piece by piece: joined, an upload would be in memory twice.
            staged = self._files.stage(source_slices(data))
            try:
                if crc32c is not None and crc32c != staged.crc32c:
                    reason = f"the CRC-32C is {staged.crc32c:08x}, the caller gave {crc32c:08x}"
                    raise ChecksumMismatch(operation, key, self.url, reason)
                yield staged
            finally:
                self._files.discard(staged)

    def _publish(
        self,
        operation: str,
        key: str,
        staged: Staged,
        metadata: Metadata | None,
        expected: Version | None = None,
    ) -> None:
        kept = validate_metadata(operation, key, self.url, metadata)
        with self._files.locked(key):
            current = self._current_version(operation, key)
            if expected is not None and current != expected:
                found = "no object" if current is None else f"version {current}"
                raise PreconditionFailed(operation, key, self.url, f"expected version {expected}, found {found}")
            self._files.write_metadata(key, current, staged.version, kept)
            self._files.replace(staged, key)

    def _current_version(self, operation: str, key: str) -> Version | None:
        try:
            with self._reading(operation, key) as (descriptor, status):
                return self._files.fingerprint(descriptor, status)[0]
        except NotFound:
            return None

    def _is_current(self, key: str, status: os.stat_result) -> bool:
        try:
            return os.path.samestat(self._files.path(key).stat(), status)
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise

    @contextmanager
    def _reading(self, operation: str, key: str) -> Iterator[tuple[int, os.stat_result]]:
        validate_key(operation, key, self.url)
        with self._translated(operation, key):
            try:
                descriptor = os.open(self._files.path(key), os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in _ABSENT:
                    raise NotFound(operation, key, self.url, "there is no such object") from error
                raise
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise NotFound(operation, key, self.url, "the key is a directory, not an object")
                yield descriptor, status
            finally:
                os.close(descriptor)

    @contextmanager
    def _reading_range(self, key: str, position: int, length: int) -> Iterator[int]:
        validate_range("get_range", key, self.url, position, length)
        with self._reading("get_range", key) as (descriptor, status):
            if position + length > status.st_size:
                reason = f"bytes {position} to {position + length} of an object of {status.st_size} bytes"
                raise InvalidRange("get_range", key, self.url, reason)
            yield descriptor

    @contextmanager
    def _translated(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except SourceUnreadable:
            raise
        except OSError as error:
            raise self._store_error(operation, key, error) from error

    def _store_error(self, operation: str, key: str, error: OSError) -> StoreError:
        if error.errno in _DENIED:
            return StoreDenied(operation, key, self.url, str(error), "Check owner and mode of the directory.")
        if error.errno in _SHAPE:
            reason = f"a directory cannot hold both a key and another one below it ({error})"
            return InvalidKey(operation, key, self.url, reason)
        advice = "Check free space and the health of the disk; the call may have been applied."
        return StoreUnavailable(operation, key, self.url, str(error), advice)

    def _walk(self, base: bytes, prefix: bytes, after: bytes) -> Iterator[ObjectInfo]:
        """Yield what lies below the directory ``base`` (empty, or ending in a slash), in key order.

        Sorting names with a slash appended to directories gives exactly the order of the whole keys.
        """
        for name, entry in self._entries(base):
            key = base + name
            if name.endswith(b"/"):
                if not (key.startswith(prefix) or prefix.startswith(key)):
                    continue
                if key > after or after.startswith(key):
                    yield from self._walk(key, prefix, after)
            elif key.startswith(prefix) and key > after:
                with suppress(FileNotFoundError):  # deleted since the directory was read
                    status = entry.stat()
                    yield ObjectInfo(key.decode(), status.st_size, "", status.st_mtime_ns // 1_000_000)

    def _entries(self, base: bytes) -> Sequence[tuple[bytes, os.DirEntry[str]]]:
        try:
            with os.scandir(self._files.root / base.decode()) as entries:
                found = [
                    (os.fsencode(entry.name) + b"/" * entry.is_dir(), entry)
                    for entry in entries
                    if not _SURROGATE.search(entry.name)  # not UTF-8, so no key of ours
                ]
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise
        if not base:
            found = [entry for entry in found if not entry[0].startswith(b".")]
        found.sort(key=itemgetter(0))
        return found


def _read(descriptor: int, position: int, length: int) -> bytes:
    """Read exactly ``length`` bytes; a published file never shrinks, so fewer means the disk failed us."""
    pieces = []
    end = position + length
    while position < end:
        data = os.pread(descriptor, end - position, position)
        if not data:
            raise OSError(errno.EIO, f"the file ended at byte {position}, expected {end}")
        pieces.append(data)
        position += len(data)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
