"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in partitions that another broker leads.

- 1: flexible; version 0 was removed in Kafka 4.0. 2: the transaction version of each marker (KIP-1228).
- ``nothing_open`` is this project's own: a tagged field, which Kafka's coordinators pass over.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "WritableTxnMarker",
    "WritableTxnMarkerPartitionResult",
    "WritableTxnMarkerResult",
    "WritableTxnMarkerTopic",
    "WritableTxnMarkerTopicResult",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct):
    """The end of one transaction; ``transaction_result`` is true for a commit."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field(since=2)


class WriteTxnMarkersRequest(Message, api_key=27, versions=(1, 2), flexible=1):
    """Markers of many transactions."""

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    """Whether the marker stands in one partition.

    ``nothing_open`` comes with TRANSACTION_COORDINATOR_FENCED where the producer has no open transaction there.
    """

    partition_index: Int32
    error_code: Int16
    nothing_open: Bool = field(False, tag=21_000)


class WritableTxnMarkerTopicResult(Struct):
    """The partitions of one topic."""

    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    """The partitions of one marker."""

    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Message, api_key=27, versions=(1, 2), flexible=1):
    """One outcome for each partition of each marker."""

    markers: list[WritableTxnMarkerResult]
