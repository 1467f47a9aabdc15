"""The questions and events of a shard of groups beside the requests of members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = ["DeleteGroup", "DescribeGroup", "ListGroups", "SettingsChanged", "TopicsChanged"]


@dataclass(slots=True)
class TopicsChanged:
    """The cluster's image is another; ``removed`` are topics that it had before, by id."""

    image: ClusterImage
    removed: Mapping[Uuid, str]


@dataclass(slots=True)
class SettingsChanged:
    """The settings of groups are others."""

    settings: GroupSettings


@dataclass(slots=True)
class ListGroups:
    """The groups of the shard, answered with a ListGroupsResponse. Empty filters are none; names in lower case."""

    token: Any
    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass(slots=True)
class DescribeGroup:
    """The part of a DescribeGroups about one group, answered with a DescribeGroupsResponse of that one."""


@dataclass(slots=True)
class DeleteGroup:
    """The part of a DeleteGroups about one group, answered with a DeleteGroupsResponse of that one."""
