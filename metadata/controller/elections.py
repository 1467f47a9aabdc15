"""Elections on request and from time to time: the preferred replica leads, or any that is alive.

Sources of rules and texts: Kafka's ``ReplicationControlManager.electLeaders``, ``maybeBalancePartitionLeaders`` and
``maybeElectUncleanLeaders``; KIP-183, KIP-460, KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from stratalog.metadata.controller.cluster_view import ClusterView, Held
from stratalog.metadata.controller.partition_change import Election, PartitionRules, PartitionTarget, partition_change
from stratalog.metadata.image.decision import Decision, Failure, Steps, at_once, failure_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.topic import TopicPartition

__all__ = [
    "ELECTIONS_MAX",
    "ElectionResults",
    "ElectionType",
    "balance_leaders",
    "balancing_leaders",
    "elect_leaders",
    "elect_missing",
    "elect_uncleanly",
    "electing_leaders",
    "electing_missing",
    "electing_uncleanly",
]

ELECTIONS_MAX: Final = 1000
"""Elections of one round in the background; the next one follows at once, others have their turn between."""


class ElectionType(IntEnum):
    """The kind of election asked for; the numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


ElectionResults = tuple[tuple[TopicPartition, Failure | None], ...]


def electing_leaders(
    view: ClusterView, election_type: int, partitions: Sequence[TopicPartition] | None
) -> Steps[ElectionResults]:
    """Hold elections. ``None`` is every partition; the result then omits those that need none.

    Raises `KafkaError` INVALID_REQUEST for a type that does not exist.
    """
    try:
        kind = ElectionType(election_type)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}") from error
    rules = view.rules(election=Election.PREFERRED if kind is ElectionType.PREFERRED else Election.ANY)
    records: list[PartitionChangeRecord] = []
    results: list[tuple[TopicPartition, Failure | None]] = []
    for one in _all(view.image) if partitions is None else partitions:
        yield
        try:
            records.append(_elect(view.image, kind, one, rules))
        except KafkaError as error:
            if partitions is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append((one, failure_of(error)))
        else:
            results.append((one, None))
    return Decision(tuple(records), tuple(results), is_atomic=False)


elect_leaders = at_once(electing_leaders)


def balancing_leaders(view: ClusterView, *, elections_max: int = ELECTIONS_MAX) -> Steps[bool]:
    """Give leaderships back to preferred replicas that can take them; the result is whether there may be more."""
    rules = view.rules(election=Election.PREFERRED)
    return (yield from _electing(view.not_preferred(), rules, elections_max))


balance_leaders = at_once(balancing_leaders)


def electing_uncleanly(view: ClusterView, *, elections_max: int = ELECTIONS_MAX) -> Steps[bool]:
    """Elect a living replica where there is no leader and the topic allows it; the result is whether there may be more.

    None that is being added: that takes a request.
    """
    rules = view.rules(election=Election.UNCLEAN)
    return (
        yield from _electing(
            view.leaderless(), rules, elections_max, only=lambda held: view.allows_unclean(held.topic.name)
        )
    )


elect_uncleanly = at_once(electing_uncleanly)


def electing_missing(view: ClusterView, *, elections_max: int = ELECTIONS_MAX) -> Steps[bool]:
    """Elect a replica that has everything where there is no leader and one could be; the result is whether there may be more.

    A broker is unfenced, and elected for what has no leader, in one decision. A crash or a full disk may leave a first part of
    it, and the broker does not ask again.
    """
    active = {one.broker_id for one in view.image.brokers.brokers.values() if one.is_active}

    def could_be(held: Held) -> bool:
        state = held.state
        known = (*state.in_sync_replicas, *state.eligible_leader_replicas, *state.last_known_eligible)
        return not active.isdisjoint(known)

    rules = view.rules(election=Election.ONLINE)
    return (yield from _electing(view.leaderless(), rules, elections_max, only=could_be))


elect_missing = at_once(electing_missing)


def _electing(
    candidates: Iterable[Held],
    rules: Callable[[str], PartitionRules],
    elections_max: int,
    *,
    only: Callable[[Held], bool] = lambda _held: True,
) -> Steps[bool]:
    records: list[PartitionChangeRecord] = []
    for held in candidates:
        yield
        if not only(held):
            continue
        if len(records) >= elections_max:
            return Decision(tuple(records), result=True, is_atomic=False)
        topic, number, state = held
        record = partition_change(topic.topic_id, number, state, PartitionTarget(), rules(topic.name))
        if record is not None:
            records.append(record)
    return Decision(tuple(records), result=False, is_atomic=False)


def _all(image: ClusterImage) -> Iterator[TopicPartition]:
    for name, topic in image.topics.by_name.items():
        for partition in topic.partitions:
            yield TopicPartition(name, partition)


def _elect(
    image: ClusterImage, kind: ElectionType, one: TopicPartition, rules: Callable[[str], PartitionRules]
) -> PartitionChangeRecord:
    """The record that makes another replica the leader. Raises `KafkaError` if no replica can be."""
    topic = image.topics.by_name.get(one.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {one.topic}")
    state = topic.partitions.get(one.partition)
    if state is None:
        why = f"No such partition as {one.topic}-{one.partition}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    is_done = state.leader == state.preferred_replica if kind is ElectionType.PREFERRED else state.leader != NO_LEADER
    if is_done:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = partition_change(topic.topic_id, one.partition, state, PartitionTarget(), rules(topic.name))
    if record is None and kind is ElectionType.PREFERRED:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    if record is None:
        why = "Eligible topic partition leaders are not available."
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)
    return record
