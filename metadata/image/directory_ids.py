"""Ids of log directories: those with a meaning of their own, and which directories of a broker are online.

Source: KIP-858, Kafka's ``DirectoryId``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from stratalog.wire.topic import Uuid

__all__ = ["LOST", "MIGRATING", "UNASSIGNED", "is_elsewhere", "is_online", "is_reserved"]

_RESERVED_COUNT: Final = 100

MIGRATING: Final[Uuid] = bytes(16)
"""The replica has a directory, which its broker has not named: it registered before directories had ids."""

UNASSIGNED: Final[Uuid] = bytes(15) + b"\x01"
"""The replica has no directory yet: its broker chooses one and reports it."""

LOST: Final[Uuid] = bytes(15) + b"\x02"
"""The replica was in a directory that is offline."""


def is_reserved(directory: Uuid) -> bool:
    """Whether no directory of a disk may have this id. The lower half is a signed number, as Kafka compares it."""
    return not any(directory[:8]) and int.from_bytes(directory[8:], signed=True) < _RESERVED_COUNT


def is_elsewhere(directory: Uuid, known: Collection[Uuid]) -> bool:
    """Whether this is the id of a directory, and of none of ``known``."""
    return directory not in known and not is_reserved(directory)


def is_online(directory: Uuid, online: Collection[Uuid]) -> bool:
    """Whether a replica in ``directory`` can be served by a broker that registered the directories ``online``.

    A broker that registered none did so before directories had ids, and counts as able to serve all of them.
    """
    if directory in online:
        return True
    if directory == LOST:
        return False
    return not online or directory in {UNASSIGNED, MIGRATING}
