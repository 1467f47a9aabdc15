"""The life of a broker in its cluster, from its registration to its controlled shutdown. Pure: ``step(event, now_ms)``.

The broker registers, and sends heartbeats that ask to be fenced until its own image has its registration and all that
was committed before. Then logs are opened; then heartbeats ask no more to be fenced, and once the controller says so
the broker serves. One request is in flight at a time, so answers cannot overtake each other; one that comes for an
abandoned request is dropped. Sources: Kafka's ``BrokerLifecycleManager``; KIP-631, KIP-858, KIP-966, KIP-1066. On
purpose otherwise than there: decision 0059.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from stratalog.broker.lifecycle.lifecycle_events import (
    Action,
    Beat,
    BeatAnswered,
    CaughtUp,
    DataLost,
    DirectoryFailed,
    DirectoryLeft,
    End,
    Ended,
    Event,
    FencedAgain,
    LeaderChanged,
    LifecycleTimes,
    LogsOpened,
    OtherStops,
    Phase,
    Refused,
    Register,
    Registered,
    RegistrationChanged,
    RegistrationLost,
    Started,
    StopWanted,
    Ticked,
    TookEpoch,
    Unanswered,
    Unfenced,
)
from stratalog.broker.peers.backoff import Backoff
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import Uuid

__all__ = ["CATCHING_UP_MS", "FIRST_STOP_MS", "RETRY_MS", "BrokerLifecycle"]

CATCHING_UP_MS: Final = 10
"""The time between heartbeats of a broker that catches up."""
FIRST_STOP_MS: Final = 50
"""The time between the first two heartbeats that ask to stop. It doubles, up to the time between heartbeats."""
RETRY_MS: Final = 100
"""The first wait after a failure. It doubles, up to the time between heartbeats."""

_NONE: Final = -1
_FORGOTTEN: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class BrokerLifecycle:
    """The state of one broker. Times are of a clock that never goes back."""

    def __init__(
        self,
        times: LifecycleTimes,
        *,
        previous_broker_epoch: int,
        new_incarnation: Callable[[], Uuid],
        draw: Callable[[], float],
    ) -> None:
        """``previous_broker_epoch`` is that of the process before if it lost nothing, else -1 (KIP-966).

        ``new_incarnation`` gives ids that were never used; ``draw`` is as in `Backoff.after`.
        """
        self._times = times
        self._new_incarnation = new_incarnation
        self._draw = draw
        self._retry = Backoff(RETRY_MS, max(RETRY_MS, times.heartbeat_interval_ms))
        self._previous_broker_epoch = previous_broker_epoch
        self.phase = Phase.NEW
        self.broker_epoch = _NONE
        """The epoch of the present registration; -1 without one."""
        self.incarnation_id = new_incarnation()
        self.is_fenced = True
        """As the controller has said last."""
        self._registers = True
        """Whether the next request is a registration."""
        self._logs_open = False
        self._catch_up_to = 0
        self._number = 0
        self._sent: Register | Beat | None = None
        self._sent_ms = 0
        self._at_once = False
        self._failures = 0
        self._error_code = 0
        self._due_ms: float = inf
        self._register_by_ms: float = inf
        self._stop_by_ms: float = inf
        self._contact_ms: int | None = None
        self._stop_ms = FIRST_STOP_MS
        self._offline: dict[Uuid, float] = {}
        """By when the controller must have heard of each directory that is offline; infinite once it has."""
        self._held: set[Uuid] = set()
        """Those of them that no heartbeat names yet."""

    @property
    def wake_at_ms(self) -> float:
        """When `Ticked` is due; infinite if nothing is waited for."""
        if self.phase is Phase.ENDED:
            return inf
        due_ms = inf if self._sent is not None else self._due_ms
        return min(due_ms, self._register_by_ms, self._stop_by_ms, *self._offline.values())

    def in_contact(self, now_ms: int) -> bool:
        """Whether the controller cannot have ended the session yet: it answered a heartbeat, and did not say fenced.

        The session counts from the sending of that heartbeat, which was before its arrival.
        """
        return self._contact_ms is not None and now_ms - self._contact_ms < self._times.session_timeout_ms

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take in ``event`` and say what is to be done, in this order. ``now_ms`` never goes back."""
        if self.phase is Phase.ENDED:
            return []
        match event:
            case BeatAnswered() | Registered() | Refused() | Unanswered():
                return self._answered(event, now_ms)
            case Ticked():
                return self._ticked(now_ms)
            case Started():
                self.phase = Phase.STARTING
                self._register_by_ms = now_ms + self._times.registration_timeout_ms
                return self._communicate(now_ms)
            case OtherStops():
                return self._hurry(now_ms) if self.phase is Phase.RUNNING else []
            case StopWanted():
                return self._stop_wanted(event, now_ms)
            case DataLost():
                return self._data_lost(now_ms)
            case _:
                return self._circumstances_changed(event, now_ms)

    def _circumstances_changed(
        self, event: LogsOpened | DirectoryFailed | DirectoryLeft | RegistrationChanged | LeaderChanged, now_ms: int
    ) -> list[Action]:
        match event:
            case LogsOpened():
                self._logs_open = True
                if self.phase is not Phase.RECOVERY:
                    return []
            case DirectoryFailed() | DirectoryLeft():
                if not self._is_to_be_said(event, now_ms) or self.broker_epoch == _NONE:
                    return []  # the first heartbeat says it
            case RegistrationChanged():
                if self.broker_epoch == _NONE or self.phase is Phase.STOPPING:
                    return []
                self._registers = True
            case LeaderChanged():
                if not self._failures and self._sent is None:
                    return []
                self._failures = 0
        return [] if self.phase is Phase.NEW else self._hurry(now_ms)

    def _is_to_be_said(self, event: DirectoryFailed | DirectoryLeft, now_ms: int) -> bool:
        """Whether heartbeats say from now on that a directory has failed."""
        directory = event.directory
        if isinstance(event, DirectoryLeft):
            self._held.discard(directory)
            return True
        if directory in self._offline:
            return False
        self._offline[directory] = now_ms + self._times.directory_timeout_ms
        if event.is_held:
            self._held.add(directory)
        return not event.is_held

    # -- requests -----------------------------------------------------------------------------------------

    def _communicate(self, now_ms: int) -> list[Action]:
        self._due_ms, self._at_once = inf, False
        self._number += 1
        self._sent_ms = now_ms
        if self._registers and not self._owes_report:
            self._sent = Register(self._number, self.incarnation_id, self._previous_broker_epoch)
        else:
            catches_up = self.phase is Phase.STARTING
            self._sent = Beat(
                self._number,
                self.broker_epoch,
                wants_fence=catches_up or not self._logs_open,
                wants_shutdown=self.phase is Phase.STOPPING,
                offline_directories=tuple(one for one in self._offline if one not in self._held),
                names_cordoned=not catches_up,
            )
        return [self._sent]

    @property
    def _owes_report(self) -> bool:
        """Whether the controller has this registration, and has yet to hear of a directory that is offline.

        A registration without that directory would hide it: its replicas there would stay in sync and lead.
        """
        return self.broker_epoch != _NONE and any(by_ms < inf for by_ms in self._offline.values())

    def _hurry(self, now_ms: int) -> list[Action]:
        """Communicate now, or as soon as the request in flight has ended."""
        if self._sent is None:
            return self._communicate(now_ms)
        self._at_once = True
        return []

    def _again(self, delay_ms: int, now_ms: int) -> list[Action]:
        """Communicate after ``delay_ms``, or at once if something has come up meanwhile."""
        if self._at_once:
            return self._communicate(now_ms)
        self._due_ms = now_ms + delay_ms
        return []

    def _failed(self, now_ms: int) -> list[Action]:
        delay_ms = self._retry.after(self._failures, self._draw)
        self._failures += 1
        return self._again(delay_ms, now_ms)

    def _answered(self, event: BeatAnswered | Registered | Refused | Unanswered, now_ms: int) -> list[Action]:
        sent = self._sent
        if sent is None or sent.number != event.number:
            return []
        self._sent = None
        if isinstance(event, BeatAnswered) and isinstance(sent, Beat):
            return self._beat_answered(sent, event, now_ms)
        if isinstance(event, Registered) and isinstance(sent, Register):
            return self._registered(event, now_ms)
        if isinstance(event, Refused):
            return self._refused(sent, event.error_code, now_ms)
        return self._failed(now_ms)

    def _registered(self, event: Registered, now_ms: int) -> list[Action]:
        self._registers = False
        self._register_by_ms = inf
        self._error_code = 0
        self._previous_broker_epoch = _NONE
        if event.broker_epoch == self.broker_epoch:
            return self._communicate(now_ms)
        self.broker_epoch = event.broker_epoch
        self._catch_up_to = event.metadata.high_watermark
        self._contact_ms, self.is_fenced = None, True
        if self.phase is not Phase.STOPPING:
            self.phase = Phase.STARTING
        return [TookEpoch(event.broker_epoch), *self._communicate(now_ms)]

    def _refused(self, sent: Register | Beat, error_code: int, now_ms: int) -> list[Action]:
        self._error_code = error_code
        if isinstance(sent, Beat):
            is_forgotten = error_code in _FORGOTTEN
        else:
            # The own incarnation is registered again without a question: another one has taken the id.
            is_forgotten = self.broker_epoch != _NONE and error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        if not is_forgotten:
            return self._failed(now_ms)
        if self.phase is Phase.STOPPING:
            return self._end(End.NOT_REGISTERED)
        lost = self._begin_anew(now_ms)
        return [lost, *self._failed(now_ms)]

    def _data_lost(self, now_ms: int) -> list[Action]:
        """Only a new incarnation can say so. Requests in flight are of the old one."""
        if self.broker_epoch == _NONE or self.phase is Phase.STOPPING:
            return []  # a registration that is not the first names no epoch before it
        lost = self._begin_anew(now_ms)._replace(is_given_up=True)
        return [lost, *self._communicate(now_ms)]

    def _begin_anew(self, now_ms: int) -> RegistrationLost:
        lost = RegistrationLost(self.broker_epoch)
        self.broker_epoch = _NONE
        self.incarnation_id = self._new_incarnation()
        self.phase = Phase.STARTING
        self._registers, self._at_once = True, False
        self._register_by_ms = now_ms + self._times.registration_timeout_ms
        self._contact_ms, self.is_fenced = None, True
        return lost

    def _beat_answered(self, sent: Beat, event: BeatAnswered, now_ms: int) -> list[Action]:
        self._failures = self._error_code = 0
        for directory in sent.offline_directories:
            self._offline[directory] = inf
        self._at_once = self._at_once or (self._registers and not self._owes_report)
        was_fenced, self.is_fenced = self.is_fenced, event.is_fenced
        self._contact_ms = None if event.is_fenced else self._sent_ms
        interval_ms = self._times.heartbeat_interval_ms
        match self.phase:
            case Phase.STARTING:
                if not self._has_caught_up(event):
                    return self._again(CATCHING_UP_MS, now_ms)
                self.phase = Phase.RECOVERY
                return [CaughtUp(), *self._again(CATCHING_UP_MS, now_ms)]
            case Phase.RECOVERY if not event.is_fenced and not sent.wants_fence:
                self.phase = Phase.RUNNING
                return [Unfenced(), *self._again(interval_ms, now_ms)]
            case Phase.STOPPING if event.should_shut_down and sent.wants_shutdown:
                return self._end(End.MAY_STOP)
            case Phase.STOPPING if sent.wants_shutdown:
                wait_ms, self._stop_ms = min(self._stop_ms, interval_ms), self._stop_ms * 2
                return self._again(wait_ms, now_ms)
        fenced: list[Action] = [FencedAgain()] if event.is_fenced and not was_fenced else []
        return fenced + self._again(interval_ms, now_ms)

    def _has_caught_up(self, event: BeatAnswered) -> bool:
        """Whether the image holds the present registration and all that was committed when it was answered.

        What is committed later is not waited for: a busy log would never be caught up with (KAFKA-13959).
        """
        metadata = event.metadata
        return (
            event.is_caught_up
            and metadata.registered_epoch == self.broker_epoch
            and metadata.applied_offset + 1 >= self._catch_up_to
        )

    # -- ending -------------------------------------------------------------------------------------------

    def _stop_wanted(self, event: StopWanted, now_ms: int) -> list[Action]:
        if self.phase is Phase.STOPPING:
            return []
        if self.phase is not Phase.RUNNING:
            return self._end(End.NEVER_SERVED)
        self.phase = Phase.STOPPING
        self._registers = False
        self._stop_by_ms = now_ms + event.timeout_ms
        return self._hurry(now_ms)

    def _ticked(self, now_ms: int) -> list[Action]:
        if now_ms >= self._register_by_ms:
            return self._end(End.NOT_REGISTERED_IN_TIME)
        if now_ms >= self._stop_by_ms:
            return self._end(End.STOP_TIMED_OUT)
        if any(now_ms >= by_ms for by_ms in self._offline.values()):
            return self._end(End.DIRECTORY_NOT_REPORTED)
        if self._sent is None and now_ms >= self._due_ms:
            return self._communicate(now_ms)
        return []

    def _end(self, end: End) -> list[Action]:
        self.phase = Phase.ENDED
        self._sent = self._contact_ms = None
        return [Ended(end, self._error_code)]
