"""The features of a cluster and the levels this code can run. A level of 0 is "not there" and never stored.

Sources: Kafka's ``MetadataVersion`` (4.3-IV0 is 30), ``TransactionVersion``, ``GroupVersion``; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.wire.records.metadata import FeatureLevelRecord

__all__ = ["BOOTSTRAP_LEVELS", "METADATA_VERSION", "SUPPORTED_FEATURES", "bootstrap_records", "metadata_changed"]

METADATA_VERSION: Final = "metadata.version"

SUPPORTED_FEATURES: Final[Mapping[str, SupportedLevels]] = MappingProxyType(
    {
        METADATA_VERSION: SupportedLevels(7, 30),
        "transaction.version": SupportedLevels(0, 2),
        "group.version": SupportedLevels(0, 1),
    }
)
"""The features that a node announces when it registers, and in ApiVersions."""

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {METADATA_VERSION: 30, "group.version": 1, "transaction.version": 2}
)
"""The levels of a new cluster: those of a new Kafka 4.3 cluster, as far as they are known here."""

_FORMAT_CHANGES: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of ``metadata.version`` whose records an older level could not read."""


def metadata_changed(lower: int, upper: int) -> bool:
    """Whether going back from one level of ``metadata.version`` to a lower one would lose something."""
    return any(lower < level <= upper for level in _FORMAT_CHANGES)


def bootstrap_records() -> list[FeatureLevelRecord]:
    """The first records of a new metadata log; ``metadata.version`` comes first."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()]
