"""Pins: a cut says in every manifest what it needs, so that nothing of it leaves the trash (rule 9). Pure."""

from __future__ import annotations

from msgspec.structs import replace

from stratalog.tier.manifests.manifest import Manifest, successor
from stratalog.tier.manifests.parts import Pin
from stratalog.wire.errors import Invalid

__all__ = ["pin", "unpin"]


def pin(manifest: Manifest, pinned: Pin, *, now_ms: int) -> Manifest:
    """Add a pin; nothing to do if the cut has pinned exactly this already.

    Its ``seq`` is set here. Making a cut needs no claim: a pin changes nothing that is served. Raises `Invalid` for another pin of the
    same cut, and for one that reaches beyond the archive.
    """
    for known in manifest.pins:
        if known.cut_id == pinned.cut_id:
            if replace(known, seq=pinned.seq) == pinned:
                return manifest
            raise Invalid(f"{manifest.partition}: the cut {pinned.cut_id} has pinned something else here: {known}")
    # The log start may lie behind the remote end: then the cut is empty.
    end = max(manifest.remote_end, manifest.log_start_offset)
    if pinned.remote_end > end or pinned.log_start_offset < manifest.log_start_offset:
        raise Invalid(
            f"{manifest.partition}: the cut {pinned.cut_id} cannot pin offsets [{pinned.log_start_offset}, "
            f"{pinned.remote_end}), the archive holds [{manifest.log_start_offset}, {manifest.remote_end}): read the "
            "manifest again"
        )
    numbered = replace(pinned, seq=manifest.seq + 1)
    return successor(replace(manifest, pins=(*manifest.pins, numbered)), "pin", now_ms)


def unpin(manifest: Manifest, cut_id: str, *, now_ms: int) -> Manifest:
    """Take a cut's pin away; nothing to do if it has none."""
    kept = tuple(known for known in manifest.pins if known.cut_id != cut_id)
    return manifest if len(kept) == len(manifest.pins) else successor(replace(manifest, pins=kept), "unpin", now_ms)
