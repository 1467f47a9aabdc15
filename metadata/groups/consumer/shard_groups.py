"""The groups of a shard as requests and records work on them."""

from __future__ import annotations

from typing import Protocol

from stratalog.metadata.groups.group import Group
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.surroundings import Surroundings

__all__ = ["ShardGroups"]


class ShardGroups(Surroundings, Protocol):
    """A `GroupShard` without its log and its deadlines."""

    @property
    def groups(self) -> dict[str, Group]:
        """The groups by id."""

    @property
    def offsets(self) -> CommittedOffsets:
        """The offsets that they have committed."""

    def put(self, group: Group, /) -> None:
        """Keep a group, in the place of the one that had its id."""

    def drop(self, group_id: str, /) -> None:
        """Forget a group; while it has offsets, one without members stays in its place."""

    def keep_offsets(self, group_id: str, /) -> None:
        """Make a group without members for offsets that have none."""

    def look_after(self, group: Group, /) -> None:
        """See to the next deadline of a group to which something has happened."""
