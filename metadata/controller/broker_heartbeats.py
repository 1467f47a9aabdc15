"""The sessions of brokers at the active controller: soft state, which no log holds.

A broker that is heard of keeps its session; one that is silent for the session time-out is fenced. A contact counts
from its arrival, however long its heartbeat waits for a turn. A new controller knows nothing of former contacts and
gives every broker a full session. The state of a broker itself is in the image: see `broker_states`. Sources: Kafka's
``BrokerHeartbeatManager``, ``BrokerHeartbeatTracker``; KIP-631, KIP-841.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from stratalog.metadata.controller.broker_changes import present_registration
from stratalog.metadata.controller.broker_states import BrokerEvent, BrokerState, Response, response_to, state_of
from stratalog.metadata.controller.cluster_view import ClusterView
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.topic import Uuid

__all__ = [
    "Action",
    "BrokerHeartbeats",
    "ControlledShutdown",
    "Fence",
    "Heartbeat",
    "MayStop",
    "Tick",
    "Unfence",
]

_UNKNOWN: Final = -1


class Heartbeat(Struct, frozen=True, kw_only=True):
    """A broker's report. ``metadata_offset`` is the offset of the last record that its image holds."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shutdown: bool = False
    offline_directories: tuple[Uuid, ...] = ()
    cordoned_directories: tuple[Uuid, ...] | None = None


class Tick(Struct, frozen=True):
    """Time has passed. At most ``fences_max`` brokers are fenced, those that are silent for longest."""

    fences_max: int = 1


class Fence(Struct, frozen=True):
    """Fence a broker."""

    broker_id: int


class Unfence(Struct, frozen=True):
    """Let a broker lead and join."""

    broker_id: int


class ControlledShutdown(Struct, frozen=True):
    """Move what a broker leads; `BrokerHeartbeats.shutdown_begun` hears of the records."""

    broker_id: int


class MayStop(Struct, frozen=True):
    """Answer a broker that it may stop."""

    broker_id: int


Action = Fence | Unfence | ControlledShutdown | MayStop


class _Session(Struct):
    """The session of one incarnation. Offsets are -1 while they are not known."""

    broker_epoch: int
    contact_ms: int | None = None
    metadata_offset: int = _UNKNOWN
    registered_offset: int = _UNKNOWN
    """The broker is unfenced no sooner than its image holds this record: its registration, or one behind that."""
    shutdown_offset: int = _UNKNOWN
    """The last record of its controlled shutdown."""


class BrokerHeartbeats:
    """Begins without sessions: see :meth:`take_over`. Times are of a clock that never goes back."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}

    def take_over(self, image: ClusterImage, now_ms: int) -> None:
        """Begin as the active controller: every registered broker gets a full session."""
        self._sessions = {
            broker.broker_id: _Session(broker.epoch, now_ms, registered_offset=image.provenance.offset)
            for broker in image.brokers.brokers.values()
        }

    def registered(self, broker_id: int, broker_epoch: int, registered_offset: int) -> None:
        """A registration was decided, whose record is at ``registered_offset`` or before."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = _Session(broker_epoch)
        session.registered_offset = registered_offset

    def forgotten(self, broker_id: int) -> None:
        """A broker is no longer registered."""
        self._sessions.pop(broker_id, None)

    def contacted(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """A heartbeat has arrived, though it may wait for its turn. One of another incarnation counts for nothing.

        Whether it is one of the incarnation that has the session.
        """
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            return False
        session.contact_ms = now_ms
        return True

    def connection_lost(self, broker_id: int, broker_epoch: int, now_ms: int, grace_ms: int) -> None:
        """A broker's connections broke and none can be made: its session ends after ``grace_ms`` at the latest.

        A contact in that time gives a full session again.
        """
        session = self._sessions.get(broker_id)
        if session is not None and session.broker_epoch == broker_epoch and session.contact_ms is not None:
            session.contact_ms = min(session.contact_ms, now_ms + grace_ms - self._session_timeout_ms)

    def has_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether an incarnation was in contact within the session time-out."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch or session.contact_ms is None:
            return False
        return now_ms - session.contact_ms < self._session_timeout_ms

    def contacts(self) -> Mapping[int, int | None]:
        """When each broker was heard of last; None for one that has registered and sent no heartbeat yet."""
        return {broker_id: session.contact_ms for broker_id, session in self._sessions.items()}

    def is_caught_up(self, broker_id: int, metadata_offset: int) -> bool:
        """Whether an image that goes as far as ``metadata_offset`` holds the broker's registration."""
        session = self._sessions.get(broker_id)
        return session is not None and metadata_offset >= session.registered_offset

    def shutdown_begun(self, broker_id: int, last_offset: int) -> None:
        """The controlled shutdown of a broker has its last record, so far, at ``last_offset``."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.shutdown_offset = last_offset

    def step(self, event: Heartbeat | Tick, view: ClusterView, now_ms: int) -> tuple[Action, ...]:
        """Take an event. Raises `KafkaError` STALE_BROKER_EPOCH for a heartbeat of another incarnation."""
        if isinstance(event, Tick):
            return self._tick(event, view.image, now_ms)
        broker = present_registration(view, event.broker_id, event.broker_epoch)
        session = self._sessions.get(event.broker_id)
        if session is None or session.broker_epoch != event.broker_epoch:
            session = _Session(event.broker_epoch, now_ms, registered_offset=view.image.provenance.offset)
            self._sessions[event.broker_id] = session
        session.metadata_offset = event.metadata_offset
        return self._respond(response_to(self._said(event), state_of(broker)), event, session, view)

    def _said(self, beat: Heartbeat) -> BrokerEvent:
        if beat.wants_shutdown:
            return BrokerEvent.WANTS_FENCE_AND_SHUTDOWN if beat.wants_fence else BrokerEvent.WANTS_SHUTDOWN
        if beat.wants_fence:
            return BrokerEvent.WANTS_FENCE
        caught_up = self.is_caught_up(beat.broker_id, beat.metadata_offset)
        return BrokerEvent.CAUGHT_UP if caught_up else BrokerEvent.BEHIND

    def _respond(self, response: Response, beat: Heartbeat, session: _Session, view: ClusterView) -> tuple[Action, ...]:
        broker_id = beat.broker_id
        match response:
            case Response.UNFENCE:
                return (Unfence(broker_id),)
            case Response.FENCE:
                return (Fence(broker_id),)
            case Response.FENCE_AND_STOP:
                return (Fence(broker_id), MayStop(broker_id))
            case Response.MAY_STOP:
                return (MayStop(broker_id),)
            case Response.BEGIN_STOP | Response.STOP_IF_DONE if view.leads_any(broker_id):
                return (ControlledShutdown(broker_id),)
            case Response.BEGIN_STOP:
                return (Fence(broker_id), MayStop(broker_id))
            case Response.STOP_IF_DONE if session.shutdown_offset == _UNKNOWN:
                return (ControlledShutdown(broker_id),)  # begun under another controller
            case Response.STOP_IF_DONE if self._all_have_seen(broker_id, session, view.image):
                return (Fence(broker_id), MayStop(broker_id))
        return ()

    def _all_have_seen(self, broker_id: int, session: _Session, image: ClusterImage) -> bool:
        """Whether the images of a stopping broker and of all active ones hold the last record of its shutdown."""
        offsets = [session.metadata_offset]
        for other in image.brokers.brokers.values():
            if other.broker_id != broker_id and state_of(other) is BrokerState.ACTIVE:
                known = self._sessions.get(other.broker_id)
                offsets.append(_UNKNOWN if known is None else known.metadata_offset)
        return min(offsets) >= session.shutdown_offset

    def _tick(self, tick: Tick, image: ClusterImage, now_ms: int) -> tuple[Action, ...]:
        silent: list[tuple[int, int]] = []
        for broker in image.brokers.brokers.values():
            if response_to(BrokerEvent.SESSION_OVER, state_of(broker)) is not Response.FENCE:
                continue
            session = self._sessions.get(broker.broker_id)
            if session is None or session.broker_epoch != broker.epoch:
                session = self._sessions[broker.broker_id] = _Session(broker.epoch)
                session.registered_offset = image.provenance.offset
            if session.contact_ms is None:
                session.contact_ms = now_ms
            if now_ms - session.contact_ms >= self._session_timeout_ms:
                silent.append((session.contact_ms, broker.broker_id))
        return tuple(Fence(broker_id) for _, broker_id in sorted(silent)[: tick.fences_max])
