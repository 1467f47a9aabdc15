"""Which copies of earlier manifests are kept, and how the others go. Pure.

Each spill adds a copy. The newest ones are kept, without a gap: the manifest says where they start, so that a copy
that is missing from there on was lost, and one below was removed on purpose. Copies go as everything does, in two steps:
the change that moves the start puts them into the trash, in one item for all of them, and they leave the bucket after
the grace by the rules of `tier.bucket.trash`.

Only `tier.care.repair` needs a copy, and it needs the newest one that can be read: a cut has copies of its own, and who
takes an archive over reads its manifest. Those as of a cut stay all the same, because the cut may have to be mended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from stratalog.tier.documents.keys import HistoryKey, parse_key
from stratalog.tier.manifests.garbage import old_enough
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import HISTORY_KIND, HistoryRef, TrashEntry
from stratalog.tier.stores.store import ObjectInfo
from stratalog.wire.errors import Invalid

__all__ = ["HISTORY_TRIMMED", "TOGETHER_MIN", "KeptHistory", "is_kept", "trim_history"]

HISTORY_TRIMMED: Final = "history trimmed"
TOGETHER_MIN: Final = 8
"""So many copies go at a time: each time is an item of the trash."""


class KeptHistory(NamedTuple):
    """Kept are the newest ``copies_min``, and all that are younger than ``grace_ms``."""

    copies_min: int = 16
    grace_ms: int = 86_400_000


def is_kept(manifest: Manifest, ref: HistoryRef) -> bool:
    """Whether the copy ``ref``, reached from ``manifest`` through the chain, is one that has to be there."""
    return manifest.history is not None and ref.seq >= manifest.history.start


def trim_history(manifest: Manifest, listed: Sequence[ObjectInfo], kept: KeptHistory, *, now_ms: int) -> Manifest:
    """``manifest``, which is about to be stored, without the copies that need not be kept any more.

    ``listed`` are the objects below ``history/``. It stays the same change: its number was given by what else it does.
    The same manifest if too few copies would go.
    """
    history = manifest.history
    if history is None:
        return manifest
    copies = [(key.seq, info) for info in listed if (key := _parsed(info.key)) is not None and key.seq <= history.seq]
    start = _start(manifest, copies, kept, now_ms)
    gone = [(seq, info) for seq, info in copies if history.start <= seq < start]
    if len({seq for seq, _ in gone}) < TOGETHER_MIN:
        return manifest
    item = TrashEntry(
        max(info.key for _, info in gone),
        sum(info.size_bytes for _, info in gone),
        manifest.claimant.leader_epoch,
        manifest.seq,
        HISTORY_TRIMMED,
        kind=HISTORY_KIND,
    )
    return replace(manifest, history=replace(history, start=start), trash=(*manifest.trash, item))


def _start(manifest: Manifest, copies: Sequence[tuple[int, ObjectInfo]], kept: KeptHistory, now_ms: int) -> int:
    """The number of the oldest copy that is kept; 0 for all of them."""
    numbers = sorted({seq for seq, _ in copies})
    if len(numbers) <= kept.copies_min:
        return 0
    start = numbers[-kept.copies_min]
    young = [seq for seq, info in copies if not old_enough(info.modified_ms, now_ms, kept.grace_ms)]
    # The copy as of a cut is the last one that was made before it.
    as_of_cuts = [max((seq for seq in numbers if seq <= pin.seq), default=0) for pin in manifest.pins]
    return min([start, *young, *as_of_cuts])


def _parsed(key: str) -> HistoryKey | None:
    try:
        parsed = parse_key(key)
    except Invalid:
        return None
    return parsed if isinstance(parsed, HistoryKey) else None
