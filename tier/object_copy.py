"""Copies of objects inside one store: by the store itself where it can, without the bytes travelling."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stratalog.tier.store import ObjectStore

__all__ = ["CopiesItself", "copy_object"]


@runtime_checkable
class CopiesItself(Protocol):
    """What a store has besides the port if it copies objects by itself."""

    def copy_inside(self, key: str, target_key: str) -> bool:
        """Copy the object, replacing what is there; False if it must be read and written instead.

        Raises :class:`~stratalog.tier.store.NotFound` if there is no such object.
        """


def copy_object(store: ObjectStore, key: str, target_key: str) -> None:
    """Make ``target_key`` an object of the same bytes and metadata, atomically and idempotently.

    Raises :class:`~stratalog.tier.store.NotFound` if there is no object under ``key``. A store that does not copy by
    itself is read and written: the object passes through memory once.
    """
    if isinstance(store, CopiesItself) and store.copy_inside(key, target_key):
        return
    data, _ = store.get(key)
    store.put(target_key, data, metadata=store.head(key).metadata)
