"""What a group sees of the world around it."""

from __future__ import annotations

from typing import Protocol

from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.image import ClusterImage

__all__ = ["Surroundings"]


class Surroundings(Protocol):
    """The shard, as its groups see it: both values are replaced when something changes."""

    @property
    def settings(self) -> GroupSettings:
        """The broker settings that groups obey."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The newest image of the cluster."""
        ...
