"""The words between `BrokerLifecycle` and its driver: what happens to this broker, and what is to be done."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from stratalog.wire.topic import Uuid

__all__ = [
    "Action",
    "Beat",
    "BeatAnswered",
    "CaughtUp",
    "DataLost",
    "DirectoryFailed",
    "DirectoryLeft",
    "End",
    "Ended",
    "Event",
    "FencedAgain",
    "LeaderChanged",
    "LifecycleTimes",
    "LogsOpened",
    "MetadataProgress",
    "OtherStops",
    "Phase",
    "Refused",
    "Register",
    "Registered",
    "RegistrationChanged",
    "RegistrationLost",
    "Started",
    "StopWanted",
    "Ticked",
    "TookEpoch",
    "Unanswered",
    "Unfenced",
]


class LifecycleTimes(Struct, frozen=True, kw_only=True):
    """The times of one broker, by Kafka's settings."""

    heartbeat_interval_ms: int = 2000
    """``broker.heartbeat.interval.ms``."""
    session_timeout_ms: int = 9000
    """``broker.session.timeout.ms``."""
    registration_timeout_ms: int = 60_000
    """``initial.broker.registration.timeout.ms``."""
    directory_timeout_ms: int = 30_000
    """``log.dir.failure.timeout.ms``."""


class Phase(Enum):
    """Where a broker is in its life."""

    NEW = "not started"
    STARTING = "registering and catching up with the metadata log"
    RECOVERY = "opening its logs, or fenced"
    RUNNING = "serving"
    STOPPING = "in controlled shutdown"
    ENDED = "ended"


class End(Enum):
    """How a broker's registration ends."""

    MAY_STOP = "the controller lets it go"
    NEVER_SERVED = "it served no client"
    NOT_REGISTERED = "the controller does not know its registration any more"
    STOP_TIMED_OUT = "the controller did not let it go in time"
    NOT_REGISTERED_IN_TIME = "it could not be registered in time"
    DIRECTORY_NOT_REPORTED = "the failure of a directory could not be reported in time"

    @property
    def is_failure(self) -> bool:
        """Whether the process must end though it was not asked to."""
        return self in {End.NOT_REGISTERED_IN_TIME, End.DIRECTORY_NOT_REPORTED}


class MetadataProgress(NamedTuple):
    """How far this broker's own image of the metadata goes, and how far the log is known to be committed."""

    applied_offset: int
    """The offset of the last record in the image; -1 for none."""
    high_watermark: int
    """The offset behind the last committed record; -1 if it is not known."""
    registered_epoch: int
    """The epoch of the registration that the image has for this id; -1 for none."""


class Started(NamedTuple):
    """The broker begins."""


class Registered(NamedTuple):
    """The controller has registered it."""

    number: int
    broker_epoch: int
    metadata: MetadataProgress


class BeatAnswered(NamedTuple):
    """The controller has answered a heartbeat."""

    number: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    metadata: MetadataProgress


class Refused(NamedTuple):
    """The controller has answered with an error."""

    number: int
    error_code: int


class Unanswered(NamedTuple):
    """A request has ended without an answer. It may have been carried out."""

    number: int


class LogsOpened(NamedTuple):
    """The logs are open: the broker can lead and follow."""


class DirectoryFailed(NamedTuple):
    """A log directory has failed for good. ``is_held``: the controller hears of it after `DirectoryLeft`."""

    directory: Uuid
    is_held: bool = False


class DirectoryLeft(NamedTuple):
    """The controller takes no replica to be in a directory that has failed if it lies elsewhere."""

    directory: Uuid


class RegistrationChanged(NamedTuple):
    """The registration that the image has is not what this broker would say now, of its directories say."""


class OtherStops(NamedTuple):
    """The image says that another broker stops: the controller lets it go once it knows that all have seen that."""


class LeaderChanged(NamedTuple):
    """Another controller is active."""


class StopWanted(NamedTuple):
    """The process is to stop, and waits for the controller as long as this."""

    timeout_ms: int


class Ticked(NamedTuple):
    """It is `BrokerLifecycle.wake_at_ms`, or a little later."""


class DataLost(NamedTuple):
    """Replicas of this broker turned out to lack what it had: it gives its registration up, and begins a new one without them."""


Event = (
    Started
    | Registered
    | BeatAnswered
    | Refused
    | Unanswered
    | LogsOpened
    | DirectoryFailed
    | DirectoryLeft
    | DataLost
    | RegistrationChanged
    | OtherStops
    | LeaderChanged
    | StopWanted
    | Ticked
)


class Register(NamedTuple):
    """Send BrokerRegistration, and say what became of it under this number."""

    number: int
    incarnation_id: Uuid
    previous_broker_epoch: int


class Beat(NamedTuple):
    """Send BrokerHeartbeat, with the offset that the image has now, and say what became of it under this number."""

    number: int
    broker_epoch: int
    wants_fence: bool
    wants_shutdown: bool
    offline_directories: tuple[Uuid, ...]
    names_cordoned: bool
    """Whether it names the cordoned directories; before the broker has caught up it does not."""


class TookEpoch(NamedTuple):
    """The broker is registered under a new epoch."""

    broker_epoch: int


class RegistrationLost(NamedTuple):
    """The controller knows the registration under this epoch no more: the broker leads nothing, and registers anew."""

    broker_epoch: int
    is_given_up: bool = False
    """The broker itself has given it up: it has lost data."""


class CaughtUp(NamedTuple):
    """The image has the broker's own registration and all that was committed before: logs may be opened by it."""


class Unfenced(NamedTuple):
    """The broker may serve clients."""


class FencedAgain(NamedTuple):
    """The controller has fenced the broker, whose session was over; the next heartbeat asks to be unfenced."""


class Ended(NamedTuple):
    """No more requests are sent. ``error_code`` is that of the last refusal, 0 for none."""

    end: End
    error_code: int


Action = Register | Beat | TookEpoch | RegistrationLost | CaughtUp | Unfenced | FencedAgain | Ended
