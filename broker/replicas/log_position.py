"""How far a follower's log goes: what a fetch says of it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LogPosition"]


class LogPosition(NamedTuple):
    """The end of a log, by which its leader finds where histories part."""

    offset: int
    """The offset of the next record that it needs; all below is as durable as the topic demands."""
    last_epoch: int
    """The leader epoch of its last batch, -1 where it has none."""
    log_start_offset: int
