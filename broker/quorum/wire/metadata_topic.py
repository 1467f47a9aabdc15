"""The one partition whose log the quorum keeps, under the names that Kafka gives it."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.image.topic_names import CLUSTER_METADATA_TOPIC
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["METADATA_PARTITION", "METADATA_TOPIC_ID"]

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID: Final[Uuid] = bytes(15) + b"\x01"
