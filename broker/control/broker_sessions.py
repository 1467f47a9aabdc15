"""Drives the sessions of brokers at the active controller: heartbeats, registrations, and the timer that fences.

A contact counts when its heartbeat arrives, not when it has its turn. A controller that becomes active gives every broker
a full session; one that is not active keeps none and fences none. A session is over sooner where the broker's process is
known to have ended: see `broker_probing`. Decisions are pure, in `broker_heartbeats`. Sources: Kafka's
``QuorumController.processBrokerHeartbeat``, ``ControllerApis``; KIP-631.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Final

from msgspec import Struct

from stratalog.broker.control.broker_probing import BrokerProbing, HeartbeatSource, ProbingServices
from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.peers.dialer import Dialer
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.controller.controller import (
    BrokerHeartbeats,
    BrokerRegistration,
    Heartbeat,
    HeartbeatAnswer,
    answering_heartbeat,
    fencing_silent_brokers,
    registering,
)
from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.decision import Steps
from stratalog.metadata.image.image import ClusterImage, ImageDelta
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["BrokerSessions", "SessionServices"]

log = logging.getLogger(__name__)

_CHECKS_A_SESSION: Final = 8
"""So often in a session time-out the controller looks for brokers that are silent, as Kafka's does."""
_REFUSED_MAX: Final = 64


class SessionServices(Struct, frozen=True, kw_only=True):
    """The parts of a controller that its sessions use; times in milliseconds.

    ``next_offset`` gives the offset that the next record of the metadata log gets. A heartbeat that has no turn within
    ``heartbeat_timeout_ms`` is refused: Kafka's controllers wait for half of broker.heartbeat.interval.ms. ``dialer``
    connects to listeners of brokers.
    """

    control: ControlPlane
    cluster: ClusterIndex
    clock: Clock
    dialer: Dialer
    cluster_id: str
    next_offset: Callable[[], int]
    session_timeout_ms: int
    heartbeat_timeout_ms: int


class BrokerSessions:
    """Begins inactive. Listens to the images and to the leader of the metadata log."""

    def __init__(self, services: SessionServices) -> None:
        self._services = services
        self._heartbeats = BrokerHeartbeats(services.session_timeout_ms)
        self._probing = BrokerProbing(
            ProbingServices(
                dialer=services.dialer,
                clock=services.clock,
                session_timeout_ms=services.session_timeout_ms,
                brokers=lambda: self._brokers.values(),  # noqa: PLW0108 - the brokers of the newest image
                gone=self._gone,
            )
        )
        self._epoch: int | None = None
        self._brokers: Mapping[int, BrokerImage] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._fencing: asyncio.Task[None] | None = None
        self._checked = 0.0
        self._has_waited = False
        self._refused: dict[int, ErrorCode | int] = {}
        """The last refusal of brokers that ask to be registered."""
        self.timed_out_count: int = 0
        """Heartbeats that had no turn in time, since start."""

    # -- listening ------------------------------------------------------------------------------------------------

    def leader_changed(self, leader: LeaderAndEpoch, is_active: bool) -> None:
        """The leader is another one, or this controller has become active or has ceased to be."""
        if not is_active:
            self.close()
            self._epoch = None
        elif leader.epoch != self._epoch:
            self.close()
            self._epoch = leader.epoch
            self._heartbeats.take_over(self._services.control.image, self._now_ms())
            self._checked = self._services.clock.monotonic()
            self._check_later()
            self._probing.begin()

    def follow(self, image: ClusterImage, _delta: ImageDelta | None = None) -> None:
        """The next image: sessions of brokers that are registered no more end."""
        gone = self._brokers.keys() - image.brokers.brokers.keys()
        self._brokers = image.brokers.brokers
        for broker_id in gone:
            self._heartbeats.forgotten(broker_id)

    def close(self) -> None:
        """End the timers, and what they have begun."""
        self._probing.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fencing is not None:
            self._fencing.cancel()
            self._fencing = None

    def silent_ms(self) -> dict[int, int]:
        """For how long nothing was heard of each broker; empty where this controller is not active."""
        if self._epoch is None:
            return {}
        now_ms = self._now_ms()
        heard = self._heartbeats.contacts().items()
        return {broker_id: now_ms - contact_ms for broker_id, contact_ms in heard if contact_ms is not None}

    # -- requests of brokers --------------------------------------------------------------------------------------

    def contacted(self, broker_id: int, broker_epoch: int, source: HeartbeatSource) -> None:
        """A heartbeat has arrived by a connection. Raises `KafkaError` NOT_CONTROLLER where this controller is not active."""
        if self._epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This controller is not the active one.")
        if self._heartbeats.contacted(broker_id, broker_epoch, self._now_ms()):
            self._probing.heard(broker_id, source)

    def connection_lost(self, broker_id: int, broker_epoch: int, grace_ms: int) -> None:
        """The connections of a broker broke and none can be made: its session ends after ``grace_ms`` at the latest."""
        self._heartbeats.connection_lost(broker_id, broker_epoch, self._now_ms(), grace_ms)

    async def heartbeat(self, beat: Heartbeat, source: Hashable) -> HeartbeatAnswer:
        """Answer a heartbeat once its records are committed; ``source`` is the client.

        Raises `KafkaError` STALE_BROKER_EPOCH, NOT_CONTROLLER, or REQUEST_TIMED_OUT if it had no turn in time.
        """
        services = self._services
        begun = False

        def decide(image: ClusterImage) -> Steps[HeartbeatAnswer]:
            nonlocal begun
            begun = True
            view = services.cluster.view(image)
            now_ms, next_offset = self._now_ms(), services.next_offset()
            return answering_heartbeat(self._heartbeats, view, beat, now_ms=now_ms, next_offset=next_offset)

        command = asyncio.ensure_future(services.control.execute(decide, source=source))
        try:
            await asyncio.wait({command}, timeout=services.heartbeat_timeout_ms / 1000)
            if command.done() or begun:
                return await command
        except asyncio.CancelledError:
            command.cancel()
            raise
        command.cancel()
        self.timed_out_count += 1
        why = f"The heartbeat of broker {beat.broker_id} had no turn within {services.heartbeat_timeout_ms} ms."
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)

    async def register(self, asked: BrokerRegistration, source: Hashable) -> int:
        """Register a broker; its epoch. Raises `KafkaError` as `registering` does."""
        services = self._services
        self._end_former_session(asked)

        def decide(image: ClusterImage) -> Steps[int]:
            return registering(
                self._heartbeats,
                services.cluster.view(image),
                asked,
                cluster_id=services.cluster_id,
                next_offset=services.next_offset(),
                now_ms=self._now_ms(),
            )

        try:
            epoch = await services.control.execute(decide, source=source)
        except KafkaError as error:
            self._say_refused(asked.broker_id, error)
            raise
        self._refused.pop(asked.broker_id, None)
        image = services.control.image
        present = image.brokers.brokers.get(asked.broker_id)
        if present is not None and present.epoch == epoch:
            # A record of the quorum's own may have come before the registration: it lies at this offset at the latest.
            self._heartbeats.registered(asked.broker_id, epoch, image.provenance.offset)
        return epoch

    def _end_former_session(self, asked: BrokerRegistration) -> None:
        """The same directories under another process: the one before, which had locked them, has ended if it is not heard.

        A second broker that has the same id by mistake has directories of its own, and is refused.
        """
        present = self._brokers.get(asked.broker_id)
        if present is None or present.incarnation_id == asked.incarnation_id or self._epoch is None:
            return
        is_same = bool(present.directories) and set(present.directories) == set(asked.directories)
        if is_same and self._probing.is_absent(present.broker_id, present.epoch):
            self.connection_lost(present.broker_id, present.epoch, 0)

    def _say_refused(self, broker_id: int, error: KafkaError) -> None:
        """A line for each reason in a row: a broker asks again, and its answer has a number and no words."""
        if error.code is ErrorCode.NOT_CONTROLLER or self._refused.get(broker_id) == error.code:
            return
        while len(self._refused) >= _REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[broker_id] = error.code
        log.warning("broker %d is not registered: %s", broker_id, error.message)

    # -- fencing --------------------------------------------------------------------------------------------------

    def _check_later(self) -> None:
        seconds = self._services.session_timeout_ms / 1000 / _CHECKS_A_SESSION
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check, seconds)

    def _gone(self, broker_id: int, broker_epoch: int) -> None:
        self.connection_lost(broker_id, broker_epoch, 0)
        self._begin_fencing()

    def _begin_fencing(self) -> None:
        if self._fencing is None or self._fencing.done():
            self._fencing = asyncio.get_running_loop().create_task(self._fence())

    def _check(self, seconds: float) -> None:
        """Fence the brokers that are silent, unless this process itself stood still: then it reads first what came."""
        now = self._services.clock.monotonic()
        stood_still = now - self._checked > 2 * seconds and not self._has_waited
        self._checked, self._has_waited = now, stood_still
        if not stood_still:
            self._begin_fencing()
        self._check_later()

    async def _fence(self) -> None:
        services = self._services

        def decide(image: ClusterImage) -> Steps[tuple[int, ...]]:
            return fencing_silent_brokers(self._heartbeats, services.cluster.view(image), self._now_ms())

        try:
            while fenced := await services.control.execute(decide, source=self):
                names = ", ".join(map(str, fenced))
                log.warning(
                    "brokers %s are fenced: their sessions of %d ms are over", names, services.session_timeout_ms
                )
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                log.error("silent brokers could not be fenced; it is tried again: %s", error)
        except Exception:
            log.exception("silent brokers could not be fenced; it is tried again")

    def _now_ms(self) -> int:
        return int(self._services.clock.monotonic() * 1000)
