"""The image as records and back, and the ``.checkpoint`` file that holds them.

A snapshot is named by the first offset it does not hold and the epoch of the last record it does:
``00000000000000000042-0000000003.checkpoint``. Inside: a header control batch, batches of records, a footer control
batch, offsets counted from 0. Sources: KIP-630, KIP-631, Kafka's ``MetadataImage.write``, ``RecordsSnapshotWriter``,
``Snapshots``.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.features import METADATA_VERSION
from stratalog.metadata.image.image import EMPTY_IMAGE, ClusterImage, Provenance
from stratalog.wire.batch import (
    Buffer,
    Record,
    build_batch,
    build_control_batch,
    check_batch,
    iter_headers,
    iter_records,
)
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import control
from stratalog.wire.records.control import ControlType, SnapshotFooterRecord, SnapshotHeaderRecord
from stratalog.wire.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from stratalog.wire.schema import Message

__all__ = [
    "SnapshotId",
    "build_snapshot",
    "image_records",
    "parse_snapshot_name",
    "read_snapshot",
    "snapshot_name",
    "snapshot_steps",
]

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_RECORDS_PER_BATCH: Final = 1000
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


def snapshot_steps(image: ClusterImage) -> Generator[None, None, Sequence[bytearray]]:
    """The batches of the file of ``image``, which are its whole content in order; pauses every 100 records."""
    epoch, timestamp_ms = image.provenance.epoch, image.provenance.timestamp_ms
    batches = [
        _control(
            ControlType.SNAPSHOT_HEADER,
            0,
            timestamp_ms,
            epoch,
            SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms),
        )
    ]
    values = []
    for record in image_records(image):
        values.append(encode_record(record))
        if len(values) % _RECORDS_PER_PAUSE == 0:
            yield
    offset = 1
    for start in range(0, len(values), _RECORDS_PER_BATCH):
        chunk = values[start : start + _RECORDS_PER_BATCH]
        rows = [Record(offset + index, timestamp_ms, None, value) for index, value in enumerate(chunk)]
        batches.append(build_batch(rows, leader_epoch=epoch))
        offset += len(chunk)
        yield
    batches.append(_control(ControlType.SNAPSHOT_FOOTER, offset, timestamp_ms, epoch, SnapshotFooterRecord()))
    return batches


build_snapshot = at_once(snapshot_steps)


def _control(kind: ControlType, offset: int, timestamp_ms: int, epoch: int, record: Message) -> bytearray:
    value = control.encode_record(record)
    return build_control_batch(kind, value, offset=offset, timestamp_ms=timestamp_ms, leader_epoch=epoch)


def read_snapshot(buffer: Buffer, snapshot: SnapshotId) -> ClusterImage:
    """The image in the file named by ``snapshot``. Raises `Corrupt` if it is cut off or damaged."""
    where = f"snapshot {snapshot_name(snapshot)}"
    timestamp_ms: int | None = None
    finished = False
    loaded: list[Message] = []
    end = 0
    for position, _ in iter_headers(buffer):
        header = check_batch(buffer, position)
        end = position + header.size_bytes
        if finished:
            raise Corrupt(f"{where} goes on behind its footer, at byte {position}")
        for record in iter_records(buffer, position):
            if not header.is_control:
                loaded.append(decode_record(record.value or b""))
                continue
            kind = control.decode_key(record.key or b"")
            content = control.decode_record(kind, record.value or b"")
            if isinstance(content, SnapshotHeaderRecord):
                timestamp_ms = content.last_contained_log_timestamp
            finished = finished or isinstance(content, SnapshotFooterRecord)
    if timestamp_ms is None or not finished or end != len(buffer):
        raise Corrupt(f"{where} is cut off: remove it and start from an older one")
    return EMPTY_IMAGE.apply(loaded, Provenance(snapshot.end_offset - 1, snapshot.epoch, timestamp_ms))
