"""Decides which in-sync sets go to the controller, and when. Pure: ``step(event, now_ms)`` returns actions.

One AlterPartition request is in flight, with the changes of many partitions; those that come meanwhile go with the next.
A request without an answer, and a code that decides nothing, are asked again after a pause. A partition whose change has been
granted, or refused because the leader's view is old, waits for the metadata. Source: Kafka's ``AlterPartitionManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.broker.peers.backoff import Backoff
from stratalog.hot.replica_state import IsrChange
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.errors import ErrorCode

__all__ = ["Answered", "Asked", "Decided", "Event", "Failed", "InSyncRequests", "Send", "Ticked", "Wanted"]

PARTITIONS_MAX: Final = 1000
"""Partitions in one request: the controller carries it out as one command."""

_BACKOFF: Final = Backoff(50, 1000)

_REFUSED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Codes that end a change; the leader goes on with the set of the metadata."""

_UP_TO_METADATA: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Codes after which a newer image has the last word."""


class Asked(Struct, frozen=True):
    """A change of one partition that its leader wants, in one leader epoch."""

    leader_epoch: int
    change: IsrChange


class Wanted(NamedTuple):
    """A leader asks for another set. It takes the place of what was wanted for this partition before."""

    key: PartitionKey
    asked: Asked


class Answered(NamedTuple):
    """The controller has answered: a code for the whole, and one for each partition."""

    code: ErrorCode
    codes: Mapping[PartitionKey, ErrorCode]


class Failed(NamedTuple):
    """The request has no answer: what it asked for may have been granted."""


class Ticked(NamedTuple):
    """It is `InSyncRequests.wake_at_ms`, or a little later."""


Event = Wanted | Answered | Failed | Ticked


class Send(NamedTuple):
    """Send these changes, those that are still wanted, and say `Answered` or `Failed`."""

    asked: Mapping[PartitionKey, Asked]


class Decided(NamedTuple):
    """The controller has refused a change for good."""

    key: PartitionKey
    asked: Asked
    code: ErrorCode


Action = Send | Decided


class InSyncRequests:
    """The machine of one broker."""

    def __init__(self, draw: Callable[[], float]) -> None:
        """``draw`` gives numbers from 0.0 up to but without 1.0, for jitter."""
        self._draw = draw
        self._wanted: dict[PartitionKey, Asked] = {}
        self._in_flight: dict[PartitionKey, Asked] = {}
        self._failures = 0
        self._due_ms: float = 0

    @property
    def wake_at_ms(self) -> float:
        """When to say `Ticked` at the latest; infinite for never."""
        return self._due_ms if self._wanted and not self._in_flight else inf

    def holds(self, key: PartitionKey) -> bool:
        """Whether a change of the partition waits, or is on its way."""
        return key in self._wanted or key in self._in_flight

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take in an event. ``now_ms`` never goes back."""
        actions: list[Action] = []
        if isinstance(event, Wanted):
            self._wanted[event.key] = event.asked
        elif isinstance(event, Answered):
            self._answered(event, now_ms, actions)
        elif isinstance(event, Failed):
            self._again(self._in_flight, now_ms)
            self._in_flight = {}
        if self._wanted and not self._in_flight and now_ms >= self._due_ms:
            keys = [key for _, key in zip(range(PARTITIONS_MAX), self._wanted, strict=False)]
            self._in_flight = {key: self._wanted.pop(key) for key in keys}
            actions.append(Send(self._in_flight))
        return actions

    def _answered(self, event: Answered, now_ms: int, actions: list[Action]) -> None:
        in_flight, self._in_flight = self._in_flight, {}
        undecided: dict[PartitionKey, Asked] = {}
        for key, asked in in_flight.items():
            code = event.code or event.codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR)
            if event.code or not (code in _REFUSED or code in _UP_TO_METADATA):
                undecided[key] = asked
            elif code in _REFUSED:
                actions.append(Decided(key, asked, code))
        if undecided:
            self._again(undecided, now_ms)
        else:
            self._failures = 0

    def _again(self, asked: Mapping[PartitionKey, Asked], now_ms: int) -> None:
        for key, one in asked.items():
            self._wanted.setdefault(key, one)
        self._due_ms = now_ms + _BACKOFF.after(self._failures, self._draw)
        self._failures += 1
