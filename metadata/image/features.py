"""The features of a cluster and the levels this code can run. A level of 0 is "not there" and never stored.

Sources: Kafka's ``MetadataVersion`` (4.3-IV0 is 30), ``TransactionVersion``, ``GroupVersion``,
``EligibleLeaderReplicasVersion``; KIP-584, KIP-966, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.metadata.quorum.checkpoint import KRAFT_VERSION_MAX
from stratalog.wire.errors import Invalid
from stratalog.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from stratalog.wire.schema import Message

__all__ = [
    "BOOTSTRAP_LEVELS",
    "CORDONED_SINCE",
    "DIRECTORIES_SINCE",
    "ELIGIBLE_LEADER_REPLICAS",
    "ELIGIBLE_SINCE",
    "EPOCH_RISES_ON_SHRINK_BELOW",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "NODE_FEATURES",
    "REGISTER_CONTROLLER_SINCE",
    "SUPPORTED_FEATURES",
    "TRANSACTIONS_SINCE",
    "UPDATE_NODE",
    "bootstrap_records",
    "check_level",
    "has_eligible_leader_replicas",
    "metadata_changed",
    "record_version",
    "runnable_records",
]

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
"""0 static voters, 1 voters that change (KIP-853). Its level stands in a control record, and in no image."""
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"

EPOCH_RISES_ON_SHRINK_BELOW: Final = 12
"""Below this level of ``metadata.version`` (3.6) a smaller in-sync set raises the leader epoch, too (KAFKA-15021)."""
TRANSACTIONS_SINCE: Final = 13
"""Records may take effect together from this level on, over several batches (KIP-868)."""
REGISTER_CONTROLLER_SINCE: Final = 15
DIRECTORIES_SINCE: Final = 17
ELIGIBLE_SINCE: Final = 23
"""Records have a place for eligible leader replicas from this level on."""
CORDONED_SINCE: Final = 30

SUPPORTED_FEATURES: Final[Mapping[str, SupportedLevels]] = MappingProxyType(
    {
        METADATA_VERSION: SupportedLevels(7, 30),
        ELIGIBLE_LEADER_REPLICAS: SupportedLevels(0, 1),
        "transaction.version": SupportedLevels(0, 2),
        "group.version": SupportedLevels(0, 1),
    }
)
"""The features whose levels stand in the image."""

NODE_FEATURES: Final[Mapping[str, SupportedLevels]] = MappingProxyType(
    {**SUPPORTED_FEATURES, KRAFT_VERSION: SupportedLevels(0, KRAFT_VERSION_MAX)}
)
"""The features that a node of a cluster announces when it registers, and in ApiVersions."""

BOOTSTRAP_LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {METADATA_VERSION: 30, ELIGIBLE_LEADER_REPLICAS: 1, "group.version": 1, "transaction.version": 2}
)
"""The levels of a new cluster: those of a new Kafka 4.3 cluster, as far as they are known here."""

UPDATE_NODE: Final = "A newer release has written it: update this node"
"""The end of a sentence about metadata that this release cannot read."""

_FORMAT_CHANGES: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of ``metadata.version`` whose records an older level could not read."""


def metadata_changed(lower: int, upper: int) -> bool:
    """Whether going back from one level of ``metadata.version`` to a lower one would lose something."""
    return any(lower < level <= upper for level in _FORMAT_CHANGES)


def has_eligible_leader_replicas(features: Mapping[str, int]) -> bool:
    """Whether the cluster keeps eligible leader replicas, so that an in-sync set may become empty (KIP-966)."""
    return features.get(ELIGIBLE_LEADER_REPLICAS, 0) >= 1


_VERSIONS: Final[Mapping[type[Message], tuple[tuple[int, int], ...]]] = MappingProxyType(
    {
        RegisterBrokerRecord: ((CORDONED_SINCE, 4), (DIRECTORIES_SINCE, 3), (8, 2), (0, 1)),
        PartitionRecord: ((ELIGIBLE_SINCE, 2), (DIRECTORIES_SINCE, 1), (0, 0)),
        PartitionChangeRecord: ((ELIGIBLE_SINCE, 2), (DIRECTORIES_SINCE, 1), (0, 0)),
        BrokerRegistrationChangeRecord: ((CORDONED_SINCE, 3), (DIRECTORIES_SINCE, 2), (0, 1)),
    }
)


def record_version(record: type[Message], level: int) -> int:
    """The version in which a cluster of this level of ``metadata.version`` writes a record: nodes read no newer one."""
    for since, version in _VERSIONS.get(record, ()):
        if level >= since:
            return version
    return record.versions[1]


def check_level(name: str, level: int) -> None:
    """Raise `Invalid` for a level of ``metadata.version`` whose records this release cannot read.

    A broker that lacks another feature's level stays an observer: it is not registered. Source: Kafka's ``FeaturesDelta``.
    """
    known = SUPPORTED_FEATURES[METADATA_VERSION]
    if name != METADATA_VERSION or known.minimum <= level <= known.maximum:
        return
    found = f"the cluster has {METADATA_VERSION} {level}, and this release knows {known.minimum} to {known.maximum}"
    if level > known.maximum:
        raise Invalid(f"{found}. {UPDATE_NODE}")
    raise Invalid(f"{found}: raise it with a release that runs it (kafka-features upgrade)")


def bootstrap_records() -> list[FeatureLevelRecord]:
    """The first records of a new metadata log; ``metadata.version`` comes first."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()]


def runnable_records(records: Iterable[Message]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The records of a ``bootstrap.checkpoint`` that this release can run, and a sentence for each level that it lowers.

    Levels that another release chose for a cluster that does not exist yet may be lower. Raises `Invalid` for a
    ``metadata.version`` that is not the one in whose records this release writes.
    """
    kept: list[Message] = []
    lowered: list[str] = []
    for record in records:
        if not isinstance(record, FeatureLevelRecord):
            kept.append(record)
            continue
        name, level = record.name, record.feature_level
        supported = SUPPORTED_FEATURES.get(name, SupportedLevels(0, 0))
        if name == METADATA_VERSION and level != supported.maximum:
            raise Invalid(
                f"a new cluster with {METADATA_VERSION} {level} cannot begin here: this release writes its records for "
                f"level {supported.maximum}; format empty directories without --release-version"
            )
        if level > supported.maximum:
            lowered.append(
                f"{name} begins with level {supported.maximum} instead of {level}: this release runs no higher one"
            )
        if min(level, supported.maximum):
            kept.append(FeatureLevelRecord(name=name, feature_level=min(level, supported.maximum)))
    return tuple(kept), tuple(lowered)
