"""Markers for partitions that other brokers lead: WriteTxnMarkers requests on the event loop. `MarkerBatches` decides."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from stratalog.broker.coordinators.marker_batches import (
    Answered,
    End,
    Event,
    Failed,
    MarkerBatches,
    Moved,
    Place,
    Send,
    Ticked,
    Unwanted,
    Wanted,
)
from stratalog.broker.coordinators.partition_markers import MarkerDone, TransactionMarker
from stratalog.broker.peers.broker_links import BrokerLinks
from stratalog.broker.peers.peer_errors import PeerError, PeerUnsupported
from stratalog.broker.runtime.alarm import Alarm
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from stratalog.wire.topic import TopicPartition

__all__ = ["RemoteMarkers"]

_TOLD_EACH: Final = 50

_FENCED: Final = int(ErrorCode.TRANSACTION_COORDINATOR_FENCED)

log = logging.getLogger(__name__)


class _Entry:
    """A marker that has not ended."""

    __slots__ = ("done", "marker", "partition", "sent", "wanted")

    def __init__(
        self, partition: TopicPartition, marker: TransactionMarker, done: MarkerDone, wanted: Callable[[], bool]
    ) -> None:
        self.partition = partition
        self.marker = marker
        self.done = done
        self.wanted = wanted
        self.sent = False


class RemoteMarkers:
    """One per broker, in a cluster of several. Used on one event loop only."""

    def __init__(
        self,
        links: BrokerLinks,
        *,
        node_id: int,
        image: Callable[[], ClusterImage],
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        timeout_ms: Callable[[], int],
    ) -> None:
        """``timeout_ms`` bounds the wait for one answer (``request.timeout.ms``)."""
        self._links = links
        self._node_id = node_id
        self._image = image
        self._timeout_ms = timeout_ms
        self._batches = MarkerBatches(self._route, draw)
        self._entries: dict[int, _Entry] = {}
        self._latest: dict[tuple[TopicPartition, int], int] = {}
        """By partition and producer id the newest marker."""
        self._number = 0
        self._alarm = Alarm(monotonic, lambda: self._step(Ticked()))
        self._closed = False

    def __len__(self) -> int:
        """The markers that have not ended."""
        return len(self._entries)

    def elsewhere(self, partition: TopicPartition) -> bool:
        """Whether another broker leads the partition, or no broker for now."""
        return self._route(partition) is not Place.HERE

    def _route(self, partition: TopicPartition) -> int | Place:
        topic = self._image().topics.by_name.get(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        if state is None:
            return Place.GONE
        if state.leader == self._node_id:
            return Place.HERE
        return Place.NOWHERE if self._links.peer(state.leader) is None else state.leader

    def write(
        self, partition: TopicPartition, marker: TransactionMarker, done: MarkerDone, wanted: Callable[[], bool]
    ) -> None:
        """Have the partition's leader append the marker; it is tried until it stands, or is not ``wanted`` any more.

        ``done`` hears None, INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED of the leader,
        NOT_LEADER_OR_FOLLOWER when this broker leads the partition now, and UNKNOWN_TOPIC_OR_PARTITION when it is gone.
        It hears nothing of a marker that is not wanted, or whose place a newer one of the same producer takes.
        """
        key = partition, marker.producer.producer_id
        before = self._entries.get(self._latest.get(key, 0))
        if before is not None and (not before.sent or before.marker == marker):
            before.marker, before.done, before.wanted = marker, done, wanted
            return
        self._number += 1
        self._latest[key] = self._number
        self._entries[self._number] = _Entry(partition, marker, done, wanted)
        self._step(Wanted(self._number, partition, marker.producer.producer_id))

    def follow(self) -> None:
        """Partitions may have other leaders now, and brokers other addresses."""
        self._links.follow()
        if self._entries:
            self._step(Moved())

    def close(self) -> None:
        """Send nothing any more, and tell nothing."""
        self._closed = True
        self._alarm.cancel()
        self._links.close()

    # -- driving ------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        for action in self._batches.step(event, self._alarm.now_ms()):
            if isinstance(action, Send):
                self._send(action)
            elif isinstance(action, End):
                self._ended(action)
            elif action.tries % _TOLD_EACH == 1:
                log.warning(
                    "%s: broker %d does not take markers (%s); they are tried again until it does",
                    action.partition,
                    action.broker_id,
                    _name_of(action.code),
                )
        if not self._closed:
            self._alarm.set(self._batches.wake_at_ms)

    def _forget(self, number: int) -> _Entry:
        entry = self._entries.pop(number)
        key = entry.partition, entry.marker.producer.producer_id
        if self._latest.get(key) == number:
            del self._latest[key]
        return entry

    def _ended(self, action: End) -> None:
        entry = self._forget(action.number)
        if action.code:
            why = f"{entry.partition} refuses the marker of producer id {entry.marker.producer.producer_id}"
            entry.done(KafkaError(ErrorCode(action.code), why))
        else:
            entry.done(None)

    def _send(self, action: Send) -> None:
        unwanted = frozenset(number for number in action.numbers if not self._entries[number].wanted())
        if unwanted:
            for number in unwanted:
                self._forget(number)
            self._step(Unwanted(action.broker_id, unwanted))
        numbers = [number for number in action.numbers if number not in unwanted]
        if not numbers:
            return
        for number in numbers:
            self._entries[number].sent = True
        request = _request_of(self._entries[number] for number in numbers)
        answer = self._links.ask(action.broker_id, request, timeout_ms=self._timeout_ms())
        answer.add_done_callback(partial(self._answered, action.broker_id, numbers))

    def _answered(self, broker_id: int, numbers: list[int], answer: asyncio.Future[Any]) -> None:
        error = answer.exception()
        if self._closed:
            return
        for number in numbers:
            self._entries[number].sent = False
        if error is None:
            self._step(Answered(broker_id, _codes_of(answer.result())))
            return
        if isinstance(error, PeerUnsupported) or not isinstance(error, PeerError):
            log.error("markers of transactions cannot be sent, and are tried again: %s", error)
        self._step(Failed(broker_id))


def _request_of(entries: Iterable[_Entry]) -> WriteTxnMarkersRequest:
    """One marker for each end of a transaction, with its partitions."""
    markers: dict[TransactionMarker, dict[str, list[int]]] = {}
    for entry in entries:
        markers.setdefault(entry.marker, {}).setdefault(entry.partition.topic, []).append(entry.partition.partition)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer.producer_id,
                producer_epoch=marker.producer.producer_epoch,
                transaction_result=marker.commit,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=numbers) for name, numbers in topics.items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, topics in markers.items()
        ]
    )


def _codes_of(answer: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    """The outcomes; where a fenced coordinator has nothing open, a newer epoch of the producer is as good a reason."""
    return {
        (marker.producer_id, TopicPartition(topic.name, one.partition_index)): (
            int(ErrorCode.INVALID_PRODUCER_EPOCH) if one.nothing_open and one.error_code == _FENCED else one.error_code
        )
        for marker in answer.markers
        for topic in marker.topics
        for one in topic.partitions
    }


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
