"""The controller's answer to a leader that asks for another in-sync set (AlterPartition, key 56).

Sources: Kafka's ``ReplicationControlManager.alterPartition``; KIP-497, KIP-704, KIP-841, KIP-903. On purpose otherwise
than there: a member whose directory is not online is INELIGIBLE_REPLICA, a member whose broker epoch the leader does not know passes only if it is in sync already, and a partition that is
named twice is changed once. The set that holds already, named without any broker epoch, raises the partition epoch: leaders of
this project ask for that when a change was refused and another copy of it may still be on its way. Kafka's name their own epoch.

A leader of this project may also ask for a higher leader epoch: a cluster whose disks went back in time gives epochs out that
its archives know already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.metadata.controller.broker_changes import present_registration
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.controller.partition_change import PartitionRules, PartitionTarget, partition_change
from stratalog.metadata.image.decision import Decision, Steps, at_once
from stratalog.metadata.image.directory_ids import is_online
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import LEADER_EPOCH_MAX, NO_LEADER_CHANGE, LeaderRecovery, PartitionImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.records.metadata import PartitionChangeRecord
from stratalog.wire.schema import Message

__all__ = ["Member", "Proposal", "ProposalAnswer", "alter_partitions", "altering_partitions"]

_UNKNOWN_EPOCH: Final = -1


class Member(NamedTuple):
    """A wanted member of an in-sync set. The epoch of its broker is -1 if the leader does not know it."""

    broker_id: int
    broker_epoch: int = _UNKNOWN_EPOCH


class Proposal(Struct, frozen=True):
    """The wanted in-sync set of one partition, and the state that the leader has in view."""

    key: PartitionKey
    leader_epoch: int
    partition_epoch: int
    members: tuple[Member, ...]
    leader_recovery: int = LeaderRecovery.RECOVERED
    leader_epoch_above: int = -1
    """If it is not negative, no other set is wanted, but a leader epoch above it."""


class ProposalAnswer(Struct, frozen=True):
    """The answer about one partition: a code, and on success the state that holds."""

    key: PartitionKey
    code: ErrorCode
    state: PartitionImage | None = None


def altering_partitions(
    view: ClusterView, broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
) -> Steps[tuple[ProposalAnswer, ...]]:
    """Grant or refuse in-sync sets and leader epochs; a partition that is refused does not stop the others.

    A change that ends a reassignment and gives the leadership to another replica is made, and answered
    NEW_LEADER_ELECTED. Raises `KafkaError` STALE_BROKER_EPOCH.
    """
    present_registration(view, broker_id, broker_epoch)
    rules = view.rules()
    records: list[Message] = []
    answers: list[ProposalAnswer] = []
    now: dict[PartitionKey, PartitionImage] = {}
    for proposal in proposals:
        yield
        key = proposal.key
        topic = view.image.topics.by_id.get(key.topic_id)
        state = None if topic is None else now.get(key, topic.partitions.get(key.number))
        if topic is None or state is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.append(ProposalAnswer(key, code))
            continue
        if proposal.leader_epoch_above >= 0:
            code, record, state = _raising(broker_id, state, proposal)
        else:
            code, record, state = _granting(view, broker_id, state, proposal, rules(topic.name))
        if record is not None:
            records.append(record)
            now[key] = state
        answers.append(ProposalAnswer(key, code, None if code else state))
    return Decision(tuple(records), tuple(answers), is_atomic=False)


alter_partitions = at_once(altering_partitions)


def _granting(
    view: ClusterView, broker_id: int, state: PartitionImage, proposal: Proposal, rules: PartitionRules
) -> tuple[ErrorCode, Message | None, PartitionImage]:
    """The code for a wanted set, the record that grants it, if one is needed, and the partition afterwards."""
    refused = _refusal(view, broker_id, state, proposal)
    if refused is not None:
        return refused, None, state
    key = proposal.key
    target = PartitionTarget(
        in_sync_replicas=tuple(member.broker_id for member in proposal.members),
        leader_recovery=LeaderRecovery(proposal.leader_recovery),
    )
    record = partition_change(key.topic_id, key.number, state, target, rules)
    if record is None and all(member.broker_epoch == _UNKNOWN_EPOCH for member in proposal.members):
        record = _raised_epoch(key, state)
    if record is None:
        return ErrorCode.NONE, None, state
    keeps_leader = record.leader in {broker_id, NO_LEADER_CHANGE}
    return ErrorCode.NONE if keeps_leader else ErrorCode.NEW_LEADER_ELECTED, record, state.changed(record)


def _raising(
    broker_id: int, state: PartitionImage, asked: Proposal
) -> tuple[ErrorCode, Message | None, PartitionImage]:
    """The code for a wanted leader epoch, the record that raises it, if it is not as high already, and the partition afterwards.

    The set stays what it is, so the partition epoch is not compared.
    """
    checks = (
        (asked.leader_epoch > state.leader_epoch, ErrorCode.NOT_CONTROLLER),
        (broker_id != state.leader, ErrorCode.INVALID_REQUEST),
        (asked.leader_epoch_above >= LEADER_EPOCH_MAX, ErrorCode.INVALID_REQUEST),
    )
    refused = next((code for is_wrong, code in checks if is_wrong), ErrorCode.NONE)
    if refused or state.leader_epoch > asked.leader_epoch_above:
        return refused, None, state
    raised = state.raised_above(asked.leader_epoch_above)
    return ErrorCode.NONE, raised.to_record(asked.key.topic_id, asked.key.number), raised


def _raised_epoch(key: PartitionKey, state: PartitionImage) -> PartitionChangeRecord:
    """The same set under another partition epoch: by it a leader learns that none of its earlier requests can be granted."""
    return PartitionChangeRecord(partition_id=key.number, topic_id=key.topic_id, isr=list(state.in_sync_replicas))


def _refusal(view: ClusterView, broker_id: int, state: PartitionImage, asked: Proposal) -> ErrorCode | None:
    """Why a proposal is refused, in the order in which Kafka checks."""
    ids = [member.broker_id for member in asked.members]
    recovery = asked.leader_recovery
    checks = (
        (asked.leader_epoch > state.leader_epoch, ErrorCode.NOT_CONTROLLER),
        (asked.partition_epoch > state.partition_epoch, ErrorCode.NOT_CONTROLLER),
        (asked.leader_epoch < state.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (broker_id != state.leader, ErrorCode.INVALID_REQUEST),
        (asked.partition_epoch < state.partition_epoch, ErrorCode.INVALID_UPDATE_VERSION),
        (len(set(ids)) != len(ids) or not set(ids).issubset(state.replicas), ErrorCode.INVALID_REQUEST),
        (state.leader not in ids, ErrorCode.INVALID_REQUEST),
        (recovery not in LeaderRecovery.__members__.values(), ErrorCode.INVALID_REQUEST),
        (recovery == LeaderRecovery.RECOVERING and len(ids) > 1, ErrorCode.INVALID_REQUEST),
        (recovery == LeaderRecovery.RECOVERING != state.leader_recovery, ErrorCode.INVALID_REQUEST),
        (not all(_is_eligible(view, state, member) for member in asked.members), ErrorCode.INELIGIBLE_REPLICA),
    )
    return next((code for is_wrong, code in checks if is_wrong), None)


def _is_eligible(view: ClusterView, state: PartitionImage, member: Member) -> bool:
    broker = view.image.brokers.brokers.get(member.broker_id)
    if broker is None or not broker.is_active:
        return False
    if member.broker_id in state.replicas and not is_online(state.directory_of(member.broker_id), broker.directories):
        return False
    if member.broker_epoch == _UNKNOWN_EPOCH:
        return member.broker_id in state.in_sync_replicas
    return member.broker_epoch == broker.epoch
