"""Finds out how the manifest of one partition can be made right again, without changing anything.

An object that a manifest or one of its history copies named is trusted, if the store still has it with its length. Where that
leaves a hole, and where there is no manifest at all, other objects are taken by what their own footers say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from crc32c import crc32c
from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.bucket.erasure_audit import replaced_objects
from stratalog.tier.bucket.walk import PartitionFolder
from stratalog.tier.care.repair_pins import missing_pins
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.care.verify_partition import VerifyOptions, verify_partition
from stratalog.tier.documents.json import decompressed
from stratalog.tier.documents.keys import HistoryKey, PageKey, PartitionId, SegmentKey, parse_key
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.entry_chain import Chain, choose_chain, joined_ranges, without_abandoned
from stratalog.tier.manifests.json import NewerManifest, from_bytes, predecessor_hash
from stratalog.tier.manifests.loose_manifest import LooseManifest, page_entries, read_loosely
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import NOBODY, Claimant, HistoryRef, Pin
from stratalog.tier.manifests.protected_keys import protected_keys
from stratalog.tier.objects.segment_blobs import epochs_from_bytes
from stratalog.tier.objects.segment_reader import read_blob, read_object_footer
from stratalog.tier.stores.checked_read import get_checked, read_checked
from stratalog.tier.stores.store import NotFound, ObjectInfo, ObjectStore, Version
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["RepairPlan", "entry_of_object", "plan_repair"]

_MENDED: Final = frozenset(
    {
        AnomalyKind.MISSING_MANIFEST,
        AnomalyKind.MISSING_PAGE,
        AnomalyKind.MISSING_OBJECT,
        AnomalyKind.BROKEN_HISTORY,
        AnomalyKind.WRONG_BOUNDS,
        AnomalyKind.OFFSET_GAP,
        AnomalyKind.OFFSET_OVERLAP,
        AnomalyKind.WRONG_LENGTH,
        AnomalyKind.WRONG_CRC,
        AnomalyKind.ENTRY_DIFFERS,
        AnomalyKind.BROKEN_BATCHES,
        AnomalyKind.UNREADABLE_INDEX,
    }
)
"""Damage that another manifest can mend. Orphans and foreign keys do no harm; epochs out of order need a person."""
_OF_OBJECTS: Final = frozenset(
    {
        AnomalyKind.WRONG_LENGTH,
        AnomalyKind.WRONG_CRC,
        AnomalyKind.ENTRY_DIFFERS,
        AnomalyKind.BROKEN_BATCHES,
        AnomalyKind.UNREADABLE_INDEX,
        AnomalyKind.FOREIGN_KEY,
    }
)
_PIECE_BYTES: Final = 4 * 1024 * 1024
_INCARNATION: Final = re.compile(rb'"incarnation":(\d{1,18})[,}]')
_EPOCH: Final = re.compile(rb'"leader_epoch":(\d{1,9})[,}]')
_SEQ: Final = re.compile(rb'"seq":(\d{1,15})[,}]')


class _Evidence(NamedTuple):
    """The start of a rebuilt manifest: a manifest, the entries it named, and a description of it."""

    manifest: Manifest
    entries: tuple[Entry, ...]
    words: str
    current: bool
    link: HistoryRef | None = None
    """The copy that it is, if it is one."""


class RepairPlan(Struct, frozen=True):
    """The repair of one partition.

    ``base`` is the manifest that the new one follows; ``chain.entries`` are the new one's entries, ``added`` those that
    no manifest named. ``lost`` are ranges ``[start, end)`` that readers have today, or had, and would not have
    afterwards; where the manifest is lost, also those of objects behind a hole. ``pages`` are all that lie there, ``link`` is the copy that ``base`` is, if it is not
    the ``current`` manifest. ``pins`` are those of cuts that ``base`` lacks. ``shown`` is the highest claim that what
    is left speaks of, ``claim_seen`` what a manifest that cannot be read says of its claim. ``version`` and ``raw`` are what the store held.
    """

    partition: PartitionId
    source: str
    anomalies: tuple[Anomaly, ...]
    base: Manifest
    chain: Chain
    added: tuple[Entry, ...]
    dropped: tuple[Entry, ...]
    lost: tuple[tuple[int, int], ...]
    readable_lost: bool
    pages: tuple[ObjectInfo, ...]
    link: HistoryRef | None
    pins: tuple[Pin, ...]
    current: bool
    shown: Claimant
    claim_seen: Claimant | None
    version: Version
    raw: bytes


def plan_repair(
    store: ObjectStore,
    folder: PartitionFolder,
    name: str,
    options: VerifyOptions,
    *,
    readers: Executor,
    incarnation: int = 0,
) -> RepairPlan | None:
    """How to mend a partition; None if nothing is wrong that a repair can mend.

    ``incarnation`` is that of the cluster, for a manifest that is wholly lost. Raises what `verify_partition`
    raises.
    """
    report = verify_partition(store, folder, name, options, readers=readers)
    anomalies = tuple(one for one in report.anomalies if one.kind in _MENDED)
    if not anomalies:
        return None
    return _Planner(store, folder, name, incarnation, readers).plan(anomalies)


class _Planner:
    """The look at one partition."""

    def __init__(
        self, store: ObjectStore, folder: PartitionFolder, name: str, incarnation: int, readers: Executor
    ) -> None:
        self._store = store
        self._folder = folder
        self._name = name
        self._incarnation = incarnation
        self._readers = readers

    def plan(self, anomalies: tuple[Anomaly, ...]) -> RepairPlan:
        """Gather evidence, choose the entries, compare with what was."""
        loose = read_loosely(self._store, self._folder.identity(self._name))
        listed: dict[str, ObjectInfo] = {}
        copies: list[str] = []
        pages: list[ObjectInfo] = []
        for info in self._store.list(self._folder.prefix):
            key = _parsed(info.key)
            if isinstance(key, SegmentKey):
                listed[info.key] = info
            elif isinstance(key, HistoryKey):
                copies.append(info.key)
            elif isinstance(key, PageKey):
                pages.append(info)
        evidence = self._evidence(loose, copies)
        self._ask_for_unlisted(evidence, listed)
        if not evidence.current:
            # A copy may be older than an erasure, and its objects lie there until the trash would have been emptied.
            replaced = replaced_objects(self._store)
            listed = {key: info for key, info in listed.items() if replaced.get(key) not in listed}
        suspect = {one.key for one in anomalies if one.kind in _OF_OBJECTS}
        sound, mended = self._sound(evidence, listed, suspect)
        chain, others = self._choose(evidence, sound, listed, suspect)
        shown = self._shown(evidence, listed)
        base = self._base(evidence, chain, shown, loose)
        named = {entry.key for entry in evidence.entries}
        taken = {entry.uuid for entry in chain.entries}
        readable = [entry for entry in sound if entry.uuid not in taken and entry.end > base.log_start_offset]
        lost, behind = _uncovered(evidence, chain), () if evidence.current else chain.behind
        lost += joined_ranges(behind)
        return RepairPlan(
            partition=base.partition,
            source=evidence.words,
            anomalies=anomalies,
            base=base,
            chain=chain,
            added=tuple(entry for entry in chain.entries if entry.key not in named or entry.uuid in mended),
            dropped=tuple(
                entry
                for entry in (*evidence.entries, *others)
                if entry.uuid not in taken and entry.key in listed and entry.end > base.log_start_offset
            ),
            lost=lost,
            readable_lost=bool(behind) or any(_within(entry, lost) for entry in readable),
            pages=tuple(pages),
            link=evidence.link,
            pins=() if evidence.current else missing_pins(self._store, base),  # that reads every cut of the bucket
            current=evidence.current,
            shown=shown,
            claim_seen=_claim_in(loose.raw) if loose.manifest is None and loose.raw else None,
            version=loose.version,
            raw=loose.raw,
        )

    # -- evidence -----------------------------------------------------------------------------------------------------

    def _evidence(self, loose: LooseManifest, copies: Sequence[str]) -> _Evidence:
        """The manifest, else its newest copy that can be read, else nothing."""
        if loose.manifest is not None:
            return _Evidence(loose.manifest, self._entries(loose.manifest), "the manifest itself", current=True)
        for key in sorted(copies, reverse=True):
            try:
                (raw, copy), _ = get_checked(self._store, key, partial(_copy, key))
            except (Corrupt, NotFound, NewerManifest):
                continue
            if copy.partition.prefix == self._folder.prefix:
                words = f"the copy of manifest {copy.seq} and the objects"
                link = HistoryRef(copy.seq, key, predecessor_hash(raw))
                return _Evidence(copy, self._entries(copy), words, current=False, link=link)
        empty = Manifest(self._folder.identity(self._name))
        return _Evidence(empty, (), "the objects alone", current=False)

    def _ask_for_unlisted(self, evidence: _Evidence, listed: dict[str, ObjectInfo]) -> None:
        """Take in what is named and there, although the listing does not show it yet: a listing may lag behind."""
        keys = [entry.key for entry in evidence.entries if entry.key not in listed]
        listed.update((info.key, info) for info in self._readers.map(self._head, keys) if info is not None)

    def _head(self, key: str) -> ObjectInfo | None:
        try:
            return self._store.head(key)
        except NotFound:
            return None

    def _entries(self, manifest: Manifest) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        for ref in manifest.pages:
            try:
                entries += page_entries(self._store, manifest, ref)
            except (NotFound, Corrupt):
                continue  # its objects are found by their keys
        return (*entries, *manifest.entries)

    def _sound(
        self, evidence: _Evidence, listed: dict[str, ObjectInfo], suspect: set[str]
    ) -> tuple[list[Entry], set[Uuid]]:
        """The named entries whose objects are there and right, and the uuids of those taken from the footer anew."""
        sound: list[Entry] = []
        mended: set[Uuid] = set()
        seen: set[Uuid] = set()
        for entry in evidence.entries:
            info = listed.get(entry.key)
            if info is None or entry.uuid in seen:
                continue
            seen.add(entry.uuid)
            if entry.key not in suspect and info.size_bytes == entry.size_bytes:
                sound.append(entry)
                continue
            anew = self._from_footer(entry.key, info.size_bytes)
            if anew is not None and not verify_object_bytes(self._store, evidence.manifest.partition, anew):
                sound.append(anew)
                mended.add(anew.uuid)
        return sound, mended

    # -- choosing -----------------------------------------------------------------------------------------------------

    def _choose(
        self, evidence: _Evidence, sound: Sequence[Entry], listed: dict[str, ObjectInfo], suspect: set[str]
    ) -> tuple[Chain, tuple[Entry, ...]]:
        """The chain of what is sound; where it has holes or no end, other objects fill it, but none from the trash."""
        trusted = {entry.uuid for entry in sound}
        end = evidence.manifest.remote_end if evidence.current else None
        chain = choose_chain(sound, trusted, end)
        if evidence.current and not chain.gaps and not _uncovered(evidence, chain):
            return chain, ()
        known = {entry.key for entry in evidence.entries} | protected_keys(self._store, evidence.manifest).keys
        first = evidence.manifest.log_start_offset if evidence.manifest.seq else 0
        keys = []
        for key, info in listed.items():
            parsed = _parsed(key)
            if key in known or key in suspect or not isinstance(parsed, SegmentKey) or parsed.end <= first:
                continue
            if end is None or parsed.base < end:
                keys.append((key, info.size_bytes))
        read = self._readers.map(lambda item: self._from_footer(*item), keys)
        others = tuple(entry for entry in read if entry is not None)
        found = [*sound, *others]
        # The history that a copy tells of may have been left since, by a way back to a cut.
        return choose_chain(found if evidence.current else without_abandoned(found), trusted, end), others

    def _from_footer(self, key: str, size_bytes: int) -> Entry | None:
        """The entry of an object by its own footer; None if it cannot be trusted."""
        try:
            return entry_of_object(self._store, self._folder, key, size_bytes)
        except (Corrupt, NotFound):
            return None

    # -- the manifest to follow ---------------------------------------------------------------------------------------

    def _shown(self, evidence: _Evidence, listed: Iterable[str]) -> Claimant:
        """The evidence's claim, or where an object was uploaded under a higher epoch, that of a leader without a name."""
        held = evidence.manifest.claimant
        if evidence.current:
            return held
        keys = [key for key in map(_parsed, listed) if isinstance(key, SegmentKey)]
        epoch = max((key.epoch for key in keys), default=-1)
        known = held if held != NOBODY else Claimant(self._incarnation, -1, ZERO_UUID)
        return known if epoch <= known.leader_epoch else Claimant(known.incarnation, epoch, ZERO_UUID)

    def _base(self, evidence: _Evidence, chain: Chain, shown: Claimant, loose: LooseManifest) -> Manifest:
        """The evidence's manifest with a number and epochs that nothing seen in the bucket is above.

        The claim of a leader whose mark is not known is not made up, as it would fence that leader if it lives. Below it
        stands one that fences all before it; the leader claims again.
        """
        base = evidence.manifest
        if evidence.current:
            return base
        seq = max(base.seq, _number_in(_SEQ, loose.raw, 0))
        below = Claimant(shown.incarnation, max(shown.leader_epoch - 1, -1), ZERO_UUID)
        claimant = shown if shown == base.claimant else max(base.claimant, below)
        if base.seq or not chain.entries:
            return replace(base, seq=seq, claimant=claimant)
        last = chain.entries[-1]
        footer = read_object_footer(self._store, last.key)
        told = epochs_from_bytes(read_blob(self._store, last.key, footer, "leader_epochs"))
        known: dict[int, LeaderEpoch] = {}
        for each in (*told, *(one for entry in chain.entries for one in entry.epochs)):
            known[each.epoch] = min(each, known.get(each.epoch, each))
        return replace(
            base,
            partition=footer.partition,
            cluster_id=footer.cluster_id,
            seq=seq,
            claimant=claimant,
            log_start_offset=chain.entries[0].base,
            leader_epochs=tuple(known[epoch] for epoch in sorted(known)),
        )


def entry_of_object(store: ObjectStore, folder: PartitionFolder, key: str, size_bytes: int) -> Entry:
    """The entry that a manifest would hold of an object, from its footer.

    The CRC-32C of the whole is the store's, or is computed by reading the object until it comes twice. Raises `Corrupt` for an object that is
    damaged or says that it is another one, and what the store raises.
    """
    footer = read_object_footer(store, key)
    entry, parsed = footer.entry, _parsed(key)
    if (
        footer.partition.prefix != folder.prefix
        or not isinstance(parsed, SegmentKey)
        or (entry.uuid, entry.base, entry.end) != (parsed.uuid, parsed.base, parsed.end)
    ):
        raise Corrupt(f"{key} says that it holds offsets [{entry.base}, {entry.end}) of {footer.partition}")
    crc = store.head(key).crc32c
    if crc is None:
        crc = read_checked(partial(_crc_read_twice, store, key, size_bytes))
    return replace(entry, key=key, size_bytes=size_bytes, crc32c=crc)


def _crc_read_twice(store: ObjectStore, key: str, size_bytes: int) -> int:
    """A checksum that two readings agree upon: no other checksum covers the whole, and the manifest will hold it for good."""
    found = {_crc_of(store, key, size_bytes) for _ in range(2)}
    if len(found) > 1:
        raise Corrupt(f"{key} was read twice, with other bytes each time: look for a fault on the way from the store")
    return found.pop()


def _crc_of(store: ObjectStore, key: str, size_bytes: int) -> int:
    crc = 0
    for position in range(0, size_bytes, _PIECE_BYTES):
        crc = crc32c(store.get_range(key, position, min(_PIECE_BYTES, size_bytes - position)), crc)
    return crc


def _uncovered(evidence: _Evidence, chain: Chain) -> tuple[tuple[int, int], ...]:
    """Ranges between log start and remote end of the evidence that the chain does not hold."""
    manifest = evidence.manifest
    start, end = manifest.log_start_offset, manifest.remote_end
    if start >= end or not evidence.entries:
        return ()
    if not chain.entries:
        return ((start, end),)
    first, last = chain.entries[0].base, chain.entries[-1].end
    return tuple((a, b) for a, b in ((start, min(first, end)), (max(last, start), end)) if a < b)


def _within(entry: Entry, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(entry.base < end and entry.end > start for start, end in ranges)


def _claim_in(raw: bytes) -> Claimant | None:
    """The claim that a damaged manifest seems to carry."""
    incarnation, epoch = _number_in(_INCARNATION, raw, -1), _number_in(_EPOCH, raw, -1)
    return None if incarnation < 0 else Claimant(incarnation, epoch, bytes(16))


def _number_in(pattern: re.Pattern[bytes], raw: bytes, default: int) -> int:
    match = pattern.search(raw)
    return default if match is None else int(match[1])


def _parsed(key: str) -> object:
    try:
        return parse_key(key)
    except Invalid:
        return None


def _copy(key: str, data: bytes) -> tuple[bytes, Manifest]:
    raw = decompressed(data, key)
    return raw, from_bytes(raw, key, contiguous=False)
