"""Requests that the active controller carries out, sent through any broker: a broker that finds none keeps them waiting.

Kafka's brokers pass a command on for as long as its client waits. Where no answer comes, the quorum is asked about itself, so
that the user learns whether there is a controller at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stratalog.client.client import REACH_SECONDS, Client
from stratalog.client.link import BrokerAway, BrokerLink, BrokerTimeout
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from stratalog.wire.schema import Message, Struct

__all__ = ["NO_CONTROLLER", "NO_CONTROLLER_CODES", "NoController", "command", "no_controller"]

NO_CONTROLLER: Final = (
    "no controller is active: topics, settings and quotas stay as they are until a majority of the voters is up and "
    "reaches each other; stratalog cluster shows the brokers, and the log of each controller says which voters it misses"
)
NO_CONTROLLER_CODES: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""The answers of a broker that found no active controller to ask."""


class NoController(KafkaError):
    """NOT_CONTROLLER for want of an active one; the last one may have carried the request out all the same."""


def no_controller(error: BrokerAway | KafkaError) -> NoController:
    """The error of a request that found no active controller."""
    return NoController(ErrorCode.NOT_CONTROLLER, f"{NO_CONTROLLER} ({error})")


def command(client: Client, request: Message) -> Any:
    """The answer to a command.

    Raises `BrokerAway`; `NoController` where no controller is active and no answer came, or one that says so: a
    controller that comes back soon may carry the command out all the same.
    """
    link = client.link()
    patience = min(REACH_SECONDS, client.timeout_seconds)
    try:
        answer = client.call(request)
    except BrokerTimeout as error:
        if _has_no_controller(link, patience):
            raise no_controller(error) from error
        raise
    if ErrorCode.REQUEST_TIMED_OUT in set(_codes(answer)) and _has_no_controller(link, patience):
        raise no_controller(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{link} has found none in time"))
    return answer


def _codes(answer: Struct) -> Iterator[int]:
    """The error codes in an answer, of the whole and of each thing in it."""
    for each in answer.fields_declared:
        value = getattr(answer, each.name)
        if each.name == "error_code":
            yield value
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, Struct):
                    yield from _codes(one)


def _has_no_controller(asked: BrokerLink, timeout_seconds: float) -> bool:
    """Whether a broker that answers knows no controller that does."""
    topic = RequestedTopic(topic_name="__cluster_metadata", partitions=[RequestedPartition(partition_index=0)])
    try:
        with BrokerLink(asked.host, asked.port, timeout_seconds=timeout_seconds, client_id=asked.client_id) as link:
            if DescribeQuorumRequest.api_key not in link.api_ranges():
                return False
            try:
                answer = link.call(DescribeQuorumRequest(topics=[topic]))
            except BrokerTimeout:
                return True
    except BrokerAway:
        return False
    codes = {answer.error_code, *(one.error_code for each in answer.topics for one in each.partitions)}
    return bool(codes & NO_CONTROLLER_CODES)
