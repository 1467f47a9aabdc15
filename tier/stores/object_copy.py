"""Copies of objects inside one store: by the store itself where it can, without the bytes travelling."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from crc32c import crc32c

from stratalog.tier.stores.checked_read import read_checked
from stratalog.tier.stores.store import ObjectInfo, ObjectStore
from stratalog.wire.errors import Corrupt

__all__ = ["CopiesItself", "copy_object"]


@runtime_checkable
class CopiesItself(Protocol):
    """Methods of a store, besides the port, that copies objects by itself."""

    def copy_inside(self, key: str, target_key: str) -> bool:
        """Copy the object, replacing what is there; False if it must be read and written instead.

        Raises :class:`~stratalog.tier.stores.store.NotFound` if there is no such object.
        """


def copy_object(store: ObjectStore, key: str, target_key: str) -> None:
    """Make ``target_key`` an object of the same bytes and metadata, atomically and idempotently.

    Raises :class:`~stratalog.tier.stores.store.NotFound` if there is no object under ``key``. A store that does not copy by
    itself is read and written: the object passes through memory once.
    """
    if isinstance(store, CopiesItself) and store.copy_inside(key, target_key):
        return

    def read() -> tuple[bytes, ObjectInfo]:
        info, (data, _) = store.head(key), store.get(key)
        if len(data) != info.size_bytes or (info.crc32c is not None and crc32c(data) != info.crc32c):
            raise Corrupt(f"{key} was read with other bytes than the store describes: it is not copied")
        return data, info

    data, info = read_checked(read)
    store.put(target_key, data, crc32c=info.crc32c, metadata=info.metadata)
