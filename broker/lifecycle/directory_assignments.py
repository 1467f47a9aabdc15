"""Tells the controller in which directories this broker's replicas lie. Pure: ``step(event, now_ms)``.

The controller names the directory of a new replica itself where a broker has one. Where it has several the broker
chooses, and reports; until then the loss of a directory does not move the leadership. Reports wait for each other a
little, go out in batches, one in flight, and are repeated until they are taken. Sources: Kafka's ``AssignmentsManager``;
KIP-858.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from stratalog.broker.peers.backoff import Backoff
from stratalog.wire.topic import Uuid

__all__ = [
    "BATCH_MAX",
    "LINGER_MS",
    "DirectoryAssignments",
    "Event",
    "Failed",
    "Gone",
    "LeaderChanged",
    "Placed",
    "Replica",
    "Report",
    "Reported",
    "Ticked",
]

BATCH_MAX: Final = 2250
"""Replicas in one request, as in Kafka."""
LINGER_MS: Final = 10
"""The wait for other replicas of the same change."""

_RETRY: Final = Backoff(100, 10_000)


class Replica(NamedTuple):
    """The replica of a partition on this broker."""

    topic_id: Uuid
    partition: int


class Placed(NamedTuple):
    """A replica lies in a directory, and the image does not say so."""

    replica: Replica
    directory: Uuid


class Gone(NamedTuple):
    """A replica is no longer here, or the image names its directory: there is nothing to report."""

    replica: Replica


class Reported(NamedTuple):
    """The controller has answered."""

    number: int
    refused: frozenset[Replica]


class Failed(NamedTuple):
    """The controller refuses the request, or has not answered."""

    number: int


class LeaderChanged(NamedTuple):
    """Another controller is active."""


class Ticked(NamedTuple):
    """It is `DirectoryAssignments.wake_at_ms`, or a little later."""


Event = Placed | Gone | Reported | Failed | LeaderChanged | Ticked


class Report(NamedTuple):
    """Send AssignReplicasToDirs, and say what became of it under this number."""

    number: int
    directories: dict[Replica, Uuid]


class DirectoryAssignments:
    """The reports that are still to be taken: at most one entry for each replica of this broker."""

    def __init__(self, draw: Callable[[], float]) -> None:
        """``draw`` is as in `Backoff.after`."""
        self._draw = draw
        self._waiting: dict[Replica, Uuid] = {}
        """The entries that are in flight are among them."""
        self._sent: Report | None = None
        self._number = 0
        self._failures = 0
        self._due_ms: float = inf

    @property
    def wake_at_ms(self) -> float:
        """When `Ticked` is due; infinite if nothing is waited for."""
        return inf if self._sent is not None or not self._waiting else self._due_ms

    def __len__(self) -> int:
        return len(self._waiting)

    def awaits(self, replica: Replica) -> bool:
        """Whether the report of a replica is still to be taken."""
        return replica in self._waiting

    def step(self, event: Event, now_ms: int) -> list[Report]:
        """Take in ``event`` and say what is to be sent. ``now_ms`` never goes back."""
        match event:
            case Placed():
                if not self._waiting:
                    self._due_ms = now_ms + LINGER_MS
                self._waiting[event.replica] = event.directory
            case Gone():
                self._waiting.pop(event.replica, None)
            case Reported() if self._sent is not None and event.number == self._sent.number:
                return self._reported(self._sent, event.refused, now_ms)
            case Failed() if self._sent is not None and event.number == self._sent.number:
                self._sent = None
                self._back_off(now_ms)
            case LeaderChanged() if self._failures:
                self._failures, self._due_ms = 0, now_ms
                return self._send(now_ms)
            case Ticked():
                return self._send(now_ms)
        return []

    def _reported(self, sent: Report, refused: frozenset[Replica], now_ms: int) -> list[Report]:
        self._sent = None
        for replica, directory in sent.directories.items():
            if self._waiting.get(replica) != directory:
                continue  # it has moved meanwhile, or is gone
            del self._waiting[replica]
            if replica in refused:
                self._waiting[replica] = directory  # behind those that were not asked about yet
        if refused:
            self._back_off(now_ms)
            return []
        self._failures, self._due_ms = 0, now_ms
        return self._send(now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._due_ms = now_ms + _RETRY.after(self._failures, self._draw)
        self._failures += 1

    def _send(self, now_ms: int) -> list[Report]:
        if self._sent is not None or not self._waiting or now_ms < self._due_ms:
            return []
        self._number += 1
        self._sent = Report(self._number, dict(islice(self._waiting.items(), BATCH_MAX)))
        return [self._sent]
