"""The image as records and back, and the ``.checkpoint`` file that holds them.

A snapshot is named by the first offset it does not hold and the epoch of the last record it does:
``00000000000000000042-0000000003.checkpoint``. Its frame is that of every checkpoint, see
:mod:`stratalog.metadata.quorum.checkpoint`. Sources: KIP-630, KIP-631, Kafka's ``MetadataImage.write``, ``Snapshots``.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.features import METADATA_VERSION, UPDATE_NODE
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage, Provenance
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.quorum.checkpoint import (
    STATIC_QUORUM,
    QuorumRecords,
    footer_batch,
    header_batch,
    read_checkpoint,
    record_batches,
)
from stratalog.wire.batch import Buffer
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
    decode_record,
)
from stratalog.wire.schema import DecodeError, Message

__all__ = [
    "SnapshotId",
    "build_snapshot",
    "image_records",
    "parse_snapshot_name",
    "read_snapshot",
    "read_snapshot_and_quorum",
    "snapshot_name",
    "snapshot_steps",
]

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_RECORDS_PER_PAUSE: Final = 100
_NO_BROKER: Final = -1


class SnapshotId(NamedTuple):
    """The name of a snapshot: the first offset behind it and the epoch of its last record."""

    end_offset: int
    epoch: int


def snapshot_name(snapshot: SnapshotId) -> str:
    """The file's name."""
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """The id in a file's name, or ``None`` if it is not a finished snapshot's name."""
    match = _NAME.fullmatch(name)
    return None if match is None else SnapshotId(int(match[1]), int(match[2]))


def image_records(image: ClusterImage) -> Iterator[Message]:
    """The records that make ``image`` from nothing, in Kafka's order: ``metadata.version`` first."""
    for name in sorted(image.features, key=lambda each: (each != METADATA_VERSION, each)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for _, controller in sorted(image.brokers.controllers.items()):
        yield controller.to_record()
    for _, broker in sorted(image.brokers.brokers.items()):
        yield broker.to_record()
    for topic_id, topic in image.topics.by_id.items():
        yield TopicRecord(name=topic.name, topic_id=topic_id)
        for partition, state in sorted(topic.partitions.items()):
            yield state.to_record(topic_id, partition)
    for resource, settings in image.configs.by_resource.items():
        for name, value in settings.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    yield from image.scram.to_records()
    yield from image.acls.to_records()
    yield from image.quotas.to_records()
    yield from image.tokens.to_records()
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=_NO_BROKER, next_producer_id=image.next_producer_id)


def snapshot_steps(
    image: ClusterImage, quorum: QuorumRecords = STATIC_QUORUM
) -> Generator[None, None, Sequence[bytearray]]:
    """The batches of the file of ``image``, which are its whole content in order; pauses every 100 records.

    ``quorum`` is what the log says of the voters up to the end of the image. Records are of the image's own level.
    """
    epoch, timestamp_ms = image.provenance.epoch, image.provenance.timestamp_ms
    first, offset = header_batch(
        quorum, last_contained_timestamp_ms=timestamp_ms, timestamp_ms=timestamp_ms, epoch=epoch
    )
    batches = [first]
    values = []
    for value in record_values(image_records(image), image.features.get(METADATA_VERSION, 0)):
        values.append(value)
        if len(values) % _RECORDS_PER_PAUSE == 0:
            yield
    for batch, end in record_batches(values, first_offset=offset, timestamp_ms=timestamp_ms, epoch=epoch):
        batches.append(batch)
        offset = end
        yield
    batches.append(footer_batch(offset=offset, timestamp_ms=timestamp_ms, epoch=epoch))
    return batches


build_snapshot = at_once(snapshot_steps)


def read_snapshot(buffer: Buffer, snapshot: SnapshotId) -> ClusterImage:
    """The image in the file named by ``snapshot``. Raises `Corrupt` if it is cut off or damaged."""
    return read_snapshot_and_quorum(buffer, snapshot)[0]


def read_snapshot_and_quorum(buffer: Buffer, snapshot: SnapshotId) -> tuple[ClusterImage, QuorumRecords]:
    """The image in the file named by ``snapshot``, and the voters that it names.

    Raises `Corrupt` if it is cut off or damaged, `Invalid` for records that a newer release has written.
    """
    where = f"snapshot {snapshot_name(snapshot)}"
    found = read_checkpoint(buffer, where)
    provenance = Provenance(snapshot.end_offset - 1, snapshot.epoch, found.last_contained_timestamp_ms)
    try:
        return EMPTY_IMAGE.apply(map(decode_record, found.values), provenance), found.quorum
    except DecodeError as error:
        raise Invalid(f"{where}: {error}. {UPDATE_NODE}") from error
    except (Corrupt, Invalid) as error:
        raise type(error)(f"{where}: {error}") from error
