"""Drives the duties of an active controller that no request asks for: its beginning, elections, signs of life.

Preferred replicas get their leaderships back from time to time, partitions without a leader get one that has everything, if
a decision was broken off before they had it, or an unclean one where their topic allows it, and a log in which nothing happens gets a record, by which brokers know that they are up to date.
Decisions are pure, in ``metadata.controller``. Sources: Kafka's ``QuorumController``, ``PeriodicTaskControlManager``. On
purpose otherwise than there: a new value of unclean.leader.election.enable holds at once for partitions without a leader,
and not at the end of the interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from stratalog.broker.control.cluster_index import ClusterIndex
from stratalog.broker.control.control_plane import ControlPlane
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.controller.controller import (
    ClusterView,
    Decision,
    balancing_leaders,
    electing_missing,
    electing_uncleanly,
)
from stratalog.metadata.image.decision import Steps
from stratalog.metadata.image.image import ClusterImage, ImageDelta
from stratalog.metadata.settings.catalogue.types import ConfigValue
from stratalog.wire.errors import ErrorCode, KafkaError, StratalogError
from stratalog.wire.records.metadata import NoOpRecord

__all__ = ["ControllerDuties", "DutyServices", "DutySettings"]

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_MISSING: Final = "elections that are missing"
_UNCLEAN: Final = "unclean elections"
_ALLOWS_UNCLEAN: Final = "unclean.leader.election.enable"


class DutySettings(Struct, frozen=True, kw_only=True):
    """How often each duty is done, in seconds; 0 for never."""

    balance_seconds: float
    idle_seconds: float
    unclean_seconds: float

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> DutySettings:
        """The duties by the broker settings ``values``, every one of them typed."""

        def number(name: str) -> int:
            value = values[name]
            assert isinstance(value, int), name
            return value

        balances = bool(values["auto.leader.rebalance.enable"])
        return cls(
            balance_seconds=number("leader.imbalance.check.interval.seconds") if balances else 0,
            idle_seconds=number("metadata.max.idle.interval.ms") / 1000,
            unclean_seconds=number("unclean.leader.election.interval.ms") / 1000,
        )


class DutyServices(Struct, frozen=True, kw_only=True):
    """The parts of a controller that its duties use."""

    control: ControlPlane
    cluster: ClusterIndex
    clock: Clock
    settings: DutySettings


class ControllerDuties:
    """Begins inactive. Listens to the images and to the leader of the metadata log."""

    def __init__(self, services: DutyServices) -> None:
        self._services = services
        self._epoch: int | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._written = 0.0
        """When the last record was applied."""
        self._allows_more = False
        """Whether a setting of unclean elections has changed since the last look at partitions without a leader began."""

    # -- listening ------------------------------------------------------------------------------------------------

    def leader_changed(self, leader: LeaderAndEpoch, is_active: bool) -> None:
        """The leader is another one, or this controller has become active or has ceased to be."""
        if not is_active:
            self.close()
            self._epoch = None
        elif leader.epoch != self._epoch:
            self.close()
            self._epoch = leader.epoch
            self._written = self._services.clock.monotonic()
            self._start("activation", self._activate())

    def follow(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
        """The next image: something was written."""
        self._written = self._services.clock.monotonic()
        if delta is not None and _UNCLEAN in self._timers and _allows_otherwise(image, delta):
            self._allows_more = True
            self._start(_UNCLEAN, self._elect_uncleanly())

    def close(self) -> None:
        """End the timers, and what they have begun."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._running.values():
            task.cancel()
        self._running.clear()

    # -- duties ---------------------------------------------------------------------------------------------------

    async def _activate(self) -> None:
        """Have the first records of this office written, and then begin with what comes from time to time."""
        services, settings = self._services, self._services.settings
        while True:
            try:
                await services.control.begin(self)
                break
            except KafkaError as error:
                if error.code is ErrorCode.NOT_CONTROLLER:
                    return
                log.error("the first records of the active controller failed; they are tried again: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)
        # The office before may have ended in the midst of them.
        self._start(_MISSING, self._elect(_MISSING, electing_missing))
        balance = "balance of leaders"
        self._repeat(balance, settings.balance_seconds, lambda: self._elect(balance, balancing_leaders))
        self._repeat(_UNCLEAN, settings.unclean_seconds, self._elect_uncleanly)
        if settings.idle_seconds:
            self._later("sign of life", settings.idle_seconds, self._idle)

    def _repeat(self, name: str, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not seconds:
            return

        def due() -> None:
            self._later(name, seconds, due)
            self._start(name, work())

        self._later(name, seconds, due)

    async def _elect_uncleanly(self) -> None:
        """Look at partitions without a leader, and once more if a setting has changed meanwhile."""
        await self._elect(_MISSING, electing_missing)
        while True:
            self._allows_more = False
            await self._elect(_UNCLEAN, electing_uncleanly)
            if not self._allows_more:
                return

    async def _elect(self, name: str, decide: Callable[[ClusterView], Steps[bool]]) -> None:
        """Decide in rounds, at once as long as there is more to be decided."""
        services = self._services
        count = 0

        def decided(image: ClusterImage) -> Steps[bool]:
            nonlocal count
            decision = yield from decide(services.cluster.view(image))
            count += len(decision.records)
            return decision

        while await services.control.execute(decided, source=self):
            pass
        if count:
            log.info("%s: %d partitions have another leader", name, count)

    def _idle(self) -> None:
        """Write a record that says nothing, unless another one was written in the meantime."""
        seconds = self._services.settings.idle_seconds
        left = self._written + seconds - self._services.clock.monotonic()
        self._later("sign of life", left if left > 0 else seconds, self._idle)
        if left <= 0:
            self._start("sign of life", self._write_nothing())

    async def _write_nothing(self) -> None:
        await self._services.control.execute(lambda _image: Decision((NoOpRecord(),), None), source=self)

    # -- timers and tasks -----------------------------------------------------------------------------------------

    def _later(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, call)

    def _start(self, name: str, work: Any) -> None:
        """Run a coroutine, unless the last one of this name still runs."""
        if name in self._running:
            work.close()
            return
        task = self._running[name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(partial(self._done, name))

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        if self._running.get(name) is task:
            del self._running[name]
        error = None if task.cancelled() else task.exception()
        if error is None or (isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER):
            return
        told = isinstance(error, StratalogError | OSError)
        log.error("%s of the active controller failed: %s", name, error, exc_info=None if told else error)


def _allows_otherwise(image: ClusterImage, delta: ImageDelta) -> bool:
    """Whether unclean elections are allowed or forbidden somewhere by a setting that was not so before."""
    before, now = delta.base.configs, image.configs
    return any(
        before.of(resource).get(_ALLOWS_UNCLEAN) != now.of(resource).get(_ALLOWS_UNCLEAN)
        for resource in delta.changed_resources
    )
