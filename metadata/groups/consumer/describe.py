"""A consumer group as administrators see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stratalog.metadata.groups.consumer.member import ConsumerMember
from stratalog.metadata.groups.consumer.state import ConsumerState
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from stratalog.wire.topic import Uuid

__all__ = ["describe_group"]

_CLASSIC, _CONSUMER = 0, 1


def describe_group(facts: ConsumerState, topics: TopicsImage, default_assignor: str) -> DescribedGroup:
    """The group and its members; topics that exist no longer are left out."""
    return DescribedGroup(
        group_id=facts.group_id,
        group_state=facts.state.value,
        group_epoch=facts.epoch,
        assignment_epoch=facts.target_epoch,
        assignor_name=facts.assignor(default_assignor),
        members=[_member(facts, member, topics) for member in facts.members.values()],
    )


def _member(facts: ConsumerState, member: ConsumerMember, topics: TopicsImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_pattern,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(facts.target(member.member_id), topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: TopicsImage) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=topics.by_id[topic].name, partitions=sorted(numbers))
            for topic, numbers in partitions.items()
            if topic in topics.by_id
        ]
    )
