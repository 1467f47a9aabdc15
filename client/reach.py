"""Which leaders and coordinators of a cluster answer now: for commands that do what can be done, and name the rest.

A leader that is away is not waited for: with no other replica in sync, no broker stands in for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from stratalog.client.client import LATEST_OFFSET, REACH_SECONDS, BrokerAway, BrokerUnavailable, Client
from stratalog.client.coordinators import COORDINATOR_MOVES
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["NAMED_MAX", "Away", "Reached", "away_sentences", "or_away", "reached_partitions"]

R = TypeVar("R")

NAMED_MAX: Final = 20
"""Partitions that a sentence names; the others are counted."""
_LOOK_SECONDS: Final = 0.1
_NO_LEADER: Final = "no leader, because no broker that has the records is active"
_NO_END: Final = (
    "the leader does not know yet what is committed, because fewer than min.insync.replicas replicas are in sync; start the "
    "brokers of the others"
)


class Away(BrokerUnavailable):
    """The broker that knows what was asked for does not answer now."""


class Reached(NamedTuple):
    """The partitions whose leaders answer, in the order asked for, and why each other one is out of reach."""

    partitions: list[TopicPartition]
    away: dict[TopicPartition, str]


def reached_partitions(client: Client, partitions: Iterable[TopicPartition]) -> Reached:
    """Find the leaders of partitions and ask each how far it goes; looks again for some seconds if one does not know.

    One that was elected with too few replicas in sync does not know until others are (OFFSET_NOT_AVAILABLE). Raises
    `KafkaError` for a partition that does not exist.
    """
    wanted = list(dict.fromkeys(partitions))
    names = sorted({one.topic for one in wanted})
    deadline = client.monotonic() + min(REACH_SECONDS, client.timeout_seconds)
    while True:
        client.refresh(names)
        found = _looked(client, wanted)
        if not found.away or client.monotonic() >= deadline:
            return found
        time.sleep(_LOOK_SECONDS)


def _looked(client: Client, wanted: Iterable[TopicPartition]) -> Reached:
    reached: list[TopicPartition] = []
    away: dict[TopicPartition, str] = {}
    silence: dict[int, str] = {}
    for one in wanted:
        try:
            node_id = client.leader(one)
        except KafkaError as error:
            if error.code is not ErrorCode.LEADER_NOT_AVAILABLE:
                raise
            away[one] = _NO_LEADER
            continue
        if node_id not in silence:
            silence[node_id] = _silence(client, node_id)
        if silence[node_id]:
            away[one] = silence[node_id]
        else:
            reached.append(one)
    endless = _endless(client, reached)
    away |= dict.fromkeys((one for one in reached if one in endless), _NO_END)
    return Reached([one for one in reached if one not in endless], away)


def _endless(client: Client, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Those whose leader does not know where they end. The next request tells of other errors."""
    with suppress(BrokerAway):
        told = client.told_offsets(dict.fromkeys(partitions, LATEST_OFFSET))
        return {one for one, code, _ in told if code == ErrorCode.OFFSET_NOT_AVAILABLE}
    return set()


def _silence(client: Client, node_id: int) -> str:
    """Why a broker counts as away; empty if it answers."""
    try:
        client.reach(node_id)
    except BrokerAway as error:
        return f"node {node_id} leads and does not answer ({error})"
    return ""


def away_sentences(away: Mapping[TopicPartition, str]) -> list[str]:
    """A sentence for each reason, with the partitions that it keeps out of reach; of many the first ones."""
    partitions: dict[str, list[TopicPartition]] = {}
    for one, why in away.items():
        partitions.setdefault(why, []).append(one)
    sentences = []
    for why, those in partitions.items():
        more = f" and {len(those) - NAMED_MAX} more" if len(those) > NAMED_MAX else ""
        sentences.append(f"{', '.join(map(str, those[:NAMED_MAX]))}{more}: {why}.")
    return sentences


def or_away(what: str, attempt: Callable[[], R]) -> R:
    """The result of ``attempt``. Raises `Away`, which names ``what``, where the broker that knows it does not answer."""
    try:
        return attempt()
    except BrokerAway as error:
        raise Away(f"{what}: {error}") from error
    except KafkaError as error:
        if error.code not in COORDINATOR_MOVES:
            raise
        raise Away(f"{what}: {error}") from error
