"""The file ``bootstrap.checkpoint``: the records with which a new cluster's metadata log begins.

``format`` writes one into every log directory of a node; the first controller that leads writes its records into the
empty log. The frame is that of a snapshot. Source: Kafka's ``BootstrapDirectory``, ``BootstrapMetadata``; KIP-778.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stratalog.metadata.quorum.checkpoint import build_checkpoint, read_checkpoint
from stratalog.wire.batch import Buffer
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import FeatureLevelRecord, decode_record, encode_record
from stratalog.wire.schema import DecodeError, Message

__all__ = ["BOOTSTRAP_CHECKPOINT", "bootstrap_checkpoint", "level_records", "read_bootstrap"]

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
_METADATA_VERSION: Final = "metadata.version"
_KRAFT_VERSION: Final = "kraft.version"
_NOTHING_CONTAINED_MS: Final = 0


def level_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """The records of feature levels in Kafka's order: ``metadata.version``, then by name; a level of 0 has none.

    ``kraft.version`` has none either: a control record holds it.
    """
    names = sorted(levels, key=lambda each: (each != _METADATA_VERSION, each))
    return [
        FeatureLevelRecord(name=name, feature_level=levels[name])
        for name in names
        if levels[name] > 0 and name != _KRAFT_VERSION
    ]


def bootstrap_checkpoint(records: Sequence[Message], *, timestamp_ms: int) -> bytes:
    """The content of the file; ``timestamp_ms`` is that of its batches."""
    values = [encode_record(record) for record in records]
    return build_checkpoint(values, last_contained_timestamp_ms=_NOTHING_CONTAINED_MS, timestamp_ms=timestamp_ms)


def read_bootstrap(buffer: Buffer, where: str) -> tuple[Message, ...]:
    """The records of the file; ``where`` names it in messages. Raises `Corrupt`, also without ``metadata.version``."""
    try:
        records = tuple(decode_record(value) for value in read_checkpoint(buffer, where).values)
    except (Corrupt, DecodeError) as error:
        raise Corrupt(f"{error}: copy the file from another log directory of the node") from error
    if not any(isinstance(each, FeatureLevelRecord) and each.name == _METADATA_VERSION for each in records):
        raise Corrupt(f"{where} has no level of {_METADATA_VERSION}: copy it from another log directory of the node")
    return records
