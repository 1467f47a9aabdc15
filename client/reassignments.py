"""Reassignments through the client: which run, new ones, their end, and the election of preferred leaders (KIP-455, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.client.client import Client, by_topic, in_batches
from stratalog.client.commands import NO_CONTROLLER_CODES, command, no_controller
from stratalog.client.link import check, code_words
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from stratalog.wire.topic import TopicPartition

__all__ = ["Reassignment", "elect_preferred_leaders", "list_reassignments", "reassign"]

_PREFERRED: Final = 0
_NOT_ELECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers for a partition after which its leader stays who it is."""


class Reassignment(NamedTuple):
    """A reassignment that runs; ``replicas`` include those that are added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas in the end, the preferred leader first."""
        return tuple(one for one in self.replicas if one not in self.removing)


def list_reassignments(client: Client) -> dict[TopicPartition, Reassignment]:
    """The reassignments that run. Raises `KafkaError`, NOT_CONTROLLER where no controller is active."""
    answer = command(client, ListPartitionReassignmentsRequest(topics=None))
    try:
        check(answer.error_code, answer.error_message)
    except KafkaError as error:
        if error.code not in NO_CONTROLLER_CODES:
            raise
        raise no_controller(error) from error
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in answer.topics
        for one in topic.partitions
    }


def reassign(client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
    """Begin to move partitions to the brokers given for each, or with None stop the move that runs.

    Returns why each partition that was refused was; others may be on their way. Raises `KafkaError` if all were refused at once.
    Brokers bound the elements of a request, so it may take several.
    """
    refused: dict[TopicPartition, str] = {}
    for some in in_batches(targets):
        refused |= _reassign(client, {one: targets[one] for one in some})
    return refused


def _reassign(client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=one.partition, replicas=None if (to := targets[one]) is None else list(to)
                    )
                    for one in partitions
                ],
            )
            for name, partitions in by_topic(targets).items()
        ]
    )
    answer = command(client, request)
    check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): one.error_message or code_words(one.error_code)
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code
    }


def elect_preferred_leaders(client: Client, partitions: Iterable[TopicPartition]) -> int:
    """Let the first replica of each partition lead where it is in sync; the number of leaders that changed.

    A partition whose preferred replica cannot lead now keeps its leader. Raises `KafkaError`.
    """
    return sum(_elect(client, some) for some in in_batches(partitions))


def _elect(client: Client, partitions: Sequence[TopicPartition]) -> int:
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[
            TopicPartitions(topic=name, partitions=[one.partition for one in those])
            for name, those in by_topic(partitions).items()
        ],
    )
    answer = command(client, request)
    check(answer.error_code)
    changed = 0
    for topic in answer.replica_election_results:
        for one in topic.partition_result:
            if one.error_code not in _NOT_ELECTED:
                check(one.error_code, f"{topic.topic}-{one.partition_id}: {one.error_message}")
            changed += not one.error_code
    return changed
