"""Committed offsets of consumer groups when a cut was made: one document beside the cut's own (``docs/format/cuts.md``).

Taken from the copies that brokers keep in the bucket, of the cut's topics only, before anything is pinned. Such a copy
is some seconds behind, and may be ahead of where the cut ends: a restore goes by the cut's ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from crc32c import crc32c
from msgspec.structs import replace

from stratalog.tier.bucket.cuts import Cut, CutState
from stratalog.tier.documents.json import LISTING_BYTES_MAX, parse_json
from stratalog.tier.documents.unknown_fields import canonical_json, integer, text
from stratalog.tier.messages.group_copy import GroupCopy, offset_fields, offset_from_fields
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import AlreadyExists, ObjectStore
from stratalog.tier.work.group_copies import read_group_copies
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["keep_groups", "read_cut_groups"]

_FORMAT: Final = "stratalog-cut-groups"
_VERSION: Final = 1


def keep_groups(store: ObjectStore, cut: Cut, on_problem: Callable[[str], object]) -> Cut:
    """Write the document; the cut that names it, or the same if no group has committed anything for its topics.

    ``on_problem`` gets each group's copy that cannot be read and is left out. Raises what the store raises.
    """
    ids = {topic.topic_id for topic in cut.topics}
    copies = [
        GroupCopy(copy.group, tuple(one for one in copy.offsets if one.topic_id in ids))
        for copy in read_group_copies(store, cut.cluster_id, on_problem)
    ]
    groups = [copy for copy in copies if copy.offsets]
    if not groups:
        return cut
    data = _to_bytes(groups)
    try:
        store.put_if_absent(cut.groups_key, data, crc32c=crc32c(data))
    except AlreadyExists:
        data = store.get(cut.groups_key)[0]  # ours, whose reply was lost
    return replace(cut, group_count=len(groups), groups_sha256=hashlib.sha256(data).hexdigest())


def read_cut_groups(store: ObjectStore, cut: Cut) -> tuple[GroupCopy, ...]:
    """The groups of a cut, none if it has none.

    Raises `Invalid` unless the cut is complete, `Corrupt` for a document that is not the one that was written.
    """
    if cut.state is not CutState.COMPLETE:
        raise Invalid(f"the cut {cut.name} is {cut.state}: it cannot be read")
    if not cut.groups_sha256:
        return ()

    def pinned(data: bytes) -> tuple[GroupCopy, ...]:
        if hashlib.sha256(data).hexdigest() != cut.groups_sha256:
            raise Corrupt(f"{cut.groups_key} is not what the cut {cut.name} was made with: its SHA-256 differs")
        return _from_bytes(data, cut.groups_key)

    return get_checked(store, cut.groups_key, pinned)[0]


def _to_bytes(groups: Iterable[GroupCopy]) -> bytes:
    rows = [
        {"group": copy.group, "offsets": [offset_fields(one) for one in sorted(copy.offsets)]}
        for copy in sorted(groups)
    ]
    return canonical_json({"format": _FORMAT, "version": _VERSION, "groups": rows}).encode("ascii")


def _from_bytes(data: bytes, key: str) -> tuple[GroupCopy, ...]:
    try:
        fields: dict[str, Any] = parse_json(data, key, limit_bytes=LISTING_BYTES_MAX)
        if (fields["format"], integer(fields, "version")) != (_FORMAT, _VERSION):
            raise Corrupt(
                f"format {fields['format']!r} version {fields['version']!r} is not known, {_FORMAT} {_VERSION} is"
            )
        return tuple(
            GroupCopy(text(each, "group"), tuple(offset_from_fields(row) for row in each["offsets"]))
            for each in fields["groups"]
        )
    except (ValueError, TypeError, LookupError, AttributeError, Corrupt, Invalid) as error:
        raise Corrupt(f"the groups of a cut {key} cannot be read: {error!r}") from error
