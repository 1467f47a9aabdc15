"""The ``uniform`` assignor: as many partitions for each member as for any other, and as few moves as possible.

Balance comes before stickiness. When all members subscribe to the same topics, sizes differ by one at most and no
assignment of these sizes moves fewer partitions. Otherwise `stratalog.metadata.groups.assignors.mixed` does it.
Source: Kafka's ``UniformAssignor``; unlike there, the larger shares go to those who hold most already.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.metadata.groups.assignors.member_spec import MemberSpec, Partitions, Targets, same_topics
from stratalog.metadata.groups.assignors.mixed import assign_mixed
from stratalog.wire.topic import Uuid

__all__ = ["assign_uniformly"]


def assign_uniformly(members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]) -> Targets:
    """The target of each member."""
    topics = same_topics(members)
    if topics is None:
        return assign_mixed(members, partition_counts)
    counts = {topic: partition_counts[topic] for topic in sorted(topics)}
    kept = {member_id: _kept(spec.target, counts) for member_id, spec in members.items()}
    sizes = {member_id: sum(map(len, target.values())) for member_id, target in kept.items()}
    quota, larger_shares = divmod(sum(counts.values()), len(members))
    by_size = sorted(members, key=lambda member_id: -sizes[member_id])
    shares = {member_id: quota + (place < larger_shares) for place, member_id in enumerate(by_size)}
    free = _unowned(counts, kept)
    targets: Targets = {}
    for member_id, target in kept.items():
        if sizes[member_id] > shares[member_id]:
            target, given_up = _shrunk(target, shares[member_id])
            free += given_up
        targets[member_id] = target
    free.sort(reverse=True)
    for member_id in members:
        missing = shares[member_id] - sizes[member_id]
        if missing > 0:
            targets[member_id] = _grown(targets[member_id], free, missing)
    return targets


def _kept(target: Partitions, counts: Mapping[Uuid, int]) -> Partitions:
    """The part of a former target that is still subscribed to and exists; the same object if that is all of it."""
    if all(topic in counts and max(partitions) < counts[topic] for topic, partitions in target.items()):
        return target
    existing = {
        topic: frozenset(partition for partition in partitions if partition < counts[topic])
        for topic, partitions in target.items()
        if topic in counts
    }
    return {topic: partitions for topic, partitions in existing.items() if partitions}


def _unowned(counts: Mapping[Uuid, int], kept: Mapping[str, Partitions]) -> list[tuple[Uuid, int]]:
    owned: dict[Uuid, set[int]] = {topic: set() for topic in counts}
    for target in kept.values():
        for topic, partitions in target.items():
            owned[topic] |= partitions
    return [
        (topic, partition)
        for topic, count in counts.items()
        if len(owned[topic]) < count
        for partition in range(count)
        if partition not in owned[topic]
    ]


def _shrunk(target: Partitions, share: int) -> tuple[Partitions, list[tuple[Uuid, int]]]:
    """The target cut down to its first ``share`` partitions, and the rest."""
    ordered = [(topic, partition) for topic in sorted(target) for partition in sorted(target[topic])]
    return _by_topic(ordered[:share]), ordered[share:]


def _grown(target: Partitions, free: list[tuple[Uuid, int]], missing: int) -> Partitions:
    """The target with ``missing`` more, taken from the end of ``free``."""
    added = _by_topic(free[-missing:])
    del free[-missing:]
    return {**target, **{topic: target.get(topic, frozenset()) | partitions for topic, partitions in added.items()}}


def _by_topic(partitions: list[tuple[Uuid, int]]) -> Partitions:
    grouped: dict[Uuid, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return {topic: frozenset(members) for topic, members in grouped.items()}
