"""The reasons for which a partition is handed to those who serve it: coordinators, the archive."""

from __future__ import annotations

from enum import Enum

from stratalog.metadata.image.topics_image import LeaderRecovery, PartitionImage

__all__ = ["Led", "why_led", "why_opened"]


class Led(Enum):
    """Why a partition is handed to those who serve it."""

    CREATED = "created"
    """It has no past."""
    OPENED = "opened"
    """Its log comes from an earlier run."""
    LOST = "lost"
    """It has a past, but its log is not there: the disk was replaced or wiped."""
    RENEWED = "renewed"
    """It was led before, and is led under a new leader epoch: work of the old epoch has ended."""
    UNCLEAN = "elected uncleanly"
    """It may lack what was committed, and has not recovered so far: its archive knows better."""
    TAKEN_OVER = "taken over"
    """It was copied from its leader until now, as a member of the in-sync set: its log has all that was committed."""
    RECONFIGURED = "reconfigured"
    """It was led all the time; its settings have changed."""


def why_led(state: PartitionImage, *, was_led: bool, is_bare: bool = False) -> Led:
    """Why a partition that is open already is led from now on; ``is_bare``: its log was not there, and it has not led since."""
    if is_bare and len(state.replicas) == 1:
        return Led.LOST
    if state.leader_recovery is LeaderRecovery.RECOVERING:
        return Led.UNCLEAN
    return Led.RENEWED if was_led or len(state.replicas) == 1 else Led.TAKEN_OVER


def why_opened(state: PartitionImage, opened: Led) -> Led:
    """Why a partition that has just been opened is led; ``opened`` is what its directory says about its past."""
    is_unclean = state.leader_recovery is LeaderRecovery.RECOVERING and opened is not Led.LOST
    return Led.UNCLEAN if is_unclean else opened
