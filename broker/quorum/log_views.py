"""The metadata log as the quorum's machine sees it, put together at a start from what is on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratalog.broker.quorum.control_records import voter_set
from stratalog.metadata.quorum.checkpoint import STATIC_QUORUM, QuorumRecords
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, EpochStart, LogView
from stratalog.metadata.raft.messages import ControlRecord, KRaftVersion, OffsetAndEpoch, Voters
from stratalog.metadata.raft.voter_set import VoterSet
from stratalog.wire.errors import Corrupt

__all__ = ["view_of"]


def view_of(
    start_offset: int,
    end_offset: int,
    epochs: Sequence[tuple[int, int]],
    snapshots: Iterable[OffsetAndEpoch] = (),
    control: Iterable[tuple[int, ControlRecord]] = (),
    *,
    quorum: QuorumRecords = STATIC_QUORUM,
    quorum_end: int = 0,
    static_voters: VoterSet | None = None,
) -> LogView:
    """The view of a log ``[start_offset, end_offset)``, all of it synced.

    ``epochs``: each epoch and the offset of its first record, ascending. ``snapshots``: the whole ones on disk, in any
    order; those from before the log are left out. ``control``: the control records of the log with their offsets,
    ascending. ``quorum``: the facts that the records below ``quorum_end`` leave, by a snapshot that was read or by that
    of `format`; only control records from there on change them. ``static_voters``: those of
    ``controller.quorum.voters``, which count until a record names others.

    Raises `Corrupt` if the log does not reach back to the newest snapshot, and for a stored voter that is named twice.
    """
    whole = tuple(sorted(snapshots))
    newest = whole[-1].offset if whole else 0
    if start_offset > newest:
        raise Corrupt(
            f"the metadata log begins at offset {start_offset}, and there is no snapshot of the records before it: "
            f"the newest one ends at {newest}"
        )
    voter_sets = [(BEFORE_THE_LOG, static_voters)] if static_voters else []
    levels = []
    if quorum.kraft_version:
        levels.append((quorum_end - 1, quorum.kraft_version))
        if quorum.voters:
            voter_sets = [(quorum_end - 1, voter_set(quorum.voters))]
    for offset, record in control:
        if offset < quorum_end:
            continue
        if isinstance(record, Voters):
            voter_sets.append((offset, record.voters))
        elif isinstance(record, KRaftVersion):
            levels.append((offset, record.level))
    return LogView(
        start_offset=start_offset,
        end_offset=end_offset,
        flushed_offset=end_offset,
        epochs=tuple(EpochStart(*each) for each in epochs),
        snapshots=tuple(each for each in whole if each.offset >= start_offset),
        voter_sets=tuple(voter_sets),
        kraft_versions=tuple(levels),
    )
