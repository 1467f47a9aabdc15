"""Counts the requests for archiving one range and for removing it again. Pure."""

from __future__ import annotations

from typing import Final

from stratalog.tier.objects.segment_upload import SINGLE_PUT_BYTES_MAX
from stratalog.tier.planning.prices import NOTHING_USED, Usage
from stratalog.tier.stores.s3.multipart import effective_part_bytes

__all__ = ["removal_usage", "upload_usage"]

_KEYS_A_DELETE: Final = 1000
_MANIFEST_CHANGES_OF_REMOVAL: Final = 3
"""Changes of a manifest for one removal: out of the live entries, dated in the trash, out of the trash."""


def upload_usage(size_bytes: int, part_bytes: int) -> Usage:
    """One range: its object, a commit, and the read-back (manifest and HEAD) before its local copy goes.

    Commits and read-backs may cover several ranges: then it is less. A store whose answers do not say what it holds is
    asked once more. Small objects are one PUT, larger ones parts.
    """
    puts = (
        1 if size_bytes <= SINGLE_PUT_BYTES_MAX else -(-size_bytes // effective_part_bytes(size_bytes, part_bytes)) + 2
    )
    return Usage(reads=2, writes=puts + 1, sent_bytes=size_bytes)


def removal_usage(object_count: int) -> Usage:
    """Objects of one partition on their way through the trash: manifest changes, a listing of leases, deletions."""
    if not object_count:
        return NOTHING_USED
    changes = _MANIFEST_CHANGES_OF_REMOVAL
    return Usage(reads=changes, writes=changes, lists=1, deletes=-(-object_count // _KEYS_A_DELETE))
