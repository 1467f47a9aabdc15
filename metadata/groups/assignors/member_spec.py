"""An assignor's view of a member, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stratalog.wire.topic import Uuid

__all__ = ["MemberSpec", "Partitions", "Targets", "same_topics"]

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by topic; no topic stands there without any."""

Targets = dict[str, Partitions]
"""The target partitions of every member."""


class MemberSpec(NamedTuple):
    """One member. ``topics`` exist; ``target`` is what it was to have until now, ``instance_id`` that of a static one."""

    topics: frozenset[Uuid]
    target: Partitions
    instance_id: str | None = None


def same_topics(members: Mapping[str, MemberSpec]) -> frozenset[Uuid] | None:
    """The topics, if every member subscribes to the same ones; None if not, or if there is no member."""
    specs = iter(members.values())
    first = next(specs, None)
    if first is None:
        return None
    topics = first.topics
    return topics if all(spec.topics is topics or spec.topics == topics for spec in specs) else None
