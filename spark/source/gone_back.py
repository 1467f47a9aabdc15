"""Whether an archive went back since a stream read it, so that its offsets may stand for other records now. Pure.

A restore to a cut, a repair or a new beginning can end an archive earlier than before. A checkpoint keeps, beside the offsets,
the number of the manifest's last such change (`Manifest.shortened_seq`), where there was one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stratalog.spark.source.stream_offsets import Offsets
from stratalog.tier.manifests.manifest import REPAIR, REWIND, CommitNote, Manifest
from stratalog.wire.topic import TopicPartition

__all__ = ["gone_back_to", "other_records", "shortened", "went_back"]

_BEGIN: Final = "begin again"
_TAKEOVER: Final = "takeover"
_UNPIN: Final = "unpin"
_BACK: Final = frozenset({REPAIR, REWIND})


def went_back(manifest: Manifest) -> bool:
    """Whether the archive was ever taken back to a cut, repaired or begun again, as far as the manifest remembers.

    A build before this kept no number of that change.
    """
    return manifest.shortened_seq > 0 or any(note.kind in _BACK for note in manifest.commits)


def gone_back_to(manifest: Manifest, known_seq: int) -> int | None:
    """From which offset on the archive may hold other records than when its ``shortened_seq`` was ``known_seq``.

    None if it did not go back since; 0 if that is longer ago than the manifest remembers. A partition that is archived
    again after a break has the same log, unless a takeover has made it anew. A cut may be of a history that was left before
    ``known_seq``: then a restore to it changes what came in its place, from where the archive had gone back to.
    """
    if manifest.shortened_seq == known_seq:
        return None
    notes = [note for note in manifest.commits if note.seq > known_seq]
    if all(note.seq != manifest.shortened_seq for note in notes):
        return 0
    taken_over = any(note.kind == _TAKEOVER for note in notes)
    if known_seq and any(note.kind == REWIND and _may_be_older(manifest, note, known_seq) for note in notes):
        before = [note for note in manifest.commits if note.seq <= known_seq and note.kind in _BACK | {_BEGIN}]
        if all(note.seq != known_seq for note in before):
            return 0
        notes = [*before, *notes]
    ends = [note.remote_end for note in notes if note.kind in _BACK or (note.kind == _BEGIN and taken_over)]
    return min(ends, default=None)


def _may_be_older(manifest: Manifest, restored: CommitNote, known_seq: int) -> bool:
    """Whether the cut of a restore may have been made before ``known_seq``, as far as the pins tell that are there.

    The archive ended then with the object in which the cut ends.
    """
    if any(note.kind == _UNPIN and note.seq > restored.seq for note in manifest.commits):
        return True
    end = restored.remote_end
    begin = 0
    if restored.seq == manifest.shortened_seq:  # else other objects have taken the place of these
        begins = [*(entry.base for entry in manifest.entries), *(page.first for page in manifest.pages)]
        begin = max((each for each in begins if each < end), default=0)
    return any(pin.seq <= known_seq and begin < pin.remote_end <= end for pin in manifest.pins)


def shortened(
    manifests: Mapping[TopicPartition, Manifest], ends: Offsets, known: Offsets | None = None
) -> dict[TopicPartition, int]:
    """The numbers that a checkpoint at ``ends`` keeps; nothing for an archive that never went back.

    ``known`` are those of the checkpoint before. They stay for a partition without an archive, which brokers feed: tiering is off.
    """
    before = known or {}
    found = {
        partition: manifests[partition].shortened_seq if partition in manifests else before.get(partition, 0)
        for partition in ends
    }
    return {partition: seq for partition, seq in found.items() if seq}


def other_records(
    manifests: Mapping[TopicPartition, Manifest], offsets: Offsets, known: Offsets | None
) -> dict[TopicPartition, str]:
    """The partitions whose records below ``offsets`` may be others than when the numbers ``known`` were kept, in words.

    Without numbers it is not known which state was read, and the archive may have gone back long before: none.
    """
    found: dict[TopicPartition, str] = {}
    if known is None:
        return found
    for partition in sorted(offsets.keys() & manifests.keys()):
        back = gone_back_to(manifests[partition], known.get(partition, 0))
        if back is not None and back < offsets[partition]:
            found[partition] = (
                f"{partition}: the archive was taken back to a cut, repaired or begun again, and may hold other records "
                f"from offset {back} on than this stream has read, or was to read, up to {offsets[partition] - 1}. Start "
                f"with an empty checkpointLocation and write to a new place, or begin at offset {back} and remove what "
                f"was written from there on"
            )
    return found
