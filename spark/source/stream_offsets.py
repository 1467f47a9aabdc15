"""The offsets of a stream as Spark keeps them in its checkpoints: Kafka's JSON, ``{"orders": {"0": 123}}``. Pure.

An offset is that of the next record to read. Spark compares offsets by their text, so there is one order only: topics
by name, partitions by number.

Spark writes into a checkpoint where each micro-batch ends, and asks a source anew where the first one begins, for as long
as that is not done. The meaning of the options may have changed by then, so the end of the first micro-batch also holds its
start, under the key ``@start``, which no topic can have: ``{"orders": {"0": 123}, "@start": {"orders": {"0": 100}}}``.
The key ``@shortened`` says by which change an archive went back last, so that offsets from before are known. Where no archive
did it is there and empty: a checkpoint without it is of an earlier version, and does not say which state it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from stratalog.spark.source.option_values import is_int
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

__all__ = [
    "BEGINNING",
    "OffsetDocument",
    "Offsets",
    "behind",
    "first_end",
    "first_start",
    "offset_document",
    "parse_offsets",
    "shortened_of",
    "with_shortened",
]

Offsets: TypeAlias = Mapping[TopicPartition, int]
OffsetDocument: TypeAlias = dict[str, Any]
"""The form that PySpark takes and gives: the JSON as objects of Python."""

_START: Final = "@start"
_SHORTENED: Final = "@shortened"
BEGINNING: Final[OffsetDocument] = {_START: "by the options"}
"""Where a query begins that has no checkpoint: what the options mean is looked up when the first micro-batch is made."""


def parse_offsets(document: object) -> dict[TopicPartition, int]:
    """The offsets in a document out of a checkpoint. Raises `Invalid` for one that is not Kafka's."""
    if not isinstance(document, Mapping):
        raise _malformed(document)
    offsets = {}
    for topic, partitions in document.items():
        if topic in {_START, _SHORTENED}:
            continue
        if not isinstance(partitions, Mapping):
            raise _malformed(document)
        for partition, offset in partitions.items():
            if not str(partition).isdecimal() or not is_int(offset) or offset < 0:
                raise _malformed(document)
            offsets[TopicPartition(str(topic), int(partition))] = offset
    return offsets


def _malformed(document: object) -> Invalid:
    return Invalid(
        f'the checkpoint holds the offsets {document!r}, which are not like {{"topic": {{"0": 23}}}}: was it written by '
        f"a query of another source? Start with an empty checkpointLocation, or with the one that belongs to this query"
    )


def offset_document(offsets: Offsets) -> OffsetDocument:
    """The inverse of `parse_offsets`; equal offsets give equal text."""
    document: OffsetDocument = {}
    for partition in sorted(offsets):
        document.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return document


def first_end(end: Offsets, start: Offsets) -> OffsetDocument:
    """The end of the first micro-batch of a query, which keeps where that begins."""
    return {**offset_document(end), _START: offset_document(start)}


def first_start(document: OffsetDocument) -> dict[TopicPartition, int] | None:
    """Where the first micro-batch begins that ends at ``document``; None if an earlier version of this source wrote it.

    Raises `Invalid` for a malformed one.
    """
    return parse_offsets(document[_START]) if _START in document else None


def with_shortened(document: OffsetDocument, shortened: Offsets) -> OffsetDocument:
    """The offsets of ``document`` with the numbers of `stratalog.spark.source.gone_back`, also where there are none."""
    return {**document, _SHORTENED: offset_document(shortened)}


def shortened_of(document: OffsetDocument) -> dict[TopicPartition, int] | None:
    """The numbers in ``document``; None if an earlier version of this source wrote it. Raises `Invalid` for malformed ones."""
    return parse_offsets(document[_SHORTENED]) if _SHORTENED in document else None


def behind(offsets: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """The partitions of ``offsets`` that have not come to ``ends`` yet, and how many offsets each is short of it."""
    return {
        partition: ends[partition] - offset
        for partition, offset in offsets.items()
        if partition in ends and ends[partition] > offset
    }
