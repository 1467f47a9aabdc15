"""UpdateFeatures (key 57): raise or lower the levels of the cluster's features.

Behaviour: all changes are made or none. ``kraft.version`` is raised by the metadata quorum: it writes the level and the
voters, where these have told it their directories (KIP-853). Version 0 knows a flag instead of the kinds of change; up to version 1 a
success names every feature.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import FeatureUpdate, UpgradeType, kraft_version_wanted, update_features
from stratalog.metadata.controller.min_in_sync import minimum_of_file
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.features import KRAFT_VERSION
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_TYPE_SINCE: Final = 1
_RESULTS_UNTIL: Final = 1


def _update(each: FeatureUpdateKey, version: int) -> FeatureUpdate:
    kind = each.upgrade_type
    if version < _TYPE_SINCE:
        kind = UpgradeType.SAFE_DOWNGRADE if each.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(each.feature, each.max_version_level, kind)


async def _change(context: Context, request: UpdateFeaturesRequest) -> Message:
    updates = [_update(each, context.api_version) for each in request.feature_updates]
    others = [update for update in updates if update.name != KRAFT_VERSION]
    level = _kraft_version(context, updates)
    if level is not None:
        await _write(context, others, validate_only=True)
        await _upgrade(context, level, validate_only=True)
    await _write(context, others, validate_only=request.validate_only)
    if level is not None and not request.validate_only:
        await _upgrade(context, level, validate_only=False)
    results = []
    if context.api_version <= _RESULTS_UNTIL:
        results = [UpdatableFeatureResult(feature=each.feature) for each in request.feature_updates]
    return UpdateFeaturesResponse(results=results)


def _kraft_version(context: Context, updates: Sequence[FeatureUpdate]) -> int | None:
    """The level that is wanted of ``kraft.version``. Raises `KafkaError` INVALID_UPDATE_VERSION."""
    broker = context.broker
    present = broker.quorum.kraft_version
    level = kraft_version_wanted(broker.image, updates, node_id=broker.node_id, present=present)
    if level is not None and level != present and not broker.config.roles.has_peers:
        why = f"{KRAFT_VERSION} is raised where other nodes take part: controller.quorum.bootstrap.servers names none"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
    return level


async def _write(context: Context, updates: Sequence[FeatureUpdate], *, validate_only: bool) -> None:
    """Make the changes that are records of the controller."""
    broker = context.broker

    def decide(image: ClusterImage) -> Decision[None]:
        return update_features(
            image,
            updates,
            node_id=broker.node_id,
            validate_only=validate_only,
            voters=broker.quorum.voters.ids if broker.config.roles.has_peers else (),
            min_in_sync_replicas=minimum_of_file(broker.config.static),
        )

    await broker.control.execute(
        decide,
        source=context.connection,
        size=len(updates),
        only_asks=validate_only,
    )


async def _upgrade(context: Context, level: int, *, validate_only: bool) -> None:
    """Have the quorum raise ``kraft.version``; the command goes on if its client goes."""
    await asyncio.shield(context.broker.quorum.upgrade(level, validate_only=validate_only))


def handle(context: Context, request: UpdateFeaturesRequest) -> Pending:
    """Runs as a task: waits for the metadata log to sync."""
    return context.run(_change(context, request))


API = Api(
    key=57,
    versions=(0, 2),
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    handle=handle,
    operation=Operation.ALTER,
    resource=ResourceType.CLUSTER,
    forwarded=True,
)
