"""The leader epochs of a log that is being opened: from their checkpoint, or from the batches where it is no use."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.hot.recovery.opening import OpenRequest
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.recovery.summary_check import known_epochs
from stratalog.hot.segments.scan import scan_within
from stratalog.hot.segments.segment import RELATIVE_OFFSET_MAX, Segment
from stratalog.hot.state.leader_epochs import LeaderEpochCache
from stratalog.hot.storage.checkpoint import LEADER_EPOCHS
from stratalog.wire.errors import Corrupt

__all__ = ["load_epochs"]


def load_epochs(
    request: OpenRequest, segments: Sequence[Segment], quarantine: Quarantine, *, named: bool
) -> LeaderEpochCache:
    """Read the checkpoint, which is there if ``named``; derive it from the log if it is missing or damaged.

    A damaged one goes to ``quarantine``. Raises `OSError`.
    """
    if named:
        try:
            known = known_epochs(request)
            return known or LeaderEpochCache.from_bytes(
                request.files.read_bytes(f"{request.directory}/{LEADER_EPOCHS}")
            )
        except Corrupt as error:
            quarantine.move([LEADER_EPOCHS], str(error))
    epochs = LeaderEpochCache()
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        behind = segment.base_offset + RELATIVE_OFFSET_MAX + 1 if last else segments[number + 1].base_offset
        for _, header in scan_within(segment.file, 0, segment.size_bytes, segment.base_offset, behind):
            if request.leader_epoch_max >= header.partition_leader_epoch > epochs.latest_epoch:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
    return epochs
