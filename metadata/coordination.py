"""Shared by the pure coordinators: the events and actions by which their drivers speak with them.

A coordinator shard is the state machine of one partition of ``__consumer_offsets`` or ``__transaction_state``. A shard
keeps for good only that partition's records: :meth:`CoordinatorShard.replay` applies those that are in the log, and
``step`` hands out :class:`Write` for new ones. A shard applies what it writes at once, so that the next
event already sees it; the answers of a write leave only when its records are committed. If they cannot be, the driver
drops the shard and loads it anew from the log, so what was never committed is never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from stratalog.wire.errors import KafkaError
from stratalog.wire.schema import Message

__all__ = ["Action", "CoordinatorRecord", "CoordinatorShard", "Now", "Producer", "Reply", "Write"]


class Now(NamedTuple):
    """Both clocks: deadlines are kept in monotonic time, records carry wall-clock time."""

    monotonic_ms: int
    """Milliseconds since some fixed moment of this process; never goes back."""
    wall_ms: int
    """Milliseconds since 1970-01-01 UTC; may jump."""


class CoordinatorRecord(NamedTuple):
    """One record of a coordinator's log. ``value`` None is a tombstone."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """The owner of transaction records."""

    producer_id: int
    producer_epoch: int


class Reply(Struct):
    """Answer the request that ``token`` stands for: with a message, or with an error.

    ``durable``: the answer tells of state that an earlier :class:`Write` may not have committed yet; it leaves when
    every earlier one of this shard is committed.
    """

    token: Any
    response: Message | KafkaError
    durable: bool = False


class Write(Struct):
    """Append records, all in one batch if a segment can hold it, and send the answers when they are committed.

    With ``producer`` the batch is part of that producer's transaction. ``on_committed`` are events that the shard wants
    to hear then. ``divisible``: each record may hold without the others (tombstones), so very many are several batches.
    """

    records: Sequence[CoordinatorRecord]
    replies: Sequence[Reply] = ()
    producer: Producer | None = None
    on_committed: Sequence[Any] = ()
    divisible: bool = False


Action = Any
"""`Reply`, `Write`, or an action of one kind of coordinator that its driver carries out."""


class CoordinatorShard(Protocol):
    """One partition of a coordinator's topic, as its driver sees it. Pure."""

    def replay(self, key: bytes, value: bytes | None, *, offset: int, producer: Producer | None) -> None:
        """Apply a record of the log; ``producer`` if it belongs to a transaction. Raises `Corrupt`."""
        ...

    def replay_marker(self, producer: Producer, *, commit: bool, offset: int) -> None:
        """Apply the end of a producer's transaction."""
        ...

    def loaded(self, now: Now) -> list[Action]:
        """The log is applied to its end: deadlines begin, half-done work is taken up again."""
        ...

    def step(self, event: Any, now: Now) -> list[Action]:
        """Take an event; what is to be done, in order."""
        ...

    def deadline(self) -> int | None:
        """When, in monotonic milliseconds, `due` is to be called; None while nothing is waited for."""
        ...

    def due(self, now: Now) -> list[Action]:
        """The deadline has passed."""
        ...

    def parked(self) -> list[Any]:
        """The tokens of requests that are neither answered nor in a `Write`; they fail when the shard is unloaded."""
        ...
