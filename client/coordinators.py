"""Requests of the client to the broker that coordinates a group or a transaction, asked again while that moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from stratalog.client.client import REACH_SECONDS, Client
from stratalog.client.link import BrokerUnavailable, check
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest

__all__ = [
    "COORDINATOR_MOVES",
    "GROUP",
    "TRANSACTION",
    "at_coordinator",
    "coordinators_away",
    "find_coordinator",
    "while_coordinators_move",
]

R = TypeVar("R")

GROUP: Final = 0
"""The kind of key: the id of a group."""

TRANSACTION: Final = 1
"""The kind of key: a transactional id."""

COORDINATOR_MOVES: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""A broker that answers with one of these has done nothing; soon it or another one will coordinate."""

_KEYS_SINCE: Final = 4
_RETRY_PAUSE_SECONDS: Final = 0.1
_TOPICS: Final = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
"""The topics that coordinators keep their state in."""


def find_coordinator(client: Client, key: str, key_type: int = GROUP) -> int:
    """The node that coordinates ``key``; its address is known to the client then. Raises `KafkaError`."""
    batched = client.version_of(FindCoordinatorRequest) >= _KEYS_SINCE
    request = FindCoordinatorRequest(
        key="" if batched else key, key_type=key_type, coordinator_keys=[key] if batched else []
    )
    answer = client.call(request)
    found = answer.coordinators[0] if batched else answer
    check(found.error_code, found.error_message or None)
    client.brokers[found.node_id] = (found.host, found.port)
    return int(found.node_id)


def while_coordinators_move(client: Client, attempt: Callable[[], R]) -> R:
    """The result of ``attempt``, made again while it raises one of `COORDINATOR_MOVES`.

    Raises what the last attempt raised once the client's ``timeout_seconds`` have passed.
    """
    deadline = client.monotonic() + client.timeout_seconds
    while True:
        try:
            return attempt()
        except KafkaError as error:
            if error.code not in COORDINATOR_MOVES or client.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_PAUSE_SECONDS)


def at_coordinator(client: Client, key: str, attempt: Callable[[int], R], key_type: int = GROUP) -> R:
    """The result of ``attempt`` for the node that coordinates ``key``, while that moves as above.

    Raises `BrokerAway` after `REACH_SECONDS` if that node does not answer, or if there is none because brokers are away:
    no other broker takes their place.
    """
    begun = client.monotonic()

    def found() -> int:
        try:
            node_id = find_coordinator(client, key, key_type)
        except KafkaError as error:
            is_late = client.monotonic() >= begun + REACH_SECONDS
            if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE or not is_late:
                raise
            if coordinators_away(client, _TOPICS[key_type]):
                topic = _TOPICS[key_type]
                raise BrokerUnavailable(
                    f"the coordinator is away: the partition of {topic} that it keeps this in has no leader"
                ) from error
            raise
        client.reach(node_id)
        return node_id

    return while_coordinators_move(client, lambda: attempt(found()))


def coordinators_away(client: Client, topic: str) -> int:
    """How many partitions of ``topic``, which coordinators keep their state in, have no leader: a list leaves theirs out.

    0 for a topic that does not exist yet, or that the caller may not see.
    """
    try:
        found = client.refresh([topic], skip_missing=True)
    except KafkaError:
        return 0
    return sum(partition.leader < 0 for one in found for partition in one.partitions)
