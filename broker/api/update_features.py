"""UpdateFeatures (key 57): raise or lower the levels of the cluster's features.

Behaviour: all changes are made or none. Version 0 knows a flag instead of the kinds of change; up to version 1 a
success names every feature.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, Pending, ResourceType
from stratalog.metadata.controller.controller import FeatureUpdate, UpgradeType, update_features
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
    broker = context.broker
    updates = [_update(each, context.api_version) for each in request.feature_updates]
    await broker.control.execute(
        lambda image: update_features(image, updates, node_id=broker.node_id, validate_only=request.validate_only),
        source=context.connection,
        size=len(updates),
        only_asks=request.validate_only,
    )
    results = []
    if context.api_version <= _RESULTS_UNTIL:
        results = [UpdatableFeatureResult(feature=each.feature) for each in request.feature_updates]
    return UpdateFeaturesResponse(results=results)


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
