"""The reasons for which a partition is handed to those who serve it: coordinators, the archive."""

from __future__ import annotations

from enum import Enum

from stratalog.metadata.image.topics_image import LeaderRecovery, PartitionImage

__all__ = ["Led", "why_led"]


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
    TAKEN_OVER = "taken over"
    """It was copied from its leader until now, as a member of the in-sync set: its log has all that was committed."""
    RECONFIGURED = "reconfigured"
    """It was led all the time; its settings have changed."""


def why_led(state: PartitionImage, *, was_led: bool) -> Led:
    """Why a partition that is open already is led from now on."""
    if was_led or len(state.replicas) == 1:
        return Led.RENEWED
    return Led.TAKEN_OVER if state.leader_recovery is LeaderRecovery.RECOVERED else Led.OPENED
