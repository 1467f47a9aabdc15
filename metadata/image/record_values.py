"""Records of the metadata log as bytes, each in the version of the cluster's level of ``metadata.version``.

A node of that level reads no newer version. An older version leaves out the fields that came later: below its level the
controller decides nothing that needs them. Source: Kafka's ``ImageWriterOptions``, ``MetadataVersion``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stratalog.metadata.image.features import METADATA_VERSION, record_version
from stratalog.wire.records.metadata import FeatureLevelRecord, encode_record
from stratalog.wire.schema import Message

__all__ = ["record_values"]


def record_values(records: Iterable[Message], level: int) -> Iterator[bytes]:
    """The values of ``records``, written from ``level`` of ``metadata.version`` on; 0 if the log has no level yet.

    A record that changes the level holds for those behind it: the records of a new cluster begin with theirs. Raises
    `EncodeError` for a value that a record cannot hold.
    """
    for record in records:
        yield encode_record(record, record_version(type(record), level))
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            level = record.feature_level
