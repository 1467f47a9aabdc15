"""Proves from a manifest's claim that a data directory went back in time. Pure.

A leader epoch is given to one leadership only. So two claims cannot stand in a manifest unless an older copy of the disk was
put back: one of this broker under an id that its directory never used, and one of the same epoch as the broker's own. A run
that this directory does not know made them. Offsets that the broker would give out now may be archived already, with other
records.
"""

from __future__ import annotations

from msgspec import Struct

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import Claimant
from stratalog.wire.errors import StratalogError
from stratalog.wire.topic import ZERO_UUID, Uuid

__all__ = ["BatchMark", "MadeClaims", "ReadLastBatch", "SecondTimeline", "check_timeline"]


class SecondTimeline(StratalogError):
    """The manifest carries a claim of another timeline, under ``leader_epoch``.

    The log has to be compared with its archive before either is written.
    """

    def __init__(self, message: str, leader_epoch: int) -> None:
        super().__init__(message, leader_epoch)
        self.message = message
        self.leader_epoch = leader_epoch

    def __str__(self) -> str:
        return self.message


class MadeClaims(Struct, frozen=True):
    """The ids under which this data directory has claimed archives: all of them since ``since_ms``, perhaps fewer before.

    So an unknown claim under a lower epoch proves something only if it was made since then. With ``since_ms`` below 0 no
    claim under a lower epoch is judged.
    """

    ids: frozenset[Uuid] = frozenset()
    since_ms: int = -1


class BatchMark(Struct, frozen=True):
    """Identifies a batch by its offsets ``[base, end)`` and its CRC-32C, which covers all bytes behind itself."""

    base: int
    end: int
    crc: int


class ReadLastBatch(Struct, frozen=True):
    """A command: read the mark of the last batch of an object. Its report is `LastBatchRead`."""

    partition: PartitionId
    key: str


def check_timeline(manifest: Manifest, claimant: Claimant, made: MadeClaims) -> None:
    """Raise `SecondTimeline` if a run made the manifest's claim that the claimant's directory does not know.

    All other foreign claims prove nothing: one without a mark was written by a repair, one of another incarnation is another cluster's, one of another broker under a
    lower epoch is an earlier leader's, and one under a higher epoch is a newer leader's.
    """
    held = manifest.claimant
    if not manifest.seq or held.incarnation != claimant.incarnation or held == claimant:
        return
    if held.uuid == ZERO_UUID or held.uuid in made.ids:
        return
    ours = held.broker_id == claimant.broker_id
    judged = held.leader_epoch >= claimant.leader_epoch or 0 <= made.since_ms <= manifest.claimed_ms
    if (ours and judged) or held.leader_epoch == claimant.leader_epoch:
        raise SecondTimeline(
            f"{manifest.partition}: the archive is claimed by {held.words}, by a run of this broker that its data directory "
            "does not know: the directory went back in time. The log is compared with the archive before it goes on",
            held.leader_epoch,
        )
