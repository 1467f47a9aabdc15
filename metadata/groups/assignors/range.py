"""The ``range`` assignor: each topic is cut into runs of neighbouring partitions, one a member.

Members stand in one order for all topics, static ones first and by their instance ids, so that topics with equally
many partitions and the same subscribers are cut at the same places (co-partitioning), and a static member keeps its
place however often it restarts. The partitions that members had before play no part. Source: Kafka's ``RangeAssignor``.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.metadata.groups.assignors.member_spec import MemberSpec, Targets
from stratalog.wire.topic import Uuid

__all__ = ["assign_ranges"]


def assign_ranges(members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]) -> Targets:
    """The target of each member; those who come first get one more where a topic does not divide evenly."""
    subscribers: dict[Uuid, list[str]] = {}
    targets: dict[str, dict[Uuid, frozenset[int]]] = {}
    for member_id in sorted(members, key=lambda member_id: _place(member_id, members[member_id])):
        targets[member_id] = {}
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    for topic, member_ids in subscribers.items():
        start = 0
        quota, extra = divmod(partition_counts[topic], len(member_ids))
        for index, member_id in enumerate(member_ids):
            end = start + quota + (index < extra)
            if start == end:
                break
            targets[member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(targets)


def _place(member_id: str, spec: MemberSpec) -> tuple[bool, str]:
    return (False, spec.instance_id) if spec.instance_id is not None else (True, member_id)
