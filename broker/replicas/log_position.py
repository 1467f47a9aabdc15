"""How far a follower's log goes: what a fetch says of it, and how far it agrees with its leader's."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.hot.state.leader_epochs import EpochEnd
from stratalog.wire.messages.fetch import EpochEndOffset

__all__ = ["LogPosition", "cut_to"]


class LogPosition(NamedTuple):
    """The end of a log, by which its leader finds where histories part."""

    offset: int
    """The offset of the next record that it needs; all below is as durable as the topic demands."""
    last_epoch: int
    """The leader epoch of its last batch, -1 where it has none."""
    log_start_offset: int


def cut_to(leaders: EpochEndOffset, own: EpochEnd, log_end_offset: int) -> int:
    """The offset to cut a log to whose history parts from its leader's (KIP-279).

    ``leaders``: the largest epoch that the leader has not above the asked one, and where it ends there. ``own``: the same
    question about that epoch, answered by this log; an epoch of -1 where it has none that old. If the two name different
    epochs, what is left is compared once more by the next fetch.
    """
    if own.epoch < 0:
        return min(leaders.end_offset, log_end_offset)
    if own.epoch != leaders.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, leaders.end_offset, log_end_offset)
