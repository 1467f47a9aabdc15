"""The controller's answer to changes of feature levels: all of them are made, or none.

Sources of rules and texts: Kafka's ``FeatureControlManager``, ``QuorumFeatures``; KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from stratalog.metadata.controller.min_in_sync import keeping_of_empty_sets, one_minimum_records
from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.metadata.image.decision import Decision, at_once
from stratalog.metadata.image.features import (
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_SINCE,
    KRAFT_VERSION,
    METADATA_VERSION,
    NODE_FEATURES,
    REGISTER_CONTROLLER_SINCE,
    SUPPORTED_FEATURES,
    has_eligible_leader_replicas,
    metadata_changed,
)
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ClearElrRecord, FeatureLevelRecord
from stratalog.wire.schema import Message

__all__ = ["FeatureUpdate", "UpgradeType", "kraft_version_wanted", "update_features"]

_FAILED = "The update failed for all features since the following feature had an error: "


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
    image: ClusterImage,
    updates: Sequence[FeatureUpdate],
    *,
    node_id: int,
    validate_only: bool = False,
    supported: Mapping[str, SupportedLevels] = SUPPORTED_FEATURES,
    voters: Collection[int] = (),
    min_in_sync_replicas: int = 1,
) -> Decision[None]:
    """Change levels; of a feature named twice the last change counts.

    Every registered broker and controller has to support a level, and every one of ``voters`` to have registered.
    ``supported`` is what this controller can run. Where the cluster begins to keep eligible leader replicas,
    ``min_in_sync_replicas``, the setting of this controller's file, becomes the minimum of the cluster if it has none.

    Raises `KafkaError` INVALID_UPDATE_VERSION for the first change, by name, that cannot be made.
    """
    last = {update.name: update for update in updates}
    for _, update in sorted(last.items()):
        why = _why_not(image, update, last, _Nodes(node_id, supported, voters))
        if why is not None:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{_FAILED}{why}")
    records: list[Message] = []
    if ELIGIBLE_LEADER_REPLICAS in last and last[ELIGIBLE_LEADER_REPLICAS].level > 0:
        records += one_minimum_records(image, min_in_sync_replicas)
        if not has_eligible_leader_replicas(image.features):
            records.append(ClearElrRecord(topic_name=""))  # of an earlier time: others have gone on since
            records += at_once(keeping_of_empty_sets)(image, ("",))  # but for those without any leader
    records += [FeatureLevelRecord(name=each.name, feature_level=each.level) for each in last.values()]
    return Decision(() if validate_only else tuple(records), None)


def kraft_version_wanted(
    image: ClusterImage, updates: Sequence[FeatureUpdate], *, node_id: int, present: int
) -> int | None:
    """The level to which the quorum is to raise ``kraft.version``, which is ``present``; None where no change names it.

    No record of the controller holds this level. Every registered broker and controller has to support it. Raises
    `KafkaError` INVALID_UPDATE_VERSION.
    """
    update = {update.name: update for update in updates}.get(KRAFT_VERSION)
    if update is None:
        return None
    nodes = _Nodes(node_id, NODE_FEATURES, ())
    reason = _unsupported(image, update, nodes) or _wrong_direction(present, update)
    if reason is None and update.level < present:
        reason = "Can't downgrade the version of this feature."
    if reason is not None:
        why = f"Invalid update version {update.level} for feature {update.name}. {reason}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{_FAILED}{why}")
    return update.level


class _Nodes(NamedTuple):
    """The controller that decides, the levels it can run, and the ids of all voters."""

    node_id: int
    supported: Mapping[str, SupportedLevels]
    voters: Collection[int]


def _why_not(
    image: ClusterImage, update: FeatureUpdate, updates: Mapping[str, FeatureUpdate], nodes: _Nodes
) -> str | None:
    reason = (
        _unsupported(image, update, nodes)
        or _wrong_direction(image.features.get(update.name, 0), update)
        or _missing_level(image, update, updates)
    )
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


def _wrong_direction(present: int, update: FeatureUpdate) -> str | None:
    if update.level < present and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > present and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _missing_level(image: ClusterImage, update: FeatureUpdate, updates: Mapping[str, FeatureUpdate]) -> str | None:
    """Why a level cannot be without another feature's, which may be raised in the same request."""
    if update.name != ELIGIBLE_LEADER_REPLICAS or update.level == 0:
        return None
    wanted = updates.get(METADATA_VERSION)
    level = image.features.get(METADATA_VERSION, 0) if wanted is None else wanted.level
    if level >= ELIGIBLE_SINCE:
        return None
    return (
        f"{update.name} could not be set to {update.level} because it depends on {METADATA_VERSION} level "
        f"{ELIGIBLE_SINCE}"
    )


def _unsupported(image: ClusterImage, update: FeatureUpdate, nodes: _Nodes) -> str | None:
    if update.upgrade_type not in UpgradeType.__members__.values() or update.upgrade_type == UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for who, levels in _nodes(image, nodes):
        found = levels.get(update.name, SupportedLevels(0, 0))
        if not found.minimum <= update.level <= found.maximum:
            if found.maximum == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {found.minimum}-{found.maximum}"
    if update.name not in nodes.supported:
        return f"Feature {update.name} not found."
    if image.features.get(METADATA_VERSION, 0) >= REGISTER_CONTROLLER_SINCE:
        for voter in sorted(nodes.voters):
            if voter != nodes.node_id and voter not in image.brokers.controllers:
                return f"controller {voter} has not registered, and may not support this feature"
    return None


def _nodes(image: ClusterImage, nodes: _Nodes) -> Iterable[tuple[str, Mapping[str, SupportedLevels]]]:
    """The nodes that have to support a level, and the levels they support."""
    yield f"Local controller {nodes.node_id}", nodes.supported
    for broker in image.brokers.brokers.values():
        yield f"Broker {broker.broker_id}", broker.features
    for controller in image.brokers.controllers.values():
        if controller.controller_id != nodes.node_id:
            yield f"Controller {controller.controller_id}", controller.features
