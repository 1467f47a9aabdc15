"""Groups through the client: which there are, their members and offsets; offsets set, groups deleted.

Every refusal is a `KafkaError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct

from stratalog.client.client import Client, by_topic, in_batches
from stratalog.client.coordinators import COORDINATOR_MOVES, at_coordinator, while_coordinators_move
from stratalog.client.link import check, code_words
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from stratalog.wire.messages.delete_groups import DeleteGroupsRequest
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest
from stratalog.wire.messages.list_groups import ListGroupsRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from stratalog.wire.records.consumer_protocol import decode_assignment
from stratalog.wire.schema import DecodeError, Message
from stratalog.wire.topic import TopicPartition

__all__ = [
    "Committed",
    "GroupDescription",
    "GroupMember",
    "GroupName",
    "commit_offsets",
    "committed_offsets",
    "delete_group",
    "describe_group",
    "list_groups",
    "set_offsets",
]

_BY_NAME_LAST: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics."""
_GROUPS_SINCE: Final = 8
_STATES_SINCE: Final = 4
_TYPES_SINCE: Final = 5
_CONSUMER: Final = "consumer"
_DEAD: Final = "Dead"


class GroupName(NamedTuple):
    """One line of the list of groups. State and type are empty where the broker does not tell them."""

    group_id: str
    type: str
    state: str
    protocol_type: str


class GroupMember(Struct, frozen=True):
    """A member and what it reads; ``epoch`` is None for members of classic groups."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    partitions: tuple[TopicPartition, ...]


class GroupDescription(Struct, frozen=True):
    """A group with its members. ``assignor`` is what gives them their partitions."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]


class Committed(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str


def list_groups(client: Client, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupName]:
    """The groups of all brokers, by id; of these states and types, if any are given.

    Raises UNSUPPORTED_VERSION for a filter that a broker does not know: it would list all.
    """
    client.refresh([])
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    version_min = _TYPES_SINCE if types else _STATES_SINCE if states else 0

    def of_broker(node_id: int) -> list[GroupName]:
        client.check_version(ListGroupsRequest, version_min, node_id)
        answer = client.call(request, node_id)
        check(answer.error_code)
        return [GroupName(one.group_id, one.group_type, one.group_state, one.protocol_type) for one in answer.groups]

    found: list[GroupName] = []
    for node_id in sorted(client.brokers):
        found += while_coordinators_move(client, partial(of_broker, node_id))
    return sorted(found)


def describe_group(client: Client, group_id: str) -> GroupDescription:
    """A group of either protocol. Raises GROUP_ID_NOT_FOUND."""
    return at_coordinator(client, group_id, lambda node_id: _describe(client, group_id, node_id))


def _describe(client: Client, group_id: str, node_id: int) -> GroupDescription:
    if client.serves(ConsumerGroupDescribeRequest, node_id):
        answer = client.call(ConsumerGroupDescribeRequest(group_ids=[group_id]), node_id).groups[0]
        if answer.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            _check(group_id, answer.error_code, answer.error_message)
            return _consumer_group(answer, node_id)
    answer = client.call(DescribeGroupsRequest(groups=[group_id]), node_id).groups[0]
    _check(group_id, answer.error_code, answer.error_message)
    if answer.group_state == _DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}: not found")
    return GroupDescription(
        group_id=group_id,
        type="classic",
        state=answer.group_state,
        protocol_type=answer.protocol_type,
        assignor=answer.protocol_data,
        coordinator=node_id,
        members=tuple(_classic_member(one, answer.protocol_type) for one in answer.members),
    )


def _consumer_group(answer: Any, node_id: int) -> GroupDescription:
    members = [
        GroupMember(
            member_id=one.member_id,
            instance_id=one.instance_id,
            client_id=one.client_id,
            host=one.client_host,
            epoch=one.member_epoch,
            partitions=tuple(
                TopicPartition(topic.topic_name, number)
                for topic in one.assignment.topic_partitions
                for number in topic.partitions
            ),
        )
        for one in answer.members
    ]
    return GroupDescription(
        group_id=answer.group_id,
        type=_CONSUMER,
        state=answer.group_state,
        protocol_type=_CONSUMER,
        assignor=answer.assignor_name,
        coordinator=node_id,
        members=tuple(members),
    )


def _classic_member(answer: Any, protocol_type: str) -> GroupMember:
    """Only consumers have assignments in a form that is known here."""
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == _CONSUMER and answer.member_assignment:
        try:
            data = answer.member_assignment
            assigned = decode_assignment(data, len(data)).assigned_partitions
        except DecodeError:
            assigned = []  # it is the members' matter what they tell each other
        partitions = tuple(TopicPartition(one.topic, number) for one in assigned for number in one.partitions)
    return GroupMember(
        member_id=answer.member_id,
        instance_id=answer.group_instance_id,
        client_id=answer.client_id,
        host=answer.client_host,
        epoch=None,
        partitions=partitions,
    )


def committed_offsets(client: Client, group_id: str) -> dict[TopicPartition, Committed]:
    """Everything that a group has committed; nothing for a group that is not there."""

    def fetch(node_id: int) -> dict[TopicPartition, Committed]:
        version = _version(client, OffsetFetchRequest, node_id)
        if version >= _GROUPS_SINCE:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
            (answer,) = client.call(request, node_id, version).groups
        else:
            answer = client.call(OffsetFetchRequest(group_id=group_id, topics=None), node_id, version)
        _check(group_id, answer.error_code, None)
        return {
            TopicPartition(topic.name, one.partition_index): Committed(
                one.committed_offset, one.committed_leader_epoch, one.metadata or ""
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    return at_coordinator(client, group_id, fetch)


def commit_offsets(client: Client, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set offsets of a group that has no members. Raises for the first that was refused; others may be set."""
    for error in set_offsets(client, group_id, offsets).values():
        raise error


def set_offsets(
    client: Client, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError]:
    """Set offsets of a group that has no members. Returns why each one that was refused was; the others are set.

    Raises `KafkaError` where no coordinator answered in time; some may be set then.
    """

    def commit(some: Sequence[TopicPartition], node_id: int) -> dict[TopicPartition, KafkaError]:
        request = OffsetCommitRequest(group_id=group_id, member_id="", topics=_topics_to_commit(some, offsets))
        answer = client.call(request, node_id, _version(client, OffsetCommitRequest, node_id))
        refused: dict[TopicPartition, KafkaError] = {}
        for topic in answer.topics:
            for one in topic.partitions:
                try:
                    _check(f"{group_id}, {topic.name}-{one.partition_index}", one.error_code, None)
                except KafkaError as error:
                    if error.code in COORDINATOR_MOVES:
                        raise
                    refused[TopicPartition(topic.name, one.partition_index)] = error
        return refused

    found: dict[TopicPartition, KafkaError] = {}
    for some in in_batches(offsets):
        found |= at_coordinator(client, group_id, partial(commit, some))
    return found


def _topics_to_commit(
    partitions: Sequence[TopicPartition], offsets: Mapping[TopicPartition, int]
) -> list[OffsetCommitRequestTopic]:
    return [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=one.partition, committed_offset=offsets[one], committed_metadata=""
                )
                for one in those
            ],
        )
        for name, those in by_topic(partitions).items()
    ]


def delete_group(client: Client, group_id: str) -> None:
    """Delete a group without members, with its offsets. Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""

    def delete(node_id: int) -> None:
        (answer,) = client.call(DeleteGroupsRequest(groups_names=[group_id]), node_id).results
        _check(group_id, answer.error_code, None)

    at_coordinator(client, group_id, delete)


def _version(client: Client, request: type[Message], node_id: int) -> int:
    return min(client.version_of(request, node_id), _BY_NAME_LAST)


def _check(group: str, code: int, message: str | None) -> None:
    check(code, f"group {group}: {message or code_words(code)}")
