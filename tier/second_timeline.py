"""A data directory that went back in time meets what it archived later: proof of a second timeline. Pure.

A leader epoch is given to one leadership only. So a claim of this broker under an id that it never used, or one of its
own epoch by anyone else, was made by a run of which this directory knows nothing: an older copy of the disk was put back.
Offsets that it would give out now may be archived already, with other records.
"""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Manifest
from stratalog.tier.manifest_parts import Claimant
from stratalog.wire.errors import StratalogError
from stratalog.wire.topic import Uuid

__all__ = ["BatchMark", "MadeClaims", "ReadLastBatch", "SecondTimeline", "check_timeline"]


class SecondTimeline(StratalogError):
    """The manifest carries a claim of another timeline, under ``leader_epoch``: compare before anything is written."""

    def __init__(self, message: str, leader_epoch: int) -> None:
        super().__init__(message, leader_epoch)
        self.message = message
        self.leader_epoch = leader_epoch

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class MadeClaims:
    """The ids under which this data directory has claimed archives, all of them since ``since_ms``.

    Lower claims that are older are not judged, and none are with ``since_ms`` below 0.
    """

    ids: frozenset[Uuid] = frozenset()
    since_ms: int = -1


@dataclass(frozen=True, slots=True)
class BatchMark:
    """What tells one batch from any other at its offsets, which are ``[base, end)``: the CRC-32C covers all the rest."""

    base: int
    end: int
    crc: int


@dataclass(frozen=True, slots=True)
class ReadLastBatch:
    """Read which batch an object ends with; answered by `LastBatchRead`."""

    partition: PartitionId
    key: str


def check_timeline(manifest: Manifest, claimant: Claimant, made: MadeClaims) -> None:
    """Raise `SecondTimeline` if the manifest was claimed by a timeline that the claimant's directory does not have.

    A claim of another incarnation is another cluster's, one of another broker below ours an earlier leader's, and one
    above ours a newer leader's: all of these are as it should be.
    """
    held = manifest.claimant
    if not manifest.seq or held.incarnation != claimant.incarnation or held.uuid in made.ids or held == claimant:
        return
    ours = held.broker_id == claimant.broker_id
    judged = held.leader_epoch >= claimant.leader_epoch or 0 <= made.since_ms <= manifest.claimed_ms
    if (ours and judged) or held.leader_epoch == claimant.leader_epoch:
        raise SecondTimeline(
            f"{manifest.partition}: the archive is claimed by {held.words}, by a run of this broker that its data directory "
            "does not know: the directory went back in time. The log is compared with the archive before it goes on",
            held.leader_epoch,
        )
