"""Any fsspec URL as a store: to read an archive, or to write one as the only writer.

fsspec promises neither conditional nor atomic writes, and no order of listings. So the store is read-only unless it is
opened with ``single_writer=True``; then conditions are checked before writing, which is enough for one writer
only. User metadata and checksums are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from stratalog.tier.stores.source import as_bytes, check_crc32c
from stratalog.tier.stores.store import (
    AlreadyExists,
    Buffer,
    Capabilities,
    InvalidRange,
    Metadata,
    NotFound,
    ObjectInfo,
    PreconditionFailed,
    Source,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    UnsupportedOperation,
    UploadInfo,
    Version,
    validate_key,
    validate_metadata,
    validate_prefix,
    validate_range,
)

__all__ = ["UNKNOWN_TIME_MS", "FsspecStore", "what_to_install"]

UNKNOWN_TIME_MS = (1 << 63) - 1
"""Modification time of an object whose file system tells none: never old enough to be removed."""

_EXTRAS = {"gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}
_TIME_NAMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class FsspecStore:
    """Objects below ``url`` in the file system that fsspec finds for it; ``options`` go to that file system."""

    capabilities = Capabilities(
        conditional_create=False, compare_and_swap=False, checksums=False, ordered_list=False, multi_writer=False
    )

    def __init__(self, url: str, *, single_writer: bool = False, **options: Any) -> None:
        self.url = _without_password(url)
        self._single_writer = single_writer
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - an optional dependency

            # Cached listings and shared instances would hide what other processes wrote.
            settings = {"use_listings_cache": False, "skip_instance_cache": True, **options}
            file_system, root = url_to_fs(url, **settings)
        except (ImportError, ValueError) as error:
            advice = f"Install {what_to_install(url)}, or use file:// or s3://."
            raise UnsupportedOperation("open", "", self.url, str(error), advice) from error
        self._fs: Any = file_system
        self._root = str(root).rstrip("/")

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object; see :meth:`ObjectStore.put`. Metadata is checked and not kept."""
        return self._write("put", key, as_bytes(data), crc32c, metadata)

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object if there is none, as the only writer."""
        if self._exists("put_if_absent", key):
            raise AlreadyExists("put_if_absent", key, self.url, "there is such an object")
        return self._write("put_if_absent", key, as_bytes(data), crc32c, metadata)

    def compare_and_swap(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        expected: Version,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Replace the expected version, as the only writer."""
        found = self._version("compare_and_swap", key) if self._exists("compare_and_swap", key) else "no object"
        if found != expected:
            raise PreconditionFailed("compare_and_swap", key, self.url, f"expected {expected}, found {found}")
        return self._write("compare_and_swap", key, as_bytes(data), crc32c, metadata)

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """Write the object in one piece: parts mean nothing to fsspec."""
        validate_range("put_large", key, self.url, 0, part_bytes)
        return self._write("put_large", key, as_bytes(source), None, metadata)

    def get(self, key: str) -> tuple[bytes, Version]:
        """Return bytes and version; see :meth:`ObjectStore.get`.

        If another process writes meanwhile, the version is the older one of the two: then a reader that compares it looks
        again, and a swap that expects it is refused. The newer one would hide the new bytes.
        """
        info = self._info("get", key)
        version = self._version("get", key)
        with self._errors("get", key):
            data: bytes = self._fs.cat_file(info["name"])
        return data, version

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """Return exactly the range; see :meth:`ObjectStore.get_range`."""
        validate_range("get_range", key, self.url, position, length)
        size_bytes = int(self._info("get_range", key)["size"])
        if position + length > size_bytes:
            reason = f"bytes {position} to {position + length} of an object of {size_bytes} bytes"
            raise InvalidRange("get_range", key, self.url, reason)
        return self._slice("get_range", key, position, length)

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes and the total size; see :meth:`ObjectStore.get_suffix`."""
        validate_range("get_suffix", key, self.url, 0, length)
        size_bytes = int(self._info("get_suffix", key)["size"])
        length = min(length, size_bytes)
        data = self._slice("get_suffix", key, size_bytes - length, length) if length else b""
        return data, size_bytes

    def head(self, key: str) -> ObjectInfo:
        """Describe the object; see :meth:`ObjectStore.head`."""
        info = self._info("head", key)
        return ObjectInfo(key, int(info["size"]), self._version("head", key), _modified_ms(info))

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order; the whole listing is fetched and sorted first."""
        validate_prefix("list", prefix, self.url)
        directory = prefix.rpartition("/")[0]
        with self._errors("list", prefix):
            self._fs.invalidate_cache()
            found = self._find(f"{self._root}/{directory}".rstrip("/"))
        skip = len(self._root.lstrip("/")) + 1
        by_key = {str(path).lstrip("/")[skip if self._root else 0 :]: info for path, info in found.items()}
        for key in sorted(by_key, key=str.encode):
            if key.startswith(prefix) and key.encode() > start_after.encode():
                info = by_key[key]
                yield ObjectInfo(key, int(info["size"]), "", _modified_ms(info))

    def _find(self, path: str) -> dict[str, Any]:
        """Entries below ``path``, by name; nothing if there is no such directory. Raises what the file system raises."""
        from fsspec import AbstractFileSystem  # noqa: PLC0415 - an optional dependency
        from fsspec.asyn import AsyncFileSystem  # noqa: PLC0415

        base, name = (AsyncFileSystem, "_find") if self._fs.async_impl else (AbstractFileSystem, "find")
        if getattr(type(self._fs), name) is getattr(base, name):
            return self._walk(path)
        try:
            found: dict[str, Any] = self._fs.find(path, detail=True)
        except FileNotFoundError:
            return {}
        return found

    def _walk(self, path: str) -> dict[str, Any]:
        """As fsspec's ``find`` of file systems that have no listing of their own, but with its errors.

        That one takes a directory that it cannot list, for want of rights or of a network, to be empty: a bucket that
        does not answer would be one without topics, leases and cuts.
        """
        found: dict[str, Any] = {}
        folders = [path]
        while folders:
            folder = folders.pop()
            try:
                listed = self._fs.ls(folder, detail=True)
            except FileNotFoundError:  # it was never made, or another process has just removed it
                continue
            for info in listed:
                if info["type"] != "directory":
                    found[info["name"]] = info
                elif info["name"].rstrip("/") != folder.rstrip("/"):
                    folders.append(info["name"])
        return found

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete the objects; see :meth:`ObjectStore.delete_many`."""
        for key in keys:
            self._check_writable("delete_many", key)
            if self._exists("delete_many", key):
                with self._errors("delete_many", key):
                    self._fs.rm_file(self._path(key))

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Yield nothing: fsspec shows no unfinished uploads."""
        del prefix
        return iter(())

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Do nothing: there are no unfinished uploads to see."""
        del upload_id
        validate_key("abort_upload", key, self.url)

    def _write(self, operation: str, key: str, data: bytes, crc32c: int | None, metadata: Metadata | None) -> Version:
        self._check_writable(operation, key)
        validate_metadata(operation, key, self.url, metadata)
        check_crc32c(operation, key, self.url, data, crc32c)
        path = self._path(key)
        with self._errors(operation, key):
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, data)
        return self._version(operation, key)

    def _check_writable(self, operation: str, key: str) -> None:
        validate_key(operation, key, self.url)
        if not self._single_writer:
            advice = "Set stratalog.bucket.single.writer if no other process writes there, or use file:// or s3://."
            raise UnsupportedOperation(operation, key, self.url, "the store was opened for reading", advice)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _info(self, operation: str, key: str) -> dict[str, Any]:
        validate_key(operation, key, self.url)
        with self._errors(operation, key):
            self._fs.invalidate_cache()
            info: dict[str, Any] = self._fs.info(self._path(key))
        if info.get("type") != "file":
            raise NotFound(operation, key, self.url, "the key is a directory, not an object")
        return info

    def _exists(self, operation: str, key: str) -> bool:
        try:
            self._info(operation, key)
        except NotFound:
            return False
        return True

    def _version(self, operation: str, key: str) -> Version:
        with self._errors(operation, key):
            return str(self._fs.ukey(self._path(key)))

    def _slice(self, operation: str, key: str, position: int, length: int) -> bytes:
        with self._errors(operation, key):
            data: bytes = self._fs.cat_file(self._path(key), start=position, end=position + length)
        if len(data) != length:
            reason = f"asked for {length} bytes from {position}, got {len(data)}"
            raise StoreUnavailable(operation, key, self.url, reason)
        return data

    @contextmanager
    def _errors(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise NotFound(operation, key, self.url, "there is no such object") from error
        except PermissionError as error:
            raise StoreDenied(operation, key, self.url, str(error)) from error
        except OSError as error:
            raise StoreUnavailable(operation, key, self.url, f"{type(error).__name__}: {error}") from error
        except Exception as error:  # every file system brings its own library's errors
            reason = f"{type(error).__name__}: {error}"
            raise StoreError(operation, key, self.url, reason) from error


def what_to_install(url: str) -> str:
    """The packages that bring the file system for this URL."""
    extra = _EXTRAS.get(url.partition(":")[0])
    return f"stratalog[{extra}]" if extra else "stratalog[fsspec] and the package for this scheme"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _modified_ms(info: dict[str, Any]) -> int:
    value = next((info[name] for name in _TIME_NAMES if info.get(name) is not None), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)
    return int(value * 1000) if isinstance(value, (int, float)) else UNKNOWN_TIME_MS
