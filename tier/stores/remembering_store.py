"""A store that remembers the manifests that went through it, so that the next change of one need not read it first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from stratalog.tier.stores.store import Buffer, Metadata, ObjectStore, Source, Version
from stratalog.tier.stores.wrappers import StoreWrapper

__all__ = ["Remembering", "RememberingStore", "recall"]

_BYTES_MAX: Final = 16 << 20
_SUFFIX: Final = "/manifest.json"


@runtime_checkable
class Remembering(Protocol):
    """Methods of a store, besides the port, that remembers what it last saw of some objects."""

    def recall(self, key: str) -> tuple[bytes, Version] | None:
        """Bytes and version of an object as they were once; what is there now only a compare-and-swap can tell."""


def recall(store: ObjectStore, key: str) -> tuple[bytes, Version] | None:
    """See :class:`Remembering`; None for stores that remember nothing."""
    return store.recall(key) if isinstance(store, Remembering) else None


class RememberingStore(StoreWrapper):
    """Keeps the manifests that were last written or read, ``bytes_max`` of them; reading them asks ``inner`` all the same.

    The remembered state after a failed write is forgotten.
    """

    def __init__(self, inner: ObjectStore, *, bytes_max: int = _BYTES_MAX) -> None:
        super().__init__(inner)
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[bytes, Version]] = OrderedDict()
        self._kept_bytes = 0

    def recall(self, key: str) -> tuple[bytes, Version] | None:
        """As it was when it last went through here."""
        with self._lock:
            return self._kept.get(key)

    def get(self, key: str) -> tuple[bytes, Version]:
        """As the port's."""
        self._forget(key)
        data, version = super().get(key)
        self._keep(key, data, version)
        return data, version

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        self._forget(key)
        version = super().put_if_absent(key, data, crc32c=crc32c, metadata=metadata)
        self._keep(key, data, version)
        return version

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
        self._forget(key)
        version = super().compare_and_swap(key, data, expected, crc32c=crc32c, metadata=metadata)
        self._keep(key, data, version)
        return version

    def _keep(self, key: str, data: Source, version: Version) -> None:
        if not key.endswith(_SUFFIX) or not isinstance(data, bytes):
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = data, version
            self._kept_bytes += len(data)
            while self._kept_bytes > self._bytes_max:
                self._drop(next(iter(self._kept)))

    def _forget(self, key: str) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: str) -> None:
        if key in self._kept:
            self._kept_bytes -= len(self._kept.pop(key)[0])
