"""The pins of cuts that a rebuilt manifest lacks: without them retention would delete what a cut holds (rule 9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from stratalog.tier.bucket.cuts import CutState
from stratalog.tier.documents.keys import PartitionId, cut_id_of, cut_manifest_key
from stratalog.tier.manifests.json import from_bytes
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.stores.checked_read import get_checked
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.tier.work.cut_commands import FoundCut, find_cuts
from stratalog.wire.errors import Corrupt

__all__ = ["missing_pins"]


def missing_pins(store: ObjectStore, manifest: Manifest) -> tuple[Pin, ...]:
    """The pins of the bucket's cuts that ``manifest`` lacks.

    Their number is 0: whatever is in the trash may have gone there after the cut. Raises what the store raises.
    """
    held = {pin.cut_id for pin in manifest.pins}
    found = (pin for cut in find_cuts(store) for pin in _pins_of(store, cut, manifest.partition))
    return tuple(replace(pin, seq=0) for pin in found if pin.cut_id not in held)


def _pins_of(store: ObjectStore, found: FoundCut, partition: PartitionId) -> Iterator[Pin]:
    """The cut's pin of this partition: as its document has it, or as the copy of the pinned manifest has.

    A cut that is being made says nothing in its document yet. One that is being deleted has its pins taken away.
    """
    cut = found.cut
    if cut is not None and cut.state is CutState.COMPLETE:
        for member in cut.partitions:
            if member.partition.topic_id == partition.topic_id and member.partition.partition == partition.partition:
                if member.seq:
                    yield Pin(cut.cut_id, cut.created_ms, member.end_offset, member.log_start_offset)
                return
    elif cut is None or cut.state is CutState.CREATING:
        cut_id, cluster_id = cut_id_of(found.key), found.key.split("/")[1]
        created_ms, _, name = cut_id.partition("-")
        with suppress(
            NotFound, Corrupt, ValueError
        ):  # it has not come to this partition, or the cut cannot be read at all
            key = cut_manifest_key(cluster_id, int(created_ms), name, partition)
            copy = get_checked(store, key, partial(from_bytes, key=key))[0]
            yield from (pin for pin in copy.pins if pin.cut_id == cut_id)
