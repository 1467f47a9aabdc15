"""Reads an object again if it fails its check: bytes that were damaged on their way are right the next time.

A damaged object fails each time. Every caller that parses an object and can tell damage reads through here. So one bad answer
is never taken for the state of the archive, and no decision rests on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from stratalog.tier.documents.json import parse_json
from stratalog.tier.stores.store import ChecksumMismatch, ObjectStore, Version
from stratalog.wire.errors import Corrupt

__all__ = ["READS_MAX", "get_checked", "get_json", "read_checked"]

READS_MAX: Final = 4
"""How often an object is read. If every third answer were damaged, one object in eighty would look damaged for good."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def read_checked(read: Callable[[], T]) -> T:
    """Call ``read`` up to `READS_MAX` times while it raises `Corrupt`; raise the last error.

    `ChecksumMismatch` is raised at once: the store that raises it has read as often itself.
    """
    for _ in range(READS_MAX - 1):
        try:
            return read()
        except ChecksumMismatch:
            raise
        except Corrupt as error:
            log.info("%s; it is read once more, as it may have been damaged on its way", error)
    return read()


def get_checked(store: ObjectStore, key: str, parse: Callable[[bytes], T]) -> tuple[T, Version]:
    """The value that ``parse`` makes of an object's bytes, and the object's version.

    Raises `Corrupt` if ``parse`` raises it each time, and the store's errors.
    """

    def read() -> tuple[T, Version]:
        data, version = store.get(key)
        return parse(data), version

    return read_checked(read)


def get_json(store: ObjectStore, key: str) -> tuple[Any, Version]:
    """A small JSON document and its version. Raises `Corrupt` if `parse_json` does, and the store's errors."""
    return get_checked(store, key, lambda data: parse_json(data, key))
