"""Leases of readers: small documents under ``leases/`` that keep what a reader may still need from being removed.

A reader writes its lease *before* it reads a manifest, so that whatever leaves the live entries afterwards is younger
than the lease (rule 9 of ``docs/safety.md``). Renewing keeps the time of creation, and an expired lease is never
renewed: what it held may be gone. A lease protects nothing but the trash; a reader needs no right to write anywhere
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from crc32c import crc32c
from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.documents.json import parse_json
from stratalog.tier.documents.keys import LEASES_PREFIX, lease_key
from stratalog.tier.documents.unknown_fields import (
    UnknownFields,
    canonical_json,
    integer,
    keep_unknown,
    restore_unknown,
    text,
)
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import InvalidKey, NotFound, ObjectStore, PreconditionFailed
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import Uuid, uuid_parse, uuid_text

__all__ = [
    "LEASE_MS_MAX",
    "SKEW_MS",
    "Lease",
    "LeaseExpired",
    "end_lease",
    "expire_lease",
    "finish_part",
    "is_over",
    "list_leases",
    "protects",
    "renew_lease",
    "renewed",
    "write_lease",
]

SKEW_MS: Final = 15 * 60 * 1000
"""How far the clocks of readers and brokers may lie apart."""
LEASE_MS_MAX: Final = 7 * 24 * 3600 * 1000
"""The longest lease at a time; a longer reader renews."""

_FORMAT: Final = "stratalog-lease"
_VERSION: Final = 1
_KNOWN: Final = frozenset(
    {"format", "version", "min_reader_version", "uuid", "created_ts", "expires_ts", "holder", "done"}
)
_RACES_MAX: Final = 16


class LeaseExpired(Invalid):
    """The lease ran out before it was renewed: what it protected may be gone. Plan the read again."""


class Lease(Struct, frozen=True):
    """One reader's word that it may still read what was live at ``created_ms``, until ``expires_ms``.

    ``holder`` is for people. Times are by the reader's clock.
    """

    uuid: Uuid
    created_ms: int
    expires_ms: int
    holder: str = ""
    unknown: UnknownFields = ()
    done: frozenset[int] = frozenset()
    """The numbers of the parts that were read, where the holder reads in several, see `finish_part`."""

    @property
    def key(self) -> str:
        """Where it is kept."""
        return lease_key(self.uuid)


def protects(lease: Lease, since_ms: int, now_ms: int) -> bool:
    """Whether ``lease`` holds what went to the trash at ``since_ms``: clocks may differ by 15 minutes either way."""
    return lease.created_ms <= since_ms + SKEW_MS and now_ms <= lease.expires_ms + SKEW_MS


def is_over(lease: Lease, now_ms: int) -> bool:
    """Whether ``lease`` protects nothing any more, by any clock within the skew; its document may go."""
    return now_ms > lease.expires_ms + SKEW_MS


def renewed(lease: Lease, duration_ms: int, now_ms: int) -> Lease:
    """``lease`` with its end moved to ``duration_ms`` from now, never back; its creation stays.

    Raises `LeaseExpired` if it has run out, `Invalid` for a duration above seven days.
    """
    if now_ms >= lease.expires_ms:
        raise LeaseExpired(
            f"lease {uuid_text(lease.uuid)} expired {now_ms - lease.expires_ms} ms ago and is not renewed: plan the "
            "read again"
        )
    _check_duration(duration_ms)
    return replace(lease, expires_ms=max(lease.expires_ms, now_ms + duration_ms))


def write_lease(store: ObjectStore, uuid: Uuid, duration_ms: int, now_ms: int, holder: str = "") -> Lease:
    """Write a new lease; only then may its holder read a manifest. Raises what the store raises, and `Invalid`."""
    _check_duration(duration_ms)
    lease = Lease(uuid, now_ms, now_ms + duration_ms, holder)
    _put(store, lease)
    return lease


def renew_lease(store: ObjectStore, uuid: Uuid, duration_ms: int, now_ms: int, *, left_ms: int | None = None) -> Lease:
    """Renew the lease that the store holds, unless more than ``left_ms`` of it is left.

    Raises `LeaseExpired` if it has run out or is gone, and what the store raises.
    """
    key = lease_key(uuid)
    try:
        lease, _ = get_checked(store, key, partial(from_bytes, key=key))
    except NotFound as error:
        raise LeaseExpired(f"{key} is gone: the lease was ended or has expired. Plan the read again") from error
    if left_ms is not None and lease.expires_ms - now_ms > left_ms:
        return lease
    changed = renewed(lease, duration_ms, now_ms)
    if changed != lease:
        _put(store, changed)
    return changed


def end_lease(store: ObjectStore, uuid: Uuid) -> None:
    """Remove a lease; one that is gone counts as ended."""
    store.delete_many([lease_key(uuid)])


def expire_lease(store: ObjectStore, uuid: Uuid, now_ms: int) -> None:
    """Let a lease run out now, for a holder that may not remove it. Raises what the store raises, and `Corrupt`."""
    key = lease_key(uuid)
    try:
        lease = from_bytes(store.get(key)[0], key)
    except NotFound:
        return
    if lease.expires_ms > now_ms:
        _put(store, replace(lease, expires_ms=now_ms))


def finish_part(store: ObjectStore, uuid: Uuid, part: int, part_count: int) -> bool:
    """Note that part number ``part`` of what a lease was taken for is read; true if that was the last one of them.

    A part may be noted twice. One that loses 16 races in a row is not noted, and a renewal may forget one: such a lease
    is not ended early and runs out. Raises what the store raises, and `Corrupt`.
    """
    key = lease_key(uuid)
    for _ in range(_RACES_MAX if part_count > 1 else 0):
        try:
            raw, version = store.get(key)
        except NotFound:
            return False
        lease = from_bytes(raw, key)
        done = lease.done | {part}
        if len(done) >= part_count:
            return True
        if done == lease.done:
            return False
        data = to_bytes(replace(lease, done=done))
        try:
            store.compare_and_swap(key, data, version, crc32c=crc32c(data))
        except PreconditionFailed:
            continue
        return False
    return part_count == 1


def list_leases(store: ObjectStore) -> list[Lease]:
    """All leases, also expired ones.

    One that cannot be read is taken for the longest that could have been written when its document was: it protects
    everything until then. One that is removed meanwhile was ended.
    """
    leases = []
    for info in store.list(LEASES_PREFIX):
        try:
            leases.append(get_checked(store, info.key, partial(from_bytes, key=info.key))[0])
        except NotFound:
            continue
        except (Corrupt, InvalidKey):
            until_ms = info.modified_ms + LEASE_MS_MAX
            leases.append(Lease(_uuid_of(info.key), -1, until_ms, f"{info.key} cannot be read"))
    return leases


def to_bytes(lease: Lease) -> bytes:
    """The document."""
    fields: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "min_reader_version": 1,
        "uuid": uuid_text(lease.uuid),
        "created_ts": lease.created_ms,
        "expires_ts": lease.expires_ms,
        "holder": lease.holder,
        **({"done": sorted(lease.done)} if lease.done else {}),
    }
    return canonical_json(restore_unknown(fields, lease.unknown)).encode("ascii")


def from_bytes(data: bytes, key: str) -> Lease:
    """The inverse of :func:`to_bytes`; raises `Corrupt`, also for a document of a newer version. ``key`` for words."""
    try:
        fields: Mapping[str, Any] = parse_json(data, key)
        if fields["format"] != _FORMAT or integer(fields, "min_reader_version", 1) > _VERSION:
            raise Corrupt(f"format {fields['format']!r} is not that of a lease, or newer than this release: update it")
        return Lease(
            uuid_parse(text(fields, "uuid")),
            integer(fields, "created_ts"),
            integer(fields, "expires_ts"),
            text(fields, "holder", ""),
            keep_unknown(fields, _KNOWN),
            frozenset(int(part) for part in fields.get("done", ())),
        )
    except (Corrupt, Invalid, ValueError, TypeError, LookupError, AttributeError) as error:
        raise Corrupt(f"the lease {key} cannot be read: {error!r}. It expires by its age") from error


def _put(store: ObjectStore, lease: Lease) -> None:
    data = to_bytes(lease)
    store.put(lease.key, data, crc32c=crc32c(data))


def _check_duration(duration_ms: int) -> None:
    if not 0 < duration_ms <= LEASE_MS_MAX:
        raise Invalid(f"a lease of {duration_ms} ms is not written: 1 to {LEASE_MS_MAX} ms, and longer ones by renewal")


def _uuid_of(key: str) -> Uuid:
    try:
        return uuid_parse(key.removeprefix(LEASES_PREFIX).removesuffix(".json"))
    except Invalid:
        return bytes(16)
