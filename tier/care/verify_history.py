"""Follows the chain of copies of earlier manifests, each named and hashed by its successor."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.tier.documents.json import decompressed
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.manifests.history import is_kept
from stratalog.tier.manifests.json import from_bytes, predecessor_hash
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import HistoryRef
from stratalog.tier.stores.checked_read import read_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt

__all__ = ["check_history", "read_history_copy"]


def read_history_copy(store: ObjectStore, ref: HistoryRef) -> Manifest:
    """The manifest that ``ref`` names.

    Raises `NotFound`, `NewerManifest`, and `Corrupt` if it is not the one whose hash ``ref`` holds, or another number.
    """
    return read_checked(lambda: _read_once(store, ref))


def _read_once(store: ObjectStore, ref: HistoryRef) -> Manifest:
    raw = decompressed(store.get(ref.key)[0], ref.key)
    if predecessor_hash(raw) != ref.sha256:
        raise Corrupt(f"{ref.key} is not the copy that was made: its SHA-256 is {predecessor_hash(raw)}")
    manifest = from_bytes(raw, ref.key, contiguous=False)
    if manifest.seq != ref.seq:
        raise Corrupt(f"{ref.key} holds the manifest number {manifest.seq}, not {ref.seq}")
    return manifest


def check_history(store: ObjectStore, manifest: Manifest, *, whole: bool) -> Iterator[Anomaly]:
    """Find the damage of the chain; without ``whole`` only in its newest copy.

    It begins with the oldest copy that the manifest says is kept. A broken link ends it: what came before cannot be told
    from foreign objects.
    """
    ref, above = manifest.history, manifest.seq
    while ref is not None and is_kept(manifest, ref):
        copy = None
        fault = f"the copy of manifest {ref.seq} is named by manifest {above}, which is older"
        if ref.seq <= above:
            try:
                copy = read_history_copy(store, ref)
            except (NotFound, Corrupt) as error:
                fault = str(error)
        if copy is None:
            partition = manifest.partition
            yield Anomaly(AnomalyKind.BROKEN_HISTORY, partition.topic, partition.partition, ref.key, -1, fault)
            return
        if not whole:
            return
        above = ref.seq - 1
        ref = copy.history
