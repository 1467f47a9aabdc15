"""Appends that are under way: what a partition keeps of each until it is acknowledged.

The appender brings the object that waits: for a produce request the one that also holds the place of its answer, so
that a small batch costs one object and no closure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Protocol

from msgspec import Struct

from stratalog.hot.log.log import AppendInfo
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.wire.batch import HEADER_BYTES, read_header
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["Acknowledge", "CallingBack", "HeldAppend", "WaitingAppend", "ended_by"]

log = logging.getLogger(__name__)

_EPOCH_BUMP_SINCE: Final = 2
"""From this transaction version on a marker has an epoch above that of what it ends: the log refuses what is late."""

Acknowledge = Callable[[AppendInfo | KafkaError], None]
"""Told once how an append ended."""


class WaitingAppend(Protocol):
    """An append that is not yet acknowledged.

    ``deadline`` (monotonic seconds) bounds the wait for ``acks=-1``. ``info`` is set by the partition as soon as the
    batch has its place in the log.
    """

    deadline: float
    info: AppendInfo

    @property
    def source(self) -> Hashable:
        """The sender of the batch: work on the batches of many senders is done in turns."""
        ...

    @property
    def acknowledge(self) -> Acknowledge:
        """Called exactly once: with ``info`` when the batch is as safe as was asked, with an error otherwise."""
        ...


class CallingBack:
    """A waiting append that tells a callable."""

    __slots__ = ("acknowledge", "deadline", "info")

    info: AppendInfo
    source: Hashable = None

    def __init__(self, acknowledge: Acknowledge, deadline: float = float("inf")) -> None:
        self.acknowledge = acknowledge
        self.deadline = deadline


class HeldAppend(Struct):
    """An append that has no place in the log yet: it waits for its own rework, or behind one that does."""

    records: memoryview | bytearray
    acks: int
    release: Callable[[], None] | None
    waiting: WaitingAppend
    ready: bool
    origin: AppendOrigin = AppendOrigin.CLIENT
    transaction_version: int = 0
    error: KafkaError | None = None

    def settle(self, out: bytearray | Exception, topic_partition: TopicPartition) -> None:
        """Take over what its rework gave, the new batch or why there is none: it is ready for its turn."""
        if isinstance(out, KafkaError):
            self.error = out
        elif isinstance(out, Corrupt):
            self.error = KafkaError(ErrorCode.CORRUPT_MESSAGE, str(out))
        elif isinstance(out, Exception):
            log.error("a batch of %s could not be reworked: %s", topic_partition, out)
            self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the batch could not be reworked: {out}")
        else:
            self.give_back()
            self.records = out
        self.ready = True

    def give_back(self) -> None:
        """Let go of the receive buffer, once: a worker may answer after the append has been refused."""
        release, self.release = self.release, None
        if release is not None:
            release()


def ended_by(held: Iterable[HeldAppend], records: memoryview | bytearray) -> bool:
    """Whether a marker that waits among ``held`` ends the transaction of the batch that comes behind it.

    The log still calls that transaction open, so its coordinator has not been asked; behind its end the batch would
    begin one without an end. The producer's next transaction cannot be under way before this marker stands.
    """
    if len(records) < HEADER_BYTES:
        return False
    header = read_header(records)
    if not header.is_transactional:
        return False
    producer = header.producer_id, header.producer_epoch
    for one in held:
        if one.origin is AppendOrigin.COORDINATOR and one.transaction_version < _EPOCH_BUMP_SINCE:
            marker = read_header(one.records)
            if (marker.producer_id, marker.producer_epoch) == producer:
                return True
    return False
