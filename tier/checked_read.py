"""Reads again what fails its check: bytes that were damaged on their way are right the next time, a damaged object never is.

Whoever parses what a store gave, and can tell damage, reads through here. So one bad answer is never taken for the state
of the archive: no reader hears of it, and nothing is decided by it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from stratalog.tier.bucket_json import parse_json
from stratalog.tier.store import ChecksumMismatch, ObjectStore, Version
from stratalog.wire.errors import Corrupt

__all__ = ["READS_MAX", "get_checked", "get_json", "read_checked"]

READS_MAX: Final = 4
"""Where every third answer is damaged, one object in eighty looks damaged for good."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def read_checked(read: Callable[[], T]) -> T:
    """What ``read`` returns, asked up to `READS_MAX` times while it raises `Corrupt`; the last error is raised.

    `ChecksumMismatch` is passed on at once: the store that raises it has itself read as often.
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
    """An object as ``parse`` makes it of its bytes, and its version.

    Raises `Corrupt` if ``parse`` does so each time, and what the store raises.
    """

    def read() -> tuple[T, Version]:
        data, version = store.get(key)
        return parse(data), version

    return read_checked(read)


def get_json(store: ObjectStore, key: str) -> tuple[Any, Version]:
    """A small JSON document and its version. Raises `Corrupt` for what `parse_json` refuses, and what the store raises."""
    return get_checked(store, key, lambda data: parse_json(data, key))
