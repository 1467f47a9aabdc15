"""Writes the markers of ended transactions, to each partition until the marker stands there.

A marker that cannot be written now (its log directory is offline, its partition is being opened, there are too few
replicas) is tried again, for as long as its coordinator lives; a partition that has been deleted has its end. One
that a partition refuses because it has seen a newer epoch of the producer stands there already, or the transaction
has been ended from outside: either way nothing of it is open there. The same goes for one that knows a newer coordinator
and has nothing of the producer open: the coordinator's disk went back in time, and the partition goes on from its archive. A
partition that another broker leads gets its marker by way of that broker, which says whether it has nothing open.

A transaction may have thousands of partitions, and thousands of transactions may be ended at once, at a load too: each
turn of the event loop begins few deliveries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from stratalog.broker.coordinators.partition_markers import MarkerDone, MarkerTarget, TransactionMarker
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.transactions.events import MarkersWritten, SendMarkers
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["RETRY_SECONDS", "MarkerWriter", "RemoteTarget"]

RETRY_SECONDS: Final = 0.1

_RETRIES_TOLD: Final = 50
_A_TURN: Final = 64
"""Deliveries that one turn of the event loop begins: an append takes some 50 us."""

log = logging.getLogger(__name__)


class RemoteTarget(Protocol):
    """The way of markers to other brokers."""

    def elsewhere(self, partition: TopicPartition) -> bool:
        """Whether another broker leads the partition, or no broker for now."""

    def write(
        self, partition: TopicPartition, marker: TransactionMarker, done: MarkerDone, wanted: Callable[[], bool]
    ) -> None:
        """Have the leader append the marker, however often that takes, as long as it is ``wanted``."""


class MarkerWriter:
    """Delivers markers to ``target`` and reports to the shard that sent them."""

    def __init__(
        self, target: MarkerTarget, image: Callable[[], ClusterImage], remote: RemoteTarget | None = None
    ) -> None:
        """``target`` takes those of partitions that this broker leads, ``remote`` the others; None: there are none."""
        self._target = target
        self._image = image
        self._remote = remote
        self._due: deque[_Delivery] = deque()
        """Deliveries that wait for another turn of the event loop."""
        self._room = _A_TURN
        self._counting = False

    def send(self, driver: ShardDriver, action: SendMarkers) -> None:
        """Write every marker of an ended transaction."""
        marker = TransactionMarker(action.producer, action.commit, driver.epoch, action.transaction_version)
        shard = driver.shard
        for partition in sorted(action.partitions):
            self.begin(_Delivery(self, driver, shard, action.transactional_id, partition, marker))

    def begin(self, delivery: _Delivery) -> None:
        """Begin a delivery now, or when it is its turn."""
        if self._room and not self._due:
            self._begin(delivery)
        else:
            self._due.append(delivery)

    def begin_later(self, delivery: _Delivery) -> None:
        """Begin it once more, after a pause."""
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self.begin, delivery)

    def _begin(self, delivery: _Delivery) -> None:
        self._room -= 1
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        delivery.begin()

    def _next_turn(self) -> None:
        self._counting, self._room = False, _A_TURN
        while self._room and self._due:
            self._begin(self._due.popleft())

    def exists(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition in the cluster."""
        topic = self._image().topics.by_name.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def write(
        self, partition: TopicPartition, marker: TransactionMarker, done: MarkerDone, wanted: Callable[[], bool]
    ) -> None:
        """One try here, or as many as it takes elsewhere."""
        if self._remote is not None and self._remote.elsewhere(partition):
            self._remote.write(partition, marker, done, wanted)
        else:
            self._target.write(partition, marker, done)

    def has_ended(self, partition: TopicPartition, marker: TransactionMarker, error: KafkaError) -> bool:
        """Whether a partition that has refused a marker with ``error`` needs none."""
        if error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            return self._target.has_nothing_open(partition, marker.producer.producer_id)
        return error.code is ErrorCode.INVALID_PRODUCER_EPOCH


class _Delivery:
    """One marker on its way to one partition."""

    __slots__ = ("_driver", "_marker", "_partition", "_shard", "_transactional_id", "_tries", "_writer")

    def __init__(
        self,
        writer: MarkerWriter,
        driver: ShardDriver,
        shard: object,
        transactional_id: str,
        partition: TopicPartition,
        marker: TransactionMarker,
    ) -> None:
        self._writer = writer
        self._driver = driver
        self._shard = shard
        self._transactional_id = transactional_id
        self._partition = partition
        self._marker = marker
        self._tries = 0

    def begin(self) -> None:
        """Try once; a shard that was dropped meanwhile sends anew when it is loaded."""
        if not self._wanted():
            return
        if not self._writer.exists(self._partition):
            log.info("%s is gone: %s has ended there", self._partition, self._transactional_id)
            self._report()
            return
        self._tries += 1
        try:
            self._writer.write(self._partition, self._marker, self._tried, self._wanted)
        except Exception:  # a mistake may not leave the transaction as it is for ever, nor keep its other markers back
            log.exception(
                "the end of %s was not taken by %s; it is tried again", self._transactional_id, self._partition
            )
            self._writer.begin_later(self)

    def _wanted(self) -> bool:
        return self._driver.shard is self._shard and self._driver.active

    def _tried(self, error: KafkaError | None) -> None:
        if error is None:
            self._report()
        elif self._writer.has_ended(self._partition, self._marker, error):
            log.warning("%s: %s is ended in %s already", error.message, self._transactional_id, self._partition)
            self._report()
        else:
            if self._tries % _RETRIES_TOLD == 1:
                log.warning(
                    "the end of %s cannot be written to %s (%s); it is tried again until it can",
                    self._transactional_id,
                    self._partition,
                    error,
                )
            self._writer.begin_later(self)

    def _report(self) -> None:
        if self._wanted():
            written = MarkersWritten(self._transactional_id, self._marker.producer, frozenset([self._partition]))
            self._driver.ask(written)
