"""Drives the probes of brokers that have no connection to the active controller.

Decisions are pure, in `broker_probes`. A probe is a plain connection that is closed at once: it sends nothing, and a
listener of any protocol can be asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, Protocol

from msgspec import Struct

from stratalog.broker.peers.dialer import Dialer
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.controller.controller import BrokerProbes, Gone, Look, Probe, Probed
from stratalog.metadata.image.brokers_image import BrokerImage, ListenerAddress

__all__ = ["BrokerProbing", "HeartbeatSource", "ProbingServices"]

log = logging.getLogger(__name__)

_LOOKS_A_SESSION: Final = 64
_CONNECTS_A_SESSION: Final = 4
"""This part of a session time-out the brokers have to connect to a new controller."""
_PROBE_SECONDS: Final = 1.0


class HeartbeatSource(Protocol):
    """The connection by which a heartbeat came."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""


class ProbingServices(Struct, frozen=True, kw_only=True):
    """The parts of a controller that its probes use.

    ``brokers`` gives those that are registered; ``gone`` ends the session of a broker and an epoch.
    """

    dialer: Dialer
    clock: Clock
    session_timeout_ms: int
    brokers: Callable[[], Collection[BrokerImage]]
    gone: Callable[[int, int], None]


class BrokerProbing:
    """Begins inactive."""

    def __init__(self, services: ProbingServices) -> None:
        self._services = services
        self._probes = BrokerProbes(services.session_timeout_ms // _CONNECTS_A_SESSION)
        self._sources: dict[int, HeartbeatSource] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._said: dict[int, int] = {}
        """The last epoch of each broker that was said to be gone."""

    def begin(self) -> None:
        """Begin as the active controller."""
        self.close()
        self._probes.take_over(self._now_ms())
        self._look()

    def close(self) -> None:
        """End the timer, and what it has begun."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._running:
            task.cancel()
        self._sources.clear()

    def heard(self, broker_id: int, source: HeartbeatSource) -> None:
        """A heartbeat of a broker's present incarnation came by a connection."""
        self._sources[broker_id] = source

    def is_absent(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether an incarnation has had the time to connect, and has no connection."""
        self._step(self._seen())
        return self._probes.is_absent(broker_id, broker_epoch, self._now_ms())

    def _look(self) -> None:
        seconds = self._services.session_timeout_ms / 1000 / _LOOKS_A_SESSION
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)
        self._step(self._seen())

    def _seen(self) -> Look:
        brokers = self._services.brokers()
        registered = {broker.broker_id for broker in brokers}
        self._sources = {
            one: source for one, source in self._sources.items() if one in registered and not source.closed
        }
        return Look(brokers, self._sources.keys())

    def _step(self, event: Look | Probed) -> None:
        for action in self._probes.step(event, self._now_ms()):
            match action:
                case Probe():
                    task = asyncio.get_running_loop().create_task(self._probe(action))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
                case Gone(broker_id, broker_epoch):
                    if self._said.get(broker_id) != broker_epoch:
                        self._said[broker_id] = broker_epoch
                        log.warning("broker %d is gone: its host refuses connections", broker_id)
                    self._services.gone(broker_id, broker_epoch)

    async def _probe(self, probe: Probe) -> None:
        """Ask the listeners one after the other, until one does not refuse."""
        named = next((one for one in self._services.brokers() if one.broker_id == probe.broker_id), None)
        listeners = () if named is None else tuple(named.listeners.values())
        is_refused = bool(listeners)
        for listener in listeners:
            if not await self._refuses(listener, probe.number):
                is_refused = False
                break
        self._step(Probed(probe, is_refused))

    async def _refuses(self, listener: ListenerAddress, number: int) -> bool:
        dialing = self._services.dialer.dial(asyncio.Protocol, listener.host, listener.port, number)
        try:
            transport = await asyncio.wait_for(dialing, _PROBE_SECONDS)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False  # a silent host may be one that only this controller does not reach
        transport.abort()
        return False

    def _now_ms(self) -> int:
        return int(self._services.clock.monotonic() * 1000)
