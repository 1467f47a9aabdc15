"""The registration of a controller with the active one. Pure: ``step(event, now_ms)``.

A controller registers once the level of ``metadata.version`` is known and has a record for it, and again until its image
has its own incarnation. The active controller does so with itself, too. Sources: Kafka's
``ControllerRegistrationManager``; KIP-919.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from stratalog.broker.peers.backoff import Backoff
from stratalog.metadata.image.features import REGISTER_CONTROLLER_SINCE

__all__ = [
    "UNSEEN_MS",
    "Accepted",
    "ControllerEnrolment",
    "Enrol",
    "Event",
    "Failed",
    "ImageSeen",
    "LeaderChanged",
    "Ticked",
]

UNSEEN_MS: Final = 60_000
"""A registration that was accepted and is not in the image for so long is sent again."""

_RETRY: Final = Backoff(100, 10_000)


class ImageSeen(NamedTuple):
    """The image has changed. ``level`` is that of ``metadata.version``, 0 while it has none."""

    level: int
    has_incarnation: bool
    """Whether the image has this incarnation of this controller."""


class Accepted(NamedTuple):
    """The active controller has taken the registration: it is in the log, and comes by itself."""

    number: int


class Failed(NamedTuple):
    """The active controller refuses it, or has not answered."""

    number: int


class LeaderChanged(NamedTuple):
    """Another controller is active."""


class Ticked(NamedTuple):
    """It is `ControllerEnrolment.wake_at_ms`, or a little later."""


Event = ImageSeen | Accepted | Failed | LeaderChanged | Ticked


class Enrol(NamedTuple):
    """Send ControllerRegistration, and say what became of it under this number."""

    number: int


class ControllerEnrolment:
    """The state of one controller's registration."""

    def __init__(self, draw: Callable[[], float]) -> None:
        """``draw`` is as in `Backoff.after`."""
        self._draw = draw
        self._wanted = False
        self._number = 0
        self._in_flight = 0
        self._accepted = False
        self._failures = 0
        self.wake_at_ms: float = inf
        """When `Ticked` is due; infinite if nothing is waited for."""

    def step(self, event: Event, now_ms: int) -> list[Enrol]:
        """Take in ``event`` and say what is to be sent. ``now_ms`` never goes back."""
        match event:
            case ImageSeen():
                return self._image_seen(event)
            case Accepted() if event.number == self._in_flight:
                self._in_flight, self._accepted, self._failures = 0, True, 0
                self.wake_at_ms = now_ms + UNSEEN_MS if self._wanted else inf
            case Failed() if event.number == self._in_flight:
                self._in_flight = 0
                if self._wanted:
                    self.wake_at_ms = now_ms + _RETRY.after(self._failures, self._draw)
                    self._failures += 1
            case LeaderChanged() if self._failures and not self._in_flight:
                self._failures = 0
                return self._send()
            case Ticked() if now_ms >= self.wake_at_ms:
                return self._send()
        return []

    def _image_seen(self, event: ImageSeen) -> list[Enrol]:
        before, self._wanted = self._wanted, event.level >= REGISTER_CONTROLLER_SINCE and not event.has_incarnation
        if not self._wanted:
            self._accepted, self.wake_at_ms = False, inf
            return []
        waits = before and (self._accepted or self.wake_at_ms < inf)
        return [] if waits or self._in_flight else self._send()

    def _send(self) -> list[Enrol]:
        self.wake_at_ms, self._accepted = inf, False
        if not self._wanted:
            return []
        self._number += 1
        self._in_flight = self._number
        return [Enrol(self._number)]
