"""A store in memory: for tests, simulations and the ``memory:`` URL. Shared by the threads of one process."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from stratalog.tier.stores.ports import ClockMs, system_clock_ms
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
    UploadInfo,
    Version,
    validate_key,
    validate_metadata,
    validate_prefix,
    validate_range,
)

__all__ = ["MemoryStore"]

_LIST_PAGE_COUNT = 1000


class _Stored(Struct, frozen=True):
    data: bytes
    info: ObjectInfo


def _always(_: _Stored | None) -> None:
    """The condition of an unconditional write."""


class MemoryStore:
    """Objects in a dictionary, all conditions honoured, versions never repeated.

    ``clock_ms`` gives the modification times (Unix milliseconds).
    """

    capabilities = Capabilities(
        conditional_create=True, compare_and_swap=True, checksums=True, ordered_list=True, multi_writer=True
    )

    def __init__(self, url: str = "memory:", *, clock_ms: ClockMs = system_clock_ms) -> None:
        self.url = url
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._objects: dict[str, _Stored] = {}
        self._keys: list[bytes] = []  # sorted UTF-8, the listing order
        self._writes = 0

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object; see :meth:`ObjectStore.put`."""
        return self._write("put", key, data, crc32c=crc32c, metadata=metadata, condition=_always)

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """Write the object if there is none; see :meth:`ObjectStore.put_if_absent`."""

        def absent(current: _Stored | None) -> None:
            if current is not None:
                raise AlreadyExists("put_if_absent", key, self.url, f"there is version {current.info.version}")

        return self._write("put_if_absent", key, data, crc32c=crc32c, metadata=metadata, condition=absent)

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

        def unchanged(current: _Stored | None) -> None:
            found = "no object" if current is None else f"version {current.info.version}"
            if current is None or current.info.version != expected:
                raise PreconditionFailed("compare_and_swap", key, self.url, f"expected {expected}, found {found}")

        return self._write("compare_and_swap", key, data, crc32c=crc32c, metadata=metadata, condition=unchanged)

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """Write the object in one step; ``part_bytes`` has no effect in memory."""
        validate_range("put_large", key, self.url, 0, part_bytes)
        data = as_bytes(source)
        return self._write("put_large", key, data, crc32c=None, metadata=metadata, condition=_always)

    def get(self, key: str) -> tuple[bytes, Version]:
        """Return bytes and version; see :meth:`ObjectStore.get`."""
        stored = self._stored("get", key)
        return stored.data, stored.info.version

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """Return exactly the range; see :meth:`ObjectStore.get_range`."""
        validate_range("get_range", key, self.url, position, length)
        data = self._stored("get_range", key).data
        if position + length > len(data):
            reason = f"bytes {position} to {position + length} of an object of {len(data)} bytes"
            raise InvalidRange("get_range", key, self.url, reason)
        return data[position : position + length]

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes and the total size; see :meth:`ObjectStore.get_suffix`."""
        validate_range("get_suffix", key, self.url, 0, length)
        data = self._stored("get_suffix", key).data
        return data[-length:], len(data)

    def head(self, key: str) -> ObjectInfo:
        """Describe the object; see :meth:`ObjectStore.head`."""
        return self._stored("head", key).info

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order; see :meth:`ObjectStore.list`."""
        validate_prefix("list", prefix, self.url)
        first = prefix.encode()
        after = start_after.encode()
        while page := self._page(first, after):
            yield from page
            after = page[-1].key.encode()

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete the objects; see :meth:`ObjectStore.delete_many`."""
        for key in keys:
            validate_key("delete_many", key, self.url)
            with self._lock:
                if self._objects.pop(key, None) is not None:
                    del self._keys[bisect.bisect_left(self._keys, key.encode())]

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Yield nothing: writes here are never left unfinished."""
        del prefix
        return iter(())

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Do nothing: there is no unfinished upload to abort."""
        del upload_id
        validate_key("abort_upload", key, self.url)

    def _write(
        self,
        operation: str,
        key: str,
        data: Source,
        *,
        crc32c: int | None,
        metadata: Metadata | None,
        condition: Callable[[_Stored | None], None],
    ) -> Version:
        validate_key(operation, key, self.url)
        kept_metadata = validate_metadata(operation, key, self.url, metadata)
        body = as_bytes(data)
        crc = check_crc32c(operation, key, self.url, body, crc32c)
        with self._lock:
            current = self._objects.get(key)
            condition(current)
            self._writes += 1
            version = f"v{self._writes}"
            info = ObjectInfo(key, len(body), version, self._clock_ms(), kept_metadata, crc)
            self._objects[key] = _Stored(body, info)
            if current is None:
                bisect.insort(self._keys, key.encode())
        return version

    def _stored(self, operation: str, key: str) -> _Stored:
        validate_key(operation, key, self.url)
        with self._lock:
            stored = self._objects.get(key)
        if stored is None:
            raise NotFound(operation, key, self.url, "there is no such object")
        return stored

    def _page(self, prefix: bytes, after: bytes) -> Sequence[ObjectInfo]:
        page = []
        with self._lock:
            start = max(bisect.bisect_left(self._keys, prefix), bisect.bisect_right(self._keys, after))
            for encoded in self._keys[start : start + _LIST_PAGE_COUNT]:
                if not encoded.startswith(prefix):
                    break
                page.append(self._objects[encoded.decode()].info)
        return page
