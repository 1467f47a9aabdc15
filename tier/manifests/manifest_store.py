"""The manifest in its store: read, change by compare-and-swap, recognise one's own change after a lost reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from crc32c import crc32c
from msgspec import Struct
from msgspec.structs import replace

import stratalog
from stratalog.tier.documents.json import DOCUMENT_BYTES_MAX
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.json import from_bytes, predecessor_hash, to_bytes
from stratalog.tier.manifests.manifest import COPY, LOG_START, REPAIR, REWIND, Manifest, ManifestFull
from stratalog.tier.manifests.runs import RUN_KINDS
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.remembering_store import recall
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore, PreconditionFailed, Version
from stratalog.wire.errors import Corrupt, Retriable, StratalogError

__all__ = [
    "ManifestContended",
    "Preparation",
    "StoredManifest",
    "Transition",
    "change_manifest",
    "check_size",
    "read_manifest",
    "writer_version",
]

_ATTEMPTS: Final = 16
_BYTES_MAX: Final = DOCUMENT_BYTES_MAX
_BYTES_MAX_OF_NEED: Final = DOCUMENT_BYTES_MAX * 15 // 16
_BYTES_MAX_OF_GROWTH: Final = DOCUMENT_BYTES_MAX * 3 // 4
"""Some is left for what empties the trash, and for the claim of the leader that does, and for what cannot wait for that."""
_RELIEF: Final = frozenset(
    {
        *("claim", "takeover", "date trash", "empty trash", "end job", "unpin", "delete", "deleted", "begin again"),
        *(f"{verb} {kind}" for verb in ("renew", "end") for kind in RUN_KINDS),
    }
)
"""Kinds of changes that add nothing that lasts, or take away."""
_NEED: Final = frozenset({COPY, LOG_START, REPAIR, REWIND})
"""Retention, and what a cluster needs before it can empty the trash of an archive that is damaged, or is restored."""

Transition: TypeAlias = Callable[[Manifest], Manifest]
"""A change bound to its arguments: applied again to whatever manifest is found after a lost race."""


class ManifestContended(Retriable):
    """Other writers won every round of the compare-and-swap: try again later."""


class StoredManifest(Struct, frozen=True):
    """A manifest as the store held it. ``version`` is empty and ``raw`` too for a partition that has none yet."""

    manifest: Manifest
    version: Version
    raw: bytes


Preparation: TypeAlias = Callable[[StoredManifest, Manifest], Manifest]
"""Given a manifest as stored and its successor: writes the objects that the final successor names, and returns it."""


def writer_version() -> str:
    """The mark that signs our objects and manifests."""
    return f"stratalog {stratalog.__version__}"


def read_manifest(store: ObjectStore, partition: PartitionId) -> StoredManifest:
    """The partition's manifest, or the empty one if there is none.

    Raises `Corrupt` for a damaged one or one of another partition, and what the store raises.
    """
    key = partition.manifest_key
    try:
        manifest_of, version = get_checked(store, key, lambda raw: (_checked(partition, raw), raw))
    except NotFound:
        return StoredManifest(Manifest(partition), "", b"")
    manifest, raw = manifest_of
    return StoredManifest(manifest, version, raw)


def _checked(partition: PartitionId, raw: bytes) -> Manifest:
    key = partition.manifest_key
    manifest = from_bytes(raw, key)
    if manifest.partition != partition:
        raise Corrupt(f"the manifest {key} says that it belongs to {manifest.partition}, not to {partition}")
    return manifest


def change_manifest(
    store: ObjectStore, partition: PartitionId, transition: Transition, prepare: Preparation | None = None
) -> StoredManifest:
    """Read, apply ``transition``, replace by compare-and-swap; after a lost race read again and apply it again.

    Where the store remembers the manifest (`tier.stores.remembering_store`), that one is tried first: the swap tells whether
    it still is the one. A transition that refuses it, or finds nothing to do, is asked again about what is stored.

    ``prepare`` comes between the two last: what it writes is garbage after a lost race (rule 5).

    A refused swap may be our own earlier one whose reply was lost: the transition then finds its mark (claim uuid,
    entry uuids) in what is read back and has nothing to do. Raises what the transition
    raises, `ManifestFull`, and `ManifestContended` after 16 lost races. If the store fails in the middle, the change may or
    may not have been made: call again.
    """
    tried = _from_memory(store, partition, transition)
    for _ in range(_ATTEMPTS):
        if tried is not None:
            (stored, changed), tried = tried, None
        else:
            stored = read_manifest(store, partition)
            changed = transition(stored.manifest)
            if changed is stored.manifest:
                return stored
        prev = predecessor_hash(stored.raw) if stored.raw else ""
        if prepare is not None:
            changed = prepare(stored, changed)
        successor = replace(changed, prev_sha256=prev, writer=writer_version())
        raw = to_bytes(successor)
        check_size(successor, raw)
        try:
            version = _swap(store, partition.manifest_key, raw, stored.version)
        except (AlreadyExists, PreconditionFailed):
            continue
        return StoredManifest(successor, version, raw)
    raise ManifestContended(
        f"{partition}: the manifest was changed by others {_ATTEMPTS} times while this change was tried: try again"
    )


def check_size(manifest: Manifest, raw: bytes) -> None:
    """Raise `ManifestFull` for a manifest, as ``raw`` bytes, that no reader would take, or that leaves no room for relief."""
    kind = manifest.commits[-1].kind if manifest.commits else ""
    limit = _BYTES_MAX if kind in _RELIEF else _BYTES_MAX_OF_NEED if kind in _NEED else _BYTES_MAX_OF_GROWTH
    if len(raw) > limit:
        raise ManifestFull(
            f"{manifest.partition}: the manifest would have {len(raw)} bytes, {limit} are left to a change of this kind "
            f"({kind}): nothing was changed. {len(manifest.trash)} objects wait in its trash for readers, for the grace, and for "
            "cuts that hold them: see stratalog cut list"
        )


def _from_memory(
    store: ObjectStore, partition: PartitionId, transition: Transition
) -> tuple[StoredManifest, Manifest] | None:
    """A manifest that may be old, and what becomes of it; None if that is nothing to go on with."""
    remembered = recall(store, partition.manifest_key)
    if remembered is None or len(remembered[0]) > _BYTES_MAX_OF_GROWTH // 2:  # it may have become smaller since
        return None
    try:
        raw, version = remembered
        stored = StoredManifest(_checked(partition, raw), version, raw)
        changed = transition(stored.manifest)
    except StratalogError:
        return None
    return None if changed is stored.manifest else (stored, changed)


def _swap(store: ObjectStore, key: str, raw: bytes, version: Version) -> Version:
    if not version:
        return store.put_if_absent(key, raw, crc32c=crc32c(raw))
    return store.compare_and_swap(key, raw, version, crc32c=crc32c(raw))
