"""The questions and events of a shard of groups beside the requests of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from stratalog.metadata.groups.group import GroupSettings
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = ["DeleteGroup", "DescribeGroup", "ListGroups", "SettingsChanged", "TopicsChanged"]


class TopicsChanged(Struct):
    """The cluster's image is another; ``removed`` are topics that it had before, by id."""

    image: ClusterImage
    removed: Mapping[Uuid, str]


class SettingsChanged(Struct):
    """The settings of groups are others."""

    settings: GroupSettings


class ListGroups(Struct):
    """The groups of the shard, answered with a ListGroupsResponse. Empty filters are none; names in lower case."""

    token: Any
    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class DescribeGroup(Struct):
    """The part of a DescribeGroups about one group, answered with a DescribeGroupsResponse of that one."""


class DeleteGroup(Struct):
    """The part of a DeleteGroups about one group, answered with a DeleteGroupsResponse of that one."""
