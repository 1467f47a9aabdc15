"""Carries out what `ControllerEnrolment` decides: a controller's registration over a channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from stratalog.broker.lifecycle.complaints import Complaints
from stratalog.broker.lifecycle.controller_channel import Channel, Quorum
from stratalog.broker.lifecycle.controller_enrolment import (
    Accepted,
    ControllerEnrolment,
    Event,
    Failed,
    ImageSeen,
    LeaderChanged,
    Ticked,
)
from stratalog.broker.runtime.alarm import Alarm
from stratalog.metadata.image.brokers_image import ListenerAddress, SupportedLevels
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from stratalog.wire.topic import Uuid

__all__ = ["ControllerSelf", "Enrolment"]

log = logging.getLogger(__name__)


class ControllerSelf(Struct, frozen=True, kw_only=True):
    """A controller's description of itself."""

    controller_id: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerAddress]
    """The addresses of its controller listeners, by name."""
    features: Mapping[str, SupportedLevels]


class Enrolment:
    """One controller's registration. Used on one event loop only."""

    def __init__(
        self,
        me: ControllerSelf,
        *,
        channel: Channel,
        quorum: Quorum,
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        timeout_ms: int,
    ) -> None:
        """The first :meth:`image_applied` begins it. ``timeout_ms`` bounds one request."""
        self._me = me
        self._channel = channel
        self._quorum = quorum
        self._timeout_ms = timeout_ms
        self._machine = ControllerEnrolment(draw)
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._asked: asyncio.Future[Any] | None = None
        self._complaints = Complaints(log, f"controller {me.controller_id}")
        self._closed = False
        quorum.on_leader_change(lambda _leader, _is_active: self._step(LeaderChanged()))

    def image_applied(self, image: ClusterImage) -> None:
        """The image is another one; cheap, to be called for each."""
        mine = image.brokers.controllers.get(self._me.controller_id)
        has_incarnation = mine is not None and mine.incarnation_id == self._me.incarnation_id
        self._step(ImageSeen(image.features.get(METADATA_VERSION, 0), has_incarnation))

    def close(self) -> None:
        """Send nothing any more. The channel stays open: it is the caller's."""
        self._closed = True
        self._alarm.cancel()
        if self._asked is not None:
            self._asked.cancel()

    def _step(self, event: Event) -> None:
        if self._closed:
            return
        for action in self._machine.step(event, self._alarm.now_ms()):
            self._asked = self._channel.ask(self._request(), timeout_ms=self._timeout_ms)
            self._asked.add_done_callback(partial(self._answered, action.number))
        self._alarm.set(self._machine.wake_at_ms)

    def _request(self) -> ControllerRegistrationRequest:
        me = self._me
        return ControllerRegistrationRequest(
            controller_id=me.controller_id,
            incarnation_id=me.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(name=name, host=at.host, port=at.port, security_protocol=at.security_protocol)
                for name, at in me.listeners.items()
            ],
            features=[
                Feature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
                for name, levels in me.features.items()
            ],
        )

    def _answered(self, number: int, asked: asyncio.Future[Any]) -> None:
        if asked.cancelled():
            return
        error = asked.exception()
        if error is None and not asked.result().error_code:
            log.info("controller %d is registered with the active controller", self._me.controller_id)
            self._complaints.end()
            self._step(Accepted(number))
            return
        if error is not None:
            self._complaints.add(type(error).__name__, str(error))
        else:
            answer = asked.result()
            if answer.error_code == ErrorCode.NOT_CONTROLLER:
                self._channel.not_controller(self._quorum.leader.epoch)
            why = f"error {answer.error_code}{f': {answer.error_message}' if answer.error_message else ''}"
            text = f"ControllerRegistration: the active controller refuses it ({why}); it is asked again"
            self._complaints.add(str(answer.error_code), text)
        self._step(Failed(number))
