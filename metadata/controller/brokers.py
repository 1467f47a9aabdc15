"""The controller's answers to brokers: registration, fencing, blocks of producer ids.

Each start of a broker registers it anew under a higher epoch and raises the leader epoch of every partition it leads,
so that whatever the former process still sends is fenced. Sources: Kafka's ``ClusterControlManager``,
``ReplicationControlManager``, ``ProducerIdControlManager``; KIP-631, KIP-730.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from stratalog.metadata.controller.broker_changes import fence_brokers, forgetting_broker
from stratalog.metadata.controller.cluster_view import ClusterView, ReplicationSettings
from stratalog.metadata.controller.partition_change import PartitionTarget, partition_change
from stratalog.metadata.image.brokers_image import BrokerImage, ListenerAddress, SupportedLevels
from stratalog.metadata.image.decision import Decision, Steps, at_once
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    ProducerIdsRecord,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = [
    "PRODUCER_IDS_PER_BLOCK",
    "BrokerStart",
    "ProducerIdBlock",
    "allocate_producer_ids",
    "begin_producer_era",
    "check_broker_epoch",
    "fence_broker",
    "first_of_era_above",
    "first_producer_id_of_era",
    "raise_leader_epoch",
    "register_broker",
    "unregister_broker",
    "unregistering_broker",
]

PRODUCER_IDS_PER_BLOCK: Final = 1000
_PRODUCER_ID_MAX: Final = (1 << 63) - 1
_ERA_BITS: Final = 20
_ERA_SHARE_BITS: Final = (
    14  # an era begins within 2**-14 of what is left: 2**29 places at first, and they never run out
)
_FENCED: Final = 1
_UNFENCED: Final = -1

UncleanAllowed = Callable[[str], bool]


class BrokerStart(Struct, frozen=True, kw_only=True):
    """A starting broker's description of itself."""

    broker_id: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerAddress]
    directories: tuple[Uuid, ...]
    rack: str | None = None
    features: Mapping[str, SupportedLevels] = field(default_factory=lambda: SUPPORTED_FEATURES)


class ProducerIdBlock(NamedTuple):
    """Ids ``first_id`` to ``first_id + id_count - 1``, given to one broker for good."""

    first_id: int
    id_count: int


def register_broker(
    image: ClusterImage, start: BrokerStart, *, broker_epoch: int, unclean_allowed: UncleanAllowed
) -> Decision[int]:
    """Register a started broker and unfence it; the result is its epoch.

    ``broker_epoch`` is the offset the first of the records will have, which makes epochs rise. The records register the
    broker, unfence it, and name it leader anew of the partitions it led and of those without a leader that it can
    lead. Raises `KafkaError` UNSUPPORTED_VERSION if a level of the cluster is beyond it, STALE_BROKER_EPOCH if the epoch is.
    """
    present = image.brokers.brokers.get(start.broker_id)
    if present is not None and broker_epoch <= present.epoch:
        why = f"Broker {start.broker_id} is registered with epoch {present.epoch}, {broker_epoch} is not above it."
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, why)
    _check_features(image, start)
    broker = BrokerImage(
        broker_id=start.broker_id,
        epoch=broker_epoch,
        incarnation_id=start.incarnation_id,
        listeners=start.listeners,
        features=start.features,
        rack=start.rack,
        directories=start.directories,
    )
    records: list[Message] = [
        broker.to_record(),
        BrokerRegistrationChangeRecord(broker_id=start.broker_id, broker_epoch=broker_epoch, fenced=_UNFENCED),
    ]
    view = _view(image.apply(records), unclean_allowed)
    rules = view.rules()
    for held in view.held_by(start.broker_id):
        state = held.state
        if state.leader not in {start.broker_id, NO_LEADER}:
            continue
        target = PartitionTarget(raises_leader_epoch=state.leader == start.broker_id)
        record = partition_change(held.topic.topic_id, held.number, state, target, rules(held.topic.name))
        if record is not None:
            records.append(record)
    return Decision(tuple(records), broker_epoch)


def _check_features(image: ClusterImage, start: BrokerStart) -> None:
    for name, level in image.features.items():
        levels = start.features.get(name)
        if levels is None or not levels.minimum <= level <= levels.maximum:
            why = (
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {levels.minimum if levels else 0} and "
                f"{levels.maximum if levels else 0}, inclusive."
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)


def _view(image: ClusterImage, unclean_allowed: UncleanAllowed) -> ClusterView:
    """The view of a controller of one broker, which keeps no index and has no second replica."""
    return ClusterView(
        image=image,
        settings=lambda name: ReplicationSettings(unclean_allowed=unclean_allowed(name)),
        heeds_directories=False,
    )


def fence_broker(image: ClusterImage, broker_id: int, *, unclean_allowed: UncleanAllowed) -> Decision[None]:
    """Fence a broker: it leaves every in-sync set with other members, and loses its leaderships to them.

    Raises `KafkaError` BROKER_ID_NOT_REGISTERED.
    """
    return fence_brokers(_view(image, unclean_allowed), (broker_id,))


def unregistering_broker(view: ClusterView, broker_id: int, *, only_broker: int | None) -> Steps[None]:
    """Unregister a broker that is gone for good.

    ``only_broker`` is the one that answers, where it has no peers: it would never register again while it runs. Raises
    `KafkaError` INVALID_REQUEST for that one, BROKER_ID_NOT_REGISTERED for a stranger.
    """
    if broker_id == only_broker:
        why = f"Broker {broker_id} answers this request; a running broker cannot be unregistered."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return (yield from forgetting_broker(view, broker_id))


unregister_broker = at_once(unregistering_broker)


def raise_leader_epoch(image: ClusterImage, topic_id: Uuid, partition: int, *, above: int) -> Decision[int]:
    """Raise the leader epoch of a partition above one that was found in use; the result is the new epoch.

    A controller whose disk went back in time gives epochs out that its archives know already. Raises `KafkaError`
    UNKNOWN_TOPIC_ID.
    """
    topic = image.topics.by_id.get(topic_id)
    state = None if topic is None else topic.partitions.get(partition)
    if state is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_ID, f"Partition {partition} of a topic that is gone has no leader epoch."
        )
    if state.leader_epoch > above:
        return Decision((), state.leader_epoch)
    raised = state.raised_above(above)
    return Decision((raised.to_record(topic_id, partition),), above + 1)


def check_broker_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> None:
    """Raise `KafkaError` unless the registration is the present one."""
    broker = image.brokers.brokers.get(broker_id)
    if broker is None:
        why = f"No broker registration found for broker id {broker_id}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, why)
    if broker.epoch != broker_epoch:
        why = f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, why)


def allocate_producer_ids(image: ClusterImage, broker_id: int, broker_epoch: int) -> Decision[ProducerIdBlock]:
    """The next block of producer ids, never given out again (KIP-730). Raises `KafkaError`."""
    check_broker_epoch(image, broker_id, broker_epoch)
    first = image.next_producer_id
    if first > _PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        why = f"Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit: {first}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
    next_id = first + PRODUCER_IDS_PER_BLOCK
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=next_id)
    return Decision((record,), ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK))


def begin_producer_era(image: ClusterImage, broker_id: int, draw: int) -> Decision[int]:
    """Begin another era of producer ids: archives may know ids and epochs of a time that this log does not.

    ``draw`` is a random number of 64 bits. It decides where the era begins, because a log that goes back twice to the same
    copy knows nothing of the first time. The answer is the first id that may be given out from now on.
    """
    next_id = first_of_era_above(image.next_producer_id, draw)
    broker = image.brokers.brokers.get(broker_id)
    epoch = -1 if broker is None else broker.epoch
    return Decision((ProducerIdsRecord(broker_id=broker_id, broker_epoch=epoch, next_producer_id=next_id),), next_id)


def first_of_era_above(next_producer_id: int, draw: int) -> int:
    """The first id of an era above ``next_producer_id``; see `begin_producer_era`."""
    era = (next_producer_id >> _ERA_BITS) + 1
    left = (_PRODUCER_ID_MAX >> _ERA_BITS) - era
    era += draw % max(left >> _ERA_SHARE_BITS, 1)
    return min(era << _ERA_BITS, _PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK)


def first_producer_id_of_era(image: ClusterImage) -> int:
    """The first producer id of this era. Transactional ids give up lower ones, whose epochs this log may not know."""
    return image.next_producer_id >> _ERA_BITS << _ERA_BITS
