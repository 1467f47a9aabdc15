"""Records each erasure of an archive, with author and time: one document for each, under ``audit/``.

It never holds what it tells of: keys stand there as SHA-256 of a salt and the key, a predicate as the SHA-256 of its text.
It is written before anything is erased, and once more in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from crc32c import crc32c
from msgspec import Struct, field
from msgspec.structs import replace

from stratalog.tier.documents.json import parse_json
from stratalog.tier.documents.keys import AUDIT_PREFIX, audit_key
from stratalog.tier.documents.unknown_fields import canonical_json
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import ObjectStore, Version
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import Uuid, uuid_text

__all__ = ["ErasedRange", "ErasureAudit", "begin_audit", "end_audit", "hashed", "read_audit", "replaced_objects"]

_FORMAT: Final = "stratalog-erasure"
_VERSION: Final = 1


class ErasedRange(Struct, frozen=True):
    """The offsets ``[base, end)``, from which ``records`` were erased: the objects ``old`` became ``new``."""

    partition: int
    base: int
    end: int
    records: int
    old: tuple[str, ...]
    new: str


class ErasureAudit(Struct, frozen=True):
    """One erasure. ``state`` is begun, done or partial; one that stays begun was killed or failed, and may have erased some.

    ``keys`` and ``where`` are hashes (`hashed`), times are ms since 1970, ``held_by`` are cuts that keep old objects.
    """

    uuid: Uuid
    topic: str
    topic_id: Uuid
    started_ms: int
    by: str
    salt: bytes
    keys: tuple[str, ...] = ()
    where: str = ""
    note: str = ""
    state: str = "begun"
    ended_ms: int = -1
    ranges: tuple[ErasedRange, ...] = field(default=())
    held_by: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Where it is kept."""
        return audit_key(self.started_ms, self.uuid)


def hashed(salt: bytes, what: bytes) -> str:
    """How a key or the text of a predicate stands in the document: who knows it can find it, others cannot read it."""
    return hashlib.sha256(salt + what).hexdigest()


def begin_audit(store: ObjectStore, audit: ErasureAudit) -> Version:
    """Write it. Raises what the store raises."""
    data = _to_bytes(audit)
    return store.put_if_absent(audit.key, data, crc32c=crc32c(data))


def end_audit(
    store: ObjectStore,
    audit: ErasureAudit,
    version: Version,
    ranges: Sequence[ErasedRange],
    *,
    ended_ms: int,
    whole: bool,
    held_by: Sequence[str],
) -> ErasureAudit:
    """Write what has become of it in the place of what was begun. Raises what the store raises."""
    ended = replace(
        audit,
        state="done" if whole else "partial",
        ended_ms=ended_ms,
        ranges=tuple(ranges),
        held_by=tuple(held_by),
    )
    data = _to_bytes(ended)
    store.compare_and_swap(audit.key, data, version, crc32c=crc32c(data))
    return ended


def read_audit(store: ObjectStore, key: str) -> dict[str, Any]:
    """The fields of a document. Raises `NotFound`, and `Corrupt` for one that is none."""
    return get_checked(store, key, partial(_fields, key))[0]


def _fields(key: str, data: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = parse_json(data, key)
        if fields["format"] != _FORMAT or fields["min_reader_version"] > _VERSION:
            raise Corrupt(f"{key} is of format {fields['format']!r}, which is not read here")
    except (TypeError, LookupError) as error:
        raise Corrupt(f"{key} is no record of an erasure: {error!r}") from error
    return fields


def replaced_objects(store: ObjectStore) -> dict[str, str]:
    """The keys of objects that erasures have replaced, and of what took their place, as far as erasures came to their end.

    Raises `Corrupt` for a document that is none, and what the store raises.
    """
    found: dict[str, str] = {}
    for info in store.list(AUDIT_PREFIX):
        for one in read_audit(store, info.key)["ranges"]:
            found |= dict.fromkeys(one["old"], one["new"])
    return found


def _to_bytes(audit: ErasureAudit) -> bytes:
    fields = {
        "format": _FORMAT,
        "version": _VERSION,
        "min_reader_version": 1,
        "uuid": uuid_text(audit.uuid),
        "state": audit.state,
        "topic": audit.topic,
        "topic_id": uuid_text(audit.topic_id),
        "started_ts": audit.started_ms,
        "ended_ts": audit.ended_ms,
        "by": audit.by,
        "note": audit.note,
        "salt": audit.salt.hex(),
        "keys_sha256": list(audit.keys),
        "where_sha256": audit.where,
        "records": sum(one.records for one in audit.ranges),
        "ranges": [
            {
                "partition": one.partition,
                "base": one.base,
                "end": one.end,
                "records": one.records,
                "old": list(one.old),
                "new": one.new,
            }
            for one in audit.ranges
        ],
        "held_by": list(audit.held_by),
    }
    return canonical_json(fields).encode("ascii")
