"""Rule 8, "the archive wins": what a leader that may lack archived offsets does before its first write. Pure.

A follower or a restarted broker may hold less than, or something else than, what its predecessors archived. The
check is made after the claim, on the manifest that carries it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import pairwise
from operator import attrgetter

from msgspec import Struct

from stratalog.tier.manifests.entry import LeaderEpoch

__all__ = ["Keep", "RestartAt", "lineage", "must_reconcile", "reconcile"]


class Keep(Struct, frozen=True):
    """The local log agrees with the archive: go on, reading from ``log_start_offset``."""

    log_start_offset: int
    remote_end: int


class RestartAt(Struct, frozen=True):
    """Quarantine the local data and start an empty log at ``offset``, the remote end, or the log start if that is above it.

    It begins with ``leader_epochs``, and with the producer snapshot in the object ``snapshot_key`` (``None``: the
    archive has no live object, the producer state starts empty).
    """

    offset: int
    log_start_offset: int
    leader_epochs: tuple[LeaderEpoch, ...]
    snapshot_key: str | None
    reason: str


def must_reconcile(
    *,
    remote_end_checkpoint: int | None,
    log_end_offset: int,
    elected_uncleanly: bool,
    stopped_uncleanly: bool,
    wiped: bool,
    second_timeline: bool = False,
) -> bool:
    """True if a new leader must claim and read the manifest before its first write.

    ``stopped_uncleanly``: without sync on ack, since it last caught up with a leader; ``wiped``: likewise, its disk
    was lost; ``second_timeline``: the bucket knows of a run that the disk does not. ``remote_end_checkpoint`` is ``None`` when it is missing. Every other leader starts without the bucket.
    """
    if elected_uncleanly or stopped_uncleanly or wiped or second_timeline:
        return True
    return remote_end_checkpoint is None or remote_end_checkpoint > log_end_offset


def lineage(epochs: Sequence[LeaderEpoch], start: int, end: int) -> tuple[LeaderEpoch, ...]:
    """The history of epochs cut to the offsets ``[start, end)``, without epochs that wrote none of them."""
    cut = [LeaderEpoch(epoch, max(start, first)) for epoch, first in epochs if first < end]
    return tuple(e for i, e in enumerate(cut) if i + 1 == len(cut) or cut[i + 1].start_offset > e.start_offset)


def disputed(
    *, remote_end: int, remote_epochs: Sequence[LeaderEpoch], local_start: int, local_epochs: Sequence[LeaderEpoch]
) -> tuple[range, ...]:
    """The offsets below the remote end that another epoch wrote in the local log than in the archive, by their histories.

    A log without batches there does not contradict its archive: it was copied from one whose cleaner had removed the first
    batches of an epoch, and took the first that was left for the beginning.
    """
    if not remote_epochs:
        return ()
    start = _first_known(local_start, local_epochs, remote_epochs)
    begun = {e.start_offset for e in (*local_epochs, *remote_epochs) if start < e.start_offset < remote_end}
    borders = sorted({start, *begun, max(start, remote_end)})
    return tuple(
        range(first, end)
        for first, end in pairwise(borders)
        if writer_at(local_epochs, first) != writer_at(remote_epochs, first)
    )


def writer_at(epochs: Sequence[LeaderEpoch], offset: int) -> int:
    """The epoch that wrote at an offset by this history; -1 before its first one."""
    slot = bisect_right(epochs, offset, key=attrgetter("start_offset"))
    return epochs[slot - 1].epoch if slot else -1


def reconcile(
    *,
    remote_end: int,
    remote_log_start: int,
    remote_epochs: Sequence[LeaderEpoch],
    snapshot_key: str | None,
    local_start: int,
    local_end: int,
    local_epochs: Sequence[LeaderEpoch],
    log_start_checkpoint: int,
    diverged: bool = False,
    bare: Collection[range] = (),
) -> Keep | RestartAt:
    """Compare the local log ``[local_start, local_end)`` with the archive.

    The archive wins if it goes further than the local log, or if another epoch wrote any offset that both hold (the
    archive may begin later than the local log of a replica that kept more); ``bare`` are those that are `disputed` and
    hold no batch here. A directory that went back in time has
    given its epochs out twice, so that they agree: then the batches before the remote end tell, and the caller says with
    ``diverged`` that they differ. The log start is the larger of checkpoint and manifest. No log ends below it: DeleteRecords
    may have moved it beyond the remote end, and records that were written between the two would be deleted ones.
    """
    log_start = max(remote_log_start, log_start_checkpoint)
    reason = ""
    if remote_end > local_end:
        reason = f"the archive ends at offset {remote_end}, the local log at {local_end}"
    elif log_start > local_end:
        reason = f"the log starts at offset {log_start}, and ends at {local_end} on the local disk"
    elif diverged:
        reason = f"the batch before offset {remote_end} is another one in the archive than in the local log"
    else:
        found = disputed(
            remote_end=remote_end, remote_epochs=remote_epochs, local_start=local_start, local_epochs=local_epochs
        )
        if any(one not in bare for one in found):
            start = _first_known(local_start, local_epochs, remote_epochs)
            ours, theirs = lineage(local_epochs, start, remote_end), lineage(remote_epochs, start, remote_end)
            reason = f"below offset {remote_end} the local log was written by {_words(ours)}, the archive by {_words(theirs)}"
    if not reason:
        return Keep(log_start, remote_end)
    return RestartAt(max(remote_end, log_start), max(log_start, 0), tuple(remote_epochs), snapshot_key, reason)


def _first_known(local_start: int, ours: Sequence[LeaderEpoch], theirs: Sequence[LeaderEpoch]) -> int:
    """The offset from which both histories name the writer; compaction may have removed all before it."""
    return max(local_start, theirs[0].start_offset, ours[0].start_offset if ours else 0)


def _words(epochs: Sequence[LeaderEpoch]) -> str:
    return ", ".join(f"epoch {epoch} from {start}" for epoch, start in epochs) or "none"
