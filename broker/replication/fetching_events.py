"""The words between `Fetching` and its driver: what happens to copies from one leader, and what is to be done."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.broker.replicas.log_position import LogPosition
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

__all__ = [
    "Action",
    "Answered",
    "Ask",
    "Correct",
    "Event",
    "Failed",
    "Followed",
    "Refused",
    "Released",
    "Take",
    "Taken",
    "Ticked",
]


class Followed(NamedTuple):
    """A partition is to be copied from this leader, in this epoch, from this position on."""

    key: PartitionKey
    leader_epoch: int
    position: LogPosition


class Released(NamedTuple):
    """A partition is not copied from this leader any more."""

    key: PartitionKey


class Answered(NamedTuple):
    """The leader has answered."""

    response: FetchResponse


class Failed(NamedTuple):
    """The request has no answer."""


class Taken(NamedTuple):
    """The records of an answer are in the log, which now goes that far."""

    key: PartitionKey
    leader_epoch: int
    position: LogPosition


class Refused(NamedTuple):
    """The records of an answer could not be taken: they are asked for again after a pause."""

    key: PartitionKey
    leader_epoch: int
    position: LogPosition


class Ticked(NamedTuple):
    """It is `Fetching.wake_at_ms`, or a little later."""


Event = Followed | Released | Answered | Failed | Taken | Refused | Ticked


class Ask(NamedTuple):
    """Send the request, and say `Answered` or `Failed`."""

    request: FetchRequest


class Take(NamedTuple):
    """Append the records, or cut the log where histories part; say `Taken` or `Refused`, at once or later."""

    key: PartitionKey
    leader_epoch: int
    data: PartitionData
    is_rest: bool = False
    """Left by an earlier turn."""


class Correct(NamedTuple):
    """The position lies outside the leader's log: ask for its ends, move there, and say `Taken` or `Refused`."""

    key: PartitionKey
    leader_epoch: int
    is_archived: bool
    """Whether the leader has moved what was asked for to the archive (KIP-405)."""


Action = Ask | Take | Correct
