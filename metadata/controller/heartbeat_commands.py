"""The controller's answers to heartbeats and to the end of sessions, as records: sessions decide, this writes.

Sources: Kafka's ``ReplicationControlManager.processBrokerHeartbeat`` and ``maybeFenceOneStaleBroker``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.metadata.controller.broker_changes import (
    beginning_shutdown,
    cordon_directories,
    fencing_brokers,
    leaving_directories,
    present_registration,
    unfencing_broker,
)
from stratalog.metadata.controller.broker_heartbeats import (
    Action,
    BrokerHeartbeats,
    ControlledShutdown,
    Fence,
    Heartbeat,
    MayStop,
    Tick,
    Unfence,
)
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.image.decision import Decision, Steps, at_once
from stratalog.wire.schema import Message

__all__ = [
    "HeartbeatAnswer",
    "answer_heartbeat",
    "answering_heartbeat",
    "fence_silent_brokers",
    "fencing_silent_brokers",
]

_FENCES_MAX: Final = 16
"""Brokers that are fenced in one decision. None of them is elected in it, as one that is fenced next would be."""


class HeartbeatAnswer(Struct, frozen=True):
    """The answer to a heartbeat, once its records are committed."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def answering_heartbeat(
    heartbeats: BrokerHeartbeats, view: ClusterView, beat: Heartbeat, *, now_ms: int, next_offset: int
) -> Steps[HeartbeatAnswer]:
    """Answer a heartbeat. ``next_offset`` is the offset that the first of the records will have.

    Raises `KafkaError` STALE_BROKER_EPOCH.
    """
    broker = present_registration(view, beat.broker_id, beat.broker_epoch)
    actions = heartbeats.step(beat, view, now_ms)
    records: list[Message] = [
        *(yield from leaving_directories(view, broker, beat.offline_directories)),
        *cordon_directories(view, broker, beat.cordoned_directories),
    ]
    if records and actions:
        view = replace(view, image=(yield from view.image.applying(records)))
    is_fenced = broker.is_fenced
    for action in actions:
        records += yield from _carrying_out(action, view)
        if isinstance(action, ControlledShutdown):
            heartbeats.shutdown_begun(beat.broker_id, next_offset + len(records) - 1)
        is_fenced = isinstance(action, Fence) or (is_fenced and not isinstance(action, Unfence))
    answer = HeartbeatAnswer(
        is_caught_up=heartbeats.is_caught_up(beat.broker_id, beat.metadata_offset),
        is_fenced=is_fenced,
        should_shut_down=any(isinstance(action, MayStop) for action in actions),
    )
    return Decision(tuple(records), answer, is_atomic=False)


answer_heartbeat = at_once(answering_heartbeat)


def _carrying_out(action: Action, view: ClusterView) -> Generator[None, None, tuple[Message, ...]]:
    brokers = view.image.brokers.brokers
    match action:
        case Fence(broker_id):
            return (yield from fencing_brokers(view, (broker_id,))).records
        case Unfence(broker_id):
            return (yield from unfencing_broker(view, brokers[broker_id])).records
        case ControlledShutdown(broker_id):
            return (yield from beginning_shutdown(view, brokers[broker_id])).records
        case MayStop():
            return ()


def fencing_silent_brokers(heartbeats: BrokerHeartbeats, view: ClusterView, now_ms: int) -> Steps[tuple[int, ...]]:
    """Fence the brokers whose sessions are over, as many as one decision takes; the result names them.

    To be called each eighth of the session time-out, and again at once while it names any.
    """
    actions = heartbeats.step(Tick(_FENCES_MAX), view, now_ms)
    fenced = tuple(action.broker_id for action in actions if isinstance(action, Fence))
    decision = yield from fencing_brokers(view, fenced)
    return Decision(decision.records, fenced, is_atomic=False)


fence_silent_brokers = at_once(fencing_silent_brokers)
