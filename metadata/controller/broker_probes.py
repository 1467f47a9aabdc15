"""Brokers without a connection to the active controller: their hosts are asked whether the processes still listen.

The host of a process that has ended refuses connections at once, long before the broker's session is over. A broker whose
listeners all refuse twice, with no heartbeat in between, is gone. Silence, a time-out and any other error say nothing: its
session decides then, as in Kafka, which has no such question. A new controller first leaves the brokers time to connect.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from stratalog.metadata.controller.broker_states import BrokerState, state_of
from stratalog.metadata.image.brokers_image import BrokerImage

__all__ = ["BrokerProbes", "Gone", "Look", "Probe", "Probed"]

REFUSALS_MIN: Final = 2
AGAIN_MS: Final = 100
"""From a refusal to the next question."""
LISTENS_MS: Final = 1000
"""From an answer that is no refusal to the next question."""


class Look(Struct, frozen=True):
    """Time has passed. ``connected``: the brokers whose last heartbeat came by a connection that is open."""

    brokers: Collection[BrokerImage]
    connected: Collection[int]


class Probe(Struct, frozen=True):
    """Try to connect to each listener of a broker, and tell the outcome with :class:`Probed`."""

    broker_id: int
    broker_epoch: int
    number: int


class Probed(Struct, frozen=True):
    """The outcome of a probe. ``is_refused``: every listener has refused the connection."""

    probe: Probe
    is_refused: bool


class Gone(Struct, frozen=True):
    """The process of a broker has ended: its session is over."""

    broker_id: int
    broker_epoch: int


class _Absence(Struct):
    """A broker without a connection."""

    broker_epoch: int
    next_ms: int
    refusals: int = 0
    pending: Probe | None = None


class BrokerProbes:
    """Times are of a clock that never goes back."""

    def __init__(self, connect_ms: int) -> None:
        """``connect_ms``: the time that brokers have to connect to a new controller."""
        self._connect_ms = connect_ms
        self._quiet_until_ms = 0
        self._absent: dict[int, _Absence] = {}
        self._probes = 0

    def take_over(self, now_ms: int) -> None:
        """Begin as the active controller: no broker can have connected yet."""
        self._absent.clear()
        self._quiet_until_ms = now_ms + self._connect_ms

    def is_absent(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether an incarnation has had the time to connect, and has no connection."""
        absence = self._absent.get(broker_id)
        return absence is not None and absence.broker_epoch == broker_epoch and now_ms >= self._quiet_until_ms

    def step(self, event: Look | Probed, now_ms: int) -> tuple[Probe | Gone, ...]:
        """Take an event."""
        return self._look(event, now_ms) if isinstance(event, Look) else self._probed(event, now_ms)

    def _look(self, look: Look, now_ms: int) -> tuple[Probe, ...]:
        absent: dict[int, _Absence] = {}
        probes: list[Probe] = []
        for broker in look.brokers:
            if state_of(broker) is BrokerState.FENCED or broker.broker_id in look.connected:
                continue
            absence = self._absent.get(broker.broker_id)
            if absence is None or absence.broker_epoch != broker.epoch:
                absence = _Absence(broker.epoch, max(now_ms, self._quiet_until_ms))
            absent[broker.broker_id] = absence
            if absence.pending is None and now_ms >= absence.next_ms:
                self._probes += 1
                absence.pending = Probe(broker.broker_id, broker.epoch, self._probes)
                probes.append(absence.pending)
        self._absent = absent
        return tuple(probes)

    def _probed(self, event: Probed, now_ms: int) -> tuple[Gone, ...]:
        absence = self._absent.get(event.probe.broker_id)
        if absence is None or absence.pending != event.probe:
            return ()  # the broker was heard in the meantime, or has another incarnation
        absence.pending = None
        absence.refusals = absence.refusals + 1 if event.is_refused else 0
        absence.next_ms = now_ms + (AGAIN_MS if event.is_refused else LISTENS_MS)
        if absence.refusals < REFUSALS_MIN:
            return ()
        absence.refusals, absence.next_ms = 0, now_ms + LISTENS_MS
        return (Gone(event.probe.broker_id, event.probe.broker_epoch),)
