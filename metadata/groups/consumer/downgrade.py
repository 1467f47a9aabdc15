"""From a consumer group back to a classic one, when the last member of the consumer protocol has gone.

Members keep what they have: it is written as the assignment of a stable generation, and a rebalance begins, since a
member has left. Sources: KIP-848 (online migration); Kafka's ``convertToClassicGroup``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Reply, Write
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.classic.members import ClassicMember, ClassicMembers
from stratalog.metadata.groups.consumer.core import ConsumerCore
from stratalog.metadata.groups.consumer.member import ConsumerMember
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.metadata.record_texts import WRITE_BYTES_MAX
from stratalog.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedPartitions,
    encode_protocol,
    protocol_version,
)

__all__ = ["assignment_bytes", "downgrade", "may_downgrade", "may_downgrade_for"]

_POLICIES: Final = frozenset({"downgrade", "bidirectional"})
_TOPIC_BYTES: Final = 260
"""A name of a topic in an assignment, with the counts beside it."""


def may_downgrade(group: ConsumerCore, leaving: Collection[ConsumerMember]) -> bool:
    """Whether only classic members are left when these have gone, at least one, and such a group may be had."""
    facts, settings = group.facts, group.surroundings.settings
    left_count = len(facts.members) - len(leaving)
    classic_count = facts.classic_count - sum(member.classic is not None for member in leaving)
    return (
        0 < left_count == classic_count
        and settings.consumer_migration_policy.lower() in _POLICIES
        and left_count <= settings.max_size
        and _fits_in_a_record(group, leaving)
    )


def may_downgrade_for(group: ConsumerCore, replaced: ConsumerMember, written_bytes: int) -> bool:
    """Whether only classic members are left when this static member comes back as one, which writes so many bytes."""
    facts, settings = group.facts, group.surroundings.settings
    return (
        replaced.classic is None
        and facts.classic_count == len(facts.members) - 1
        and settings.consumer_migration_policy.lower() in _POLICIES
        and len(facts.members) <= settings.max_size
        and _fits_in_a_record(group, (replaced,), written_bytes)
    )


def _fits_in_a_record(group: ConsumerCore, leaving: Collection[ConsumerMember], written_bytes: int = 0) -> bool:
    """Whether one append can hold the record of all classic members, and so many bytes besides.

    Else the group stays as it is: an append that is refused would cost the shard its state.
    """
    ids = {member.member_id for member in leaving}
    left = [one for one in group.facts.members.values() if one.classic is not None and one.member_id not in ids]
    return written_bytes + sum([_record_bytes(member) for member in left]) <= WRITE_BYTES_MAX


def _record_bytes(member: ConsumerMember) -> int:
    """At most what it adds to the record of a classic group: its texts, a subscription, its assignment."""
    assert member.classic is not None
    texts = (member.member_id, member.instance_id or "", member.client_id, member.client_host)
    size_bytes = sum([len(text.encode()) for text in texts])
    size_bytes += max(len(metadata) for _, metadata in member.classic.protocols)
    return size_bytes + sum([_TOPIC_BYTES + 4 * len(partitions) for partitions in member.assigned.values()])


def downgrade(
    group: ConsumerCore,
    leaving: Collection[ConsumerMember],
    now: Now,
    replies: Sequence[Reply],
    *,
    records: Sequence[CoordinatorRecord] = (),
    rebalance: bool = True,
) -> list[Action]:
    """Make the classic group of those who stay, the successor of ``group``; ``records`` come before those of it."""
    ids = {member.member_id for member in leaving}
    left = [member for member in group.facts.members.values() if member.member_id not in ids]
    topics = group.surroundings.image.topics
    members = ClassicMembers()
    for member in left:
        members.add(_classic_member(member, topics))
    classic = ClassicGroup.converted(
        group.group_id,
        group.surroundings.settings,
        generation=group.facts.epoch,
        protocol_name=members.chosen_protocol(),
        leader=left[0].member_id,
        members=members.by_id.values(),
        now=now,
    )
    group.successor = classic
    written = [*records, *group.tombstones(), classic.metadata_record()]
    actions: list[Action] = [Write(written, list(replies))]
    return actions + classic.prepare_rebalance(now) if rebalance else actions


def _classic_member(member: ConsumerMember, topics: TopicsImage) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=dict(member.classic.protocols),
        assignment=assignment_bytes(member, topics),
    )


def assignment_bytes(member: ConsumerMember, topics: TopicsImage) -> bytes:
    """The assignment of a classic member, as its client reads it; topics that exist no longer are left out."""
    assert member.classic is not None
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            OwnedPartitions(topic=topics.by_id[topic].name, partitions=sorted(partitions))
            for topic, partitions in member.assigned.items()
            if topic in topics.by_id
        ]
    )
    return encode_protocol(assignment, protocol_version(member.classic.protocols[0][1]))
