"""Transaction markers in the partitions that this broker leads: the transaction's coordinator asks for them here.

Markers of ``__consumer_offsets`` go through the group coordinator, whose pending offsets they decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from stratalog.broker.coordinators.groups import GroupCoordinator
from stratalog.broker.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.log.log import AppendInfo
from stratalog.hot.state.producer_state import EndMarker
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import build_control_batch
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.control import ControlType, EndTxnMarker, encode_record
from stratalog.wire.topic import TopicPartition

__all__ = ["MarkerTarget", "PartitionMarkers", "TransactionMarker"]

_STRICT_SINCE: Final = 2

MarkerDone = Callable[[KafkaError | None], None]
"""Told once: the marker is committed, or why it is not."""


class TransactionMarker(Struct, frozen=True):
    """The end of a producer's transaction."""

    producer: Producer
    commit: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerTarget(Protocol):
    """Where markers are written: here, or by way of the broker that leads the partition."""

    def write(self, partition: TopicPartition, marker: TransactionMarker, done: MarkerDone) -> None:
        """Append the marker and tell when it is committed."""
        ...

    def has_nothing_open(self, partition: TopicPartition, producer_id: int) -> bool:
        """Whether the partition is led here and no transaction of the producer, in any epoch, is open in it."""
        ...


class PartitionMarkers:
    """Appends markers to partitions led here."""

    def __init__(
        self,
        partitions: Callable[[], PartitionTable],
        groups: GroupCoordinator,
        clock: Clock,
        marked: Callable[[TopicPartition, TransactionMarker], None],
    ) -> None:
        """``marked`` hears of every marker as it takes its place in a log."""
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self._marked = marked

    def has_nothing_open(self, partition: TopicPartition, producer_id: int) -> bool:
        """Whether the partition is led here and no transaction of the producer, in any epoch, is open in it."""
        try:
            unified = self._partitions().by_name(*partition)
            unified.partition.check_online()  # a copy may lack what its leader has open
        except KafkaError:
            return False
        return not unified.log.producer_state.is_open(producer_id)

    def write(self, partition: TopicPartition, marker: TransactionMarker, done: MarkerDone) -> None:
        """Append the marker; ``done`` hears UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, what the group
        coordinator raises, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED or INVALID_TOPIC_EXCEPTION.
        """
        if partition.topic == TRANSACTION_TOPIC:  # nothing there belongs to a transaction: it could not be loaded again
            done(KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition} is in no transaction"))
            return
        timestamp_ms = self._clock.wall_ms()
        end = EndMarker(*marker.producer, marker.coordinator_epoch, timestamp_ms, marker.commit)
        try:
            unified = self._partitions().by_name(*partition)
            unified.partition.check_online()
            unified.log.producer_state.check_marker(end, marker.transaction_version)
        except KafkaError as error:
            done(error)
            return
        kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
        batch = build_control_batch(
            kind,
            encode_record(EndTxnMarker(coordinator_epoch=marker.coordinator_epoch)),
            offset=0,
            timestamp_ms=timestamp_ms,
            leader_epoch=-1,
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.producer_epoch,
            transactional=True,
        )

        def appended(outcome: AppendInfo | KafkaError) -> None:
            done(outcome if isinstance(outcome, KafkaError) else None)

        self._marked(partition, marker)
        if partition.topic == GROUP_TOPIC:
            self._groups.complete_transaction(
                partition.partition,
                batch,
                marker.producer,
                appended,
                commit=marker.commit,
                transaction_version=marker.transaction_version,
            )
        else:
            unified.partition.led().append_marker(batch, marker.transaction_version, appended)
