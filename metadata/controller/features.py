"""The controller's answer to changes of feature levels: all of them are made, or none.

Sources of rules and texts: Kafka's ``FeatureControlManager``, ``QuorumFeatures``; KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.features import METADATA_VERSION, SUPPORTED_FEATURES, metadata_changed
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import FeatureLevelRecord

__all__ = ["FeatureUpdate", "UpgradeType", "update_features"]


class UpgradeType(IntEnum):
    """In which direction a level may go; the numbers are those of UpdateFeatures."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One feature and the level it is to have; 0 takes it out of use."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(
    image: ClusterImage, updates: Sequence[FeatureUpdate], *, node_id: int, validate_only: bool = False
) -> Decision[None]:
    """Change levels; of a feature named twice the last change counts.

    Raises `KafkaError` INVALID_UPDATE_VERSION for the first change, by name, that cannot be made.
    """
    last = {update.name: update for update in updates}
    for _, update in sorted(last.items()):
        why = _why_not(image, update, node_id)
        if why is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"The update failed for all features since the following feature had an error: {why}",
            )
    records = tuple(FeatureLevelRecord(name=each.name, feature_level=each.level) for each in last.values())
    return Decision(() if validate_only else records, None)


def _why_not(image: ClusterImage, update: FeatureUpdate, node_id: int) -> str | None:
    reason = _unsupported(image, update, node_id) or _wrong_direction(image, update)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    if update.name != METADATA_VERSION:
        return None
    present = image.features.get(METADATA_VERSION, 0)
    if update.level < present and metadata_changed(update.level, present):
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
        if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
            reason = "Unsafe metadata downgrade is not supported in this version."
        return f"Unsupported metadata.version downgrade from {present} to {update.level}. {reason}"
    return None


def _wrong_direction(image: ClusterImage, update: FeatureUpdate) -> str | None:
    present = image.features.get(update.name, 0)
    if update.level < present and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > present and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _unsupported(image: ClusterImage, update: FeatureUpdate, node_id: int) -> str | None:
    if update.upgrade_type not in UpgradeType.__members__.values() or update.upgrade_type == UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for who, levels in _nodes(image, node_id):
        found = levels.get(update.name, SupportedLevels(0, 0))
        if not found.minimum <= update.level <= found.maximum:
            if found.maximum == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {found.minimum}-{found.maximum}"
    if update.name not in SUPPORTED_FEATURES:
        return f"Feature {update.name} not found."
    return None


def _nodes(image: ClusterImage, node_id: int) -> Iterable[tuple[str, Mapping[str, SupportedLevels]]]:
    """The nodes that have to support a level, and the levels they support."""
    yield f"Local controller {node_id}", SUPPORTED_FEATURES
    for broker in image.brokers.brokers.values():
        yield f"Broker {broker.broker_id}", broker.features
    for controller in image.brokers.controllers.values():
        if controller.controller_id != node_id:
            yield f"Controller {controller.controller_id}", controller.features
