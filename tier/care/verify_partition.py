"""Compares the manifest of one partition with its pages and with what the store lists, and deeply with every object.

The manifest is read first and the objects are listed afterwards: what an upload under way has put there is then
extra, never missing, and is an orphan only when it is older than the grace. A finding counts if the manifest has not
changed meanwhile, or if it is found again under the changed one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.tier.bucket.walk import PartitionFolder
from stratalog.tier.care.verify_history import check_history
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.documents.keys import HistoryKey, PageKey, PartitionId, SegmentKey, TopicKey, parse_key
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.entry_walk import EntryWalk
from stratalog.tier.manifests.loose_manifest import LooseManifest, page_entries, read_loosely
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.protected_keys import ProtectedKeys, protected_keys
from stratalog.tier.stores.store import NotFound, ObjectInfo, ObjectStore
from stratalog.wire.errors import Corrupt, Invalid

__all__ = ["PartitionReport", "VerifyOptions", "verify_partition"]

_ATTEMPTS: Final = 3
_KEPT_MAX: Final = 200
"""Findings of one kind that are listed one by one for a partition; the others are counted."""
_AHEAD_MAX: Final = 16
"""Objects that may be waiting for a reading thread."""


class VerifyOptions(NamedTuple):
    """How to look. An unnamed object is an orphan if it is older than ``grace_ms`` at ``now_ms``."""

    now_ms: int
    grace_ms: int = 3_600_000
    deep: bool = False


class PartitionReport(Struct):
    """Objects checked, and findings; ``untold`` counts findings beyond those listed."""

    partition: PartitionId
    seq: int = 0
    object_count: int = 0
    size_bytes: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    untold: int = 0

    def add(self, found: Iterable[Anomaly]) -> None:
        """Take findings in, within bounds."""
        for anomaly in found:
            if sum(each.kind is anomaly.kind for each in self.anomalies) < _KEPT_MAX:
                self.anomalies.append(anomaly)
            else:
                self.untold += 1


def verify_partition(
    store: ObjectStore,
    folder: PartitionFolder,
    name: str,
    options: VerifyOptions,
    *,
    readers: Executor,
    on_object: Callable[[int], object] = lambda _: None,
) -> PartitionReport:
    """Everything that is wrong with a partition. ``readers`` read objects; ``on_object`` hears of each one's bytes.

    Raises `NewerManifest` if the manifest is of a later release, and what the store raises.
    """
    report, version = _attempt(store, folder, name, options, readers, on_object)
    for _ in range(_ATTEMPTS - 1):
        if not report.anomalies or _version(store, folder) == version:
            break
        again, version = _attempt(store, folder, name, options, readers, on_object)
        before = {anomaly.identity for anomaly in report.anomalies}
        again.anomalies = [anomaly for anomaly in again.anomalies if anomaly.identity in before]
        report = again
    return report


def _version(store: ObjectStore, folder: PartitionFolder) -> str:
    try:
        return store.head(folder.manifest_key).version
    except NotFound:
        return ""


def _attempt(
    store: ObjectStore,
    folder: PartitionFolder,
    name: str,
    options: VerifyOptions,
    readers: Executor,
    on_object: Callable[[int], object],
) -> tuple[PartitionReport, str]:
    loose = read_loosely(store, folder.identity(name))
    look = _Look(store, folder, name, options, loose)
    if loose.manifest is None:
        look.without_manifest()
    else:
        look.report.seq = loose.manifest.seq
        look.with_manifest(loose.manifest, readers, on_object)
    return look.report, loose.version


class _Look:
    """One look at one partition."""

    def __init__(
        self, store: ObjectStore, folder: PartitionFolder, name: str, options: VerifyOptions, loose: LooseManifest
    ) -> None:
        self._store = store
        self._folder = folder
        self._options = options
        self._loose = loose
        self._partition = folder.identity(name)
        self.report = PartitionReport(self._partition)
        self._unread: list[tuple[int, int]] = []
        self._side_keys: set[str] = set()

    def _found(self, kind: AnomalyKind, key: str, offset: int, detail: str) -> None:
        self.report.add([Anomaly(kind, self._partition.topic, self._partition.partition, key, offset, detail)])

    # -- without a manifest -----------------------------------------------------------------------------------------

    def without_manifest(self) -> None:
        """The manifest is missing or unreadable: that is wrong as soon as there is anything that it should name."""
        kinds = Counter(type(_parsed(info.key)) for info in self._listed())
        objects, copies = kinds[SegmentKey], kinds[HistoryKey]
        if self._loose.raw or objects or copies:
            there = f"{objects} objects and {copies} copies of it are there"
            detail = self._loose.fault or f"there is no manifest, and {there}"
            self._found(AnomalyKind.MISSING_MANIFEST, self._folder.manifest_key, -1, detail)

    # -- with one ---------------------------------------------------------------------------------------------------

    def with_manifest(self, manifest: Manifest, readers: Executor, on_object: Callable[[int], object]) -> None:
        """Entries against each other, against the listing, against the objects' bytes."""
        if manifest.partition.prefix != self._folder.prefix:
            detail = f"the manifest says that it belongs to {manifest.partition}"
            self._found(AnomalyKind.FOREIGN_KEY, self._folder.manifest_key, -1, detail)
        listed = self._listed()
        first = self._side(listed)
        protected = protected_keys(self._store, manifest)
        walk = EntryWalk(manifest)
        unnamed: dict[str, ObjectInfo] = {}
        named: set[str] = set()
        deep: deque[tuple[Entry, Future[list[Anomaly]]]] = deque()
        for entry, info in _matched(self._entries(manifest, walk), _chained(first, listed)):
            if entry is None:
                assert info is not None
                self._take_unnamed(info, unnamed)
                continue
            self.report.add(walk.add(entry))
            present = self._check_object(entry, info, named)
            self.report.object_count += 1
            self.report.size_bytes += entry.size_bytes
            if self._options.deep and present:
                deep.append((entry, readers.submit(verify_object_bytes, self._store, self._partition, entry)))
                self._drain(deep, _AHEAD_MAX, on_object)
            else:
                on_object(0)
        self._drain(deep, 0, on_object)
        self.report.add(walk.finish())
        self._check_side(manifest, protected)
        self._report_orphans(unnamed, named, protected)
        if manifest.history is not None:
            self.report.add(check_history(self._store, manifest, whole=self._options.deep))

    def _drain(
        self, deep: deque[tuple[Entry, Future[list[Anomaly]]]], left_max: int, on_object: Callable[[int], object]
    ) -> None:
        while len(deep) > left_max:
            entry, future = deep.popleft()
            self.report.add(future.result())
            on_object(entry.size_bytes)

    def _entries(self, manifest: Manifest, walk: EntryWalk) -> Iterator[Entry]:
        """Live entries of pages, then those of the manifest itself; an unreadable page is passed over."""
        for ref in manifest.pages:
            try:
                entries = page_entries(self._store, manifest, ref)
            except (NotFound, Corrupt) as error:
                self._found(AnomalyKind.MISSING_PAGE, ref.key, ref.first, str(error))
                self._unread.append((ref.first, ref.end))
                walk.skip(ref.end)
                continue
            yield from entries
        yield from manifest.entries

    def _check_object(self, entry: Entry, info: ObjectInfo | None, named: set[str]) -> bool:
        """Whether the object is there, with its length."""
        if info is None:
            named.add(entry.key)
            try:
                info = self._store.head(entry.key)
            except NotFound as error:
                self._found(AnomalyKind.MISSING_OBJECT, entry.key, entry.base, error.reason)
                return False
        if info.size_bytes != entry.size_bytes:
            detail = f"{info.size_bytes} bytes, {entry.size_bytes} were uploaded"
            self._found(AnomalyKind.WRONG_LENGTH, entry.key, entry.base, detail)
            return False
        return True

    # -- what the store lists ---------------------------------------------------------------------------------------

    def _listed(self) -> Iterator[ObjectInfo]:
        """List the partition's folder; keys that are none of the format are found and left out."""
        for info in self._store.list(self._folder.prefix):
            if _parsed(info.key) is None:
                self._found(AnomalyKind.FOREIGN_KEY, info.key, -1, "the key is none of this format")
            else:
                yield info

    def _side(self, listed: Iterator[ObjectInfo]) -> ObjectInfo | None:
        """Take the keys of pages and history, which come before those of objects; the first of these."""
        for info in listed:
            key = _parsed(info.key)
            if isinstance(key, SegmentKey):
                return info
            if isinstance(key, PageKey | HistoryKey) and self._is_old(info):
                self._side_keys.add(info.key)
        return None

    def _is_old(self, info: ObjectInfo) -> bool:
        return info.modified_ms <= self._options.now_ms - self._options.grace_ms

    def _take_unnamed(self, info: ObjectInfo, unnamed: dict[str, ObjectInfo]) -> None:
        key = _parsed(info.key)
        assert isinstance(key, SegmentKey)
        if self._is_old(info) and not any(first <= key.base < end for first, end in self._unread):
            unnamed[info.key] = info

    def _report_orphans(self, unnamed: dict[str, ObjectInfo], named: Collection[str], protected: ProtectedKeys) -> None:
        for key, info in unnamed.items():
            if key not in named and not protected.covers(key):
                parsed = _parsed(key)
                base = parsed.base if isinstance(parsed, SegmentKey) else -1
                self._found(AnomalyKind.ORPHAN_OBJECT, key, base, f"{info.size_bytes} bytes that nothing names")

    def _check_side(self, manifest: Manifest, protected: ProtectedKeys) -> None:
        """Pages that nothing names: left behind by a change that lost its race. Copies that the trash has forgotten."""
        start = manifest.history.start if manifest.history is not None else 0
        pages = {ref.key for ref in manifest.pages}
        for key in sorted(self._side_keys):
            parsed = _parsed(key)
            if (
                isinstance(parsed, PageKey)
                and key not in pages
                and not protected.covers(key)
                and parsed.seq <= manifest.seq
            ):
                self._found(AnomalyKind.ORPHAN_OBJECT, key, parsed.first, "a page that no manifest names")
            elif isinstance(parsed, HistoryKey) and parsed.seq < start and not protected.covers(key):
                self._found(AnomalyKind.ORPHAN_OBJECT, key, -1, f"a copy below number {start}, where those kept start")


def _parsed(key: str) -> TopicKey | SegmentKey | PageKey | HistoryKey | None:
    try:
        return parse_key(key)
    except Invalid:
        return None


def _chained(first: ObjectInfo | None, rest: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
    if first is not None:
        yield first
    yield from rest


def _matched(
    entries: Iterator[Entry], listed: Iterator[ObjectInfo]
) -> Iterator[tuple[Entry | None, ObjectInfo | None]]:
    """Pair entries and listed objects, both in key order; an entry out of order comes alone, as a missing one does."""
    info = next(listed, None)
    last_key = ""
    for entry in entries:
        if entry.key <= last_key:
            yield entry, None
            continue
        last_key = entry.key
        while info is not None and info.key < entry.key:
            yield None, info
            info = next(listed, None)
        if info is not None and info.key == entry.key:
            yield entry, info
            info = next(listed, None)
        else:
            yield entry, None
    while info is not None:
        yield None, info
        info = next(listed, None)
