"""The records of a change of one broker: fenced, unfenced, about to stop, gone, with fewer or cordoned directories.

Partitions come before the record of the broker, so that a part of them which a crash leaves is done again. A broker may
hold many thousands of them: commands in -ing are decided in steps, one partition each. Sources:
Kafka's ``ReplicationControlManager``; KIP-841, KIP-858, KIP-966, KIP-1066. On purpose otherwise than there: replicas
in a directory that is offline leave the eligible ones, too, and a fenced broker is not fenced again.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Final

from stratalog.metadata.controller.cluster_view import ClusterView, Held
from stratalog.metadata.controller.partition_change import PartitionRules, PartitionTarget, partition_change
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.decision import Decision, Steps, at_once
from stratalog.metadata.image.features import CORDONED_SINCE, DIRECTORIES_SINCE
from stratalog.metadata.maps.uncollected import leave_out_of_collections
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from stratalog.wire.schema import Message
from stratalog.wire.topic import Uuid

__all__ = [
    "begin_shutdown",
    "beginning_shutdown",
    "cordon_directories",
    "end_registration",
    "ending_registration",
    "fence_brokers",
    "fencing_brokers",
    "forget_broker",
    "forgetting_broker",
    "leave_directories",
    "leaving_directories",
    "present_registration",
    "unfence_broker",
    "unfencing_broker",
]

_NOW: Final = 1
_FIELDS: Final = tuple(spec.name for spec in PartitionChangeRecord.fields_declared)
_NO_MORE: Final = -1

_Records = Generator[None, None, list[PartitionChangeRecord]]


def present_registration(view: ClusterView, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The registration of a broker. Raises `KafkaError` STALE_BROKER_EPOCH unless it is the present one."""
    broker = view.image.brokers.brokers.get(broker_id)
    if broker is None:
        why = f"No broker registration found for broker id {broker_id}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, why)
    if broker.epoch != broker_epoch:
        why = f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, why)
    return broker


def fencing_brokers(view: ClusterView, broker_ids: Collection[int]) -> Steps[None]:
    """Fence brokers: they leave the in-sync sets, the last members excepted, and others lead what they led.

    Brokers that are fenced already are passed over. Raises `KafkaError` BROKER_ID_NOT_REGISTERED.
    """
    brokers = [_registered(view, broker_id) for broker_id in broker_ids]
    fenced = [broker for broker in brokers if not broker.is_fenced]
    records: list[Message] = [*(yield from _changing(view, fenced=[broker.broker_id for broker in fenced]))]
    records += [
        BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_NOW)
        for broker in fenced
    ]
    return Decision(tuple(records), None, is_atomic=False)


fence_brokers = at_once(fencing_brokers)


def unfencing_broker(view: ClusterView, broker: BrokerImage) -> Steps[None]:
    """Let a broker lead and join: it may lead partitions that have no leader."""
    records: list[Message] = [
        BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_NO_MORE)
    ]
    rules = view.rules(unfenced=(broker.broker_id,))
    for held in view.leaderless():
        yield
        if broker.broker_id in held.state.replicas:
            records += _change(held, PartitionTarget(), rules(held.topic.name))
    return Decision(tuple(records), None, is_atomic=False)


unfence_broker = at_once(unfencing_broker)


def beginning_shutdown(view: ClusterView, broker: BrokerImage) -> Steps[None]:
    """Begin the controlled shutdown of a broker: others lead what it led, and it leaves the in-sync sets of others."""
    records: list[Message] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=_NOW
            )
        )
    records += yield from _changing(view, stopping=(broker.broker_id,))
    return Decision(tuple(records), None, is_atomic=False)


begin_shutdown = at_once(beginning_shutdown)


def ending_registration(view: ClusterView, broker_id: int, *, is_clean: bool) -> _Records:
    """End the memberships and leaderships of a broker's former incarnation, before the record of its new one.

    After a clean stop it is as if the broker was fenced. After any other it may lack what it once had, and is neither in
    sync nor eligible, also as the last member.
    """
    if is_clean:
        return (yield from _changing(view, fenced=(broker_id,)))
    rules = view.rules(fenced=(broker_id,))
    target = PartitionTarget(lost=frozenset({broker_id}))
    records: list[PartitionChangeRecord] = []
    for held in view.held_by(broker_id):
        yield
        if _takes_part(held, broker_id):
            records += _change(held, target, rules(held.topic.name))
    return records


end_registration = at_once(ending_registration)


def forgetting_broker(view: ClusterView, broker_id: int) -> Steps[None]:
    """Unregister a broker that is gone for good. Raises `KafkaError` BROKER_ID_NOT_REGISTERED."""
    broker = view.image.brokers.brokers.get(broker_id)
    if broker is None:
        why = f"Broker ID {broker_id} is not currently registered"
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, why)
    changes = yield from ending_registration(view, broker_id, is_clean=not view.has_eligible)
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision((*changes, gone), None, is_atomic=False)


forget_broker = at_once(forgetting_broker)


def leaving_directories(
    view: ClusterView, broker: BrokerImage, reported: Collection[Uuid]
) -> Generator[None, None, list[Message]]:
    """The records after a broker reported directories as offline: its replicas there are neither in sync nor eligible.

    Directories that are known to be offline, or that the broker never had, change nothing.
    """
    gone = frozenset(broker.directories).intersection(reported)
    if not gone or view.level < DIRECTORIES_SINCE:
        return []
    rules = view.rules(offline=gone)
    target = PartitionTarget(lost=frozenset({broker.broker_id}))
    records: list[Message] = []
    for held in view.held_by(broker.broker_id):
        yield
        if held.state.directory_of(broker.broker_id) in gone and _takes_part(held, broker.broker_id):
            records += _change(held, target, rules(held.topic.name))
    left = [directory for directory in broker.directories if directory not in gone]
    records.append(BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=left))
    return records


leave_directories = at_once(leaving_directories)


def cordon_directories(view: ClusterView, broker: BrokerImage, reported: Sequence[Uuid] | None) -> list[Message]:
    """The record after a broker reported which directories get no new replicas; it reports ``None`` until it knows."""
    if reported is None or view.level < CORDONED_SINCE:
        return []
    present = broker.cordoned_directories
    if present is not None and set(present) == set(reported):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(reported)
        )
    ]


def _registered(view: ClusterView, broker_id: int) -> BrokerImage:
    broker = view.image.brokers.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
    return broker


def _takes_part(held: Held, broker_id: int) -> bool:
    """Whether a broker leads a partition, is in sync or is eligible."""
    state = held.state
    return (
        broker_id in state.in_sync_replicas or broker_id in state.eligible_leader_replicas or broker_id == state.leader
    )


def _changing(view: ClusterView, *, fenced: Collection[int] = (), stopping: Collection[int] = ()) -> _Records:
    """The records that take brokers out of in-sync sets and pass on their leaderships."""
    leaving = frozenset((*fenced, *stopping))
    rules = view.rules(fenced=fenced, stopping=stopping)
    records: list[PartitionChangeRecord] = []
    seen: set[tuple[Uuid, int]] = set()
    for broker_id in sorted(leaving):
        for held in view.held_by(broker_id):
            yield
            topic, number, state = held
            if state.leader not in leaving and leaving.isdisjoint(state.in_sync_replicas):
                continue
            if len(leaving) > 1:
                if (topic.topic_id, number) in seen:
                    continue
                seen.add((topic.topic_id, number))
            left = tuple([one for one in state.in_sync_replicas if one not in leaving])
            records += _change(held, PartitionTarget(in_sync_replicas=left), rules(topic.name))
    return records


def _change(held: Held, target: PartitionTarget, rules: PartitionRules) -> list[PartitionChangeRecord]:
    record = partition_change(held.topic.topic_id, held.number, held.state, target, rules)
    if record is None:
        return []
    # Tens of thousands wait for their commit when a broker goes away, and each is made of numbers and lists of numbers.
    for name in _FIELDS:
        value = getattr(record, name)
        if isinstance(value, list):
            leave_out_of_collections(value)
    leave_out_of_collections(record)
    return [record]
