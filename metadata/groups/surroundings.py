"""A group's view of the world around it."""

from __future__ import annotations

from typing import Protocol

from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.groups.topic_patterns import Patterns
from stratalog.metadata.image.image import ClusterImage

__all__ = ["Surroundings"]


class Surroundings(Protocol):
    """The shard, as its groups see it: settings and image are replaced when something changes."""

    @property
    def settings(self) -> GroupSettings:
        """The broker settings that groups obey."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The newest image of the cluster."""
        ...

    @property
    def patterns(self) -> Patterns:
        """The source of the topics that an expression matches."""
        ...
