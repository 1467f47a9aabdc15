"""The part of a store below a prefix, as a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from stratalog.tier.stores.file_backed import Look, SeenBytes, file_of, look_through
from stratalog.tier.stores.object_copy import CopiesItself
from stratalog.tier.stores.store import (
    Buffer,
    Metadata,
    ObjectInfo,
    ObjectStore,
    Source,
    UploadInfo,
    Version,
    validate_key,
    validate_prefix,
)
from stratalog.tier.stores.wrappers import StoreWrapper

__all__ = ["PrefixStore"]


class PrefixStore(StoreWrapper):
    """The part of a store below ``prefix``: keys are relative to it, errors name the whole key."""

    def __init__(self, inner: ObjectStore, prefix: str) -> None:
        super().__init__(inner)
        self._prefix = prefix.strip("/") + "/"

    @property
    def url(self) -> str:
        """Where the wrapped store is, with the prefix."""
        return f"{self.inner.url.rstrip('/')}/{self._prefix.rstrip('/')}"

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        return self.inner.put(self._full("put", key), data, crc32c=crc32c, metadata=metadata)

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        return self.inner.put_if_absent(self._full("put_if_absent", key), data, crc32c=crc32c, metadata=metadata)

    def compare_and_swap(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        expected: Version,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        return self.inner.compare_and_swap(
            self._full("compare_and_swap", key), data, expected, crc32c=crc32c, metadata=metadata
        )

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """As the port's."""
        return self.inner.put_large(self._full("put_large", key), source, part_bytes=part_bytes, metadata=metadata)

    def get(self, key: str) -> tuple[bytes, Version]:
        """As the port's."""
        return self.inner.get(self._full("get", key))

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """As the port's."""
        return self.inner.get_range(self._full("get_range", key), position, length)

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """As the port's."""
        return self.inner.get_suffix(self._full("get_suffix", key), length)

    def head(self, key: str) -> ObjectInfo:
        """As the port's."""
        return replace(self.inner.head(self._full("head", key)), key=key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """As the port's."""
        validate_prefix("list", prefix, self.url)
        after = self._prefix + start_after if start_after else ""
        for info in self.inner.list(self._prefix + prefix, after):
            yield replace(info, key=info.key[len(self._prefix) :])

    def delete_many(self, keys: Iterable[str]) -> None:
        """As the port's."""
        self.inner.delete_many(self._full("delete_many", key) for key in keys)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """As the port's."""
        for upload in self.inner.list_uploads(self._prefix + prefix):
            yield replace(upload, key=upload.key[len(self._prefix) :])

    def abort_upload(self, key: str, upload_id: str) -> None:
        """As the port's."""
        self.inner.abort_upload(self._full("abort_upload", key), upload_id)

    def file_of(self, key: str) -> str | None:
        """As the wrapped store's."""
        return file_of(self.inner, self._full("file_of", key))

    def look_through(self, key: str, position: int, length: int, look: Look) -> SeenBytes:
        """As the wrapped store's."""
        return look_through(self.inner, self._full("get_range", key), position, length, look)

    def copy_inside(self, key: str, target_key: str) -> bool:
        """As the wrapped store's, if it copies by itself."""
        if not isinstance(self.inner, CopiesItself):
            return False
        return self.inner.copy_inside(self._full("copy", key), self._full("copy", target_key))

    def _full(self, operation: str, key: str) -> str:
        """Return the whole key; the relative one has to keep the rules too, whatever the prefix would hide."""
        validate_key(operation, key, self.url)
        return self._prefix + key
