"""How the coordinator divides the partitions of the subscribed topics among the members of a consumer group.

An assignor is a pure function from what the members subscribe to, and have as their targets so far, to the next
targets. Source: KIP-848.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from stratalog.metadata.groups.assignors.member_spec import MemberSpec, Targets
from stratalog.metadata.groups.assignors.range import assign_ranges
from stratalog.metadata.groups.assignors.uniform import assign_uniformly
from stratalog.wire.topic import Uuid

__all__ = ["ASSIGNORS", "Assignor", "MemberSpec", "Targets"]

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], Targets]
"""From members by id and partition counts of all topics they subscribe to, to the target of each member."""

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
"""Those that members may ask for, by name."""
