"""UpdateFeatures (key 57): raise or lower the levels of the cluster's features (KIP-584, KIP-778).

``upgrade_type``: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.

- 0: downgrades are a flag. 1: kinds of change, and ``validate_only``. 2: all succeed or all fail, without a list.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field

__all__ = [
    "FeatureUpdateKey",
    "UpdatableFeatureResult",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]


class FeatureUpdateKey(Struct):
    """One feature and its new level; 0 takes it out of use."""

    feature: str
    max_version_level: Int16
    allow_downgrade: Bool = field(until=0)
    upgrade_type: Int8 = field(1, since=1)


class UpdateFeaturesRequest(Message, api_key=57, versions=(0, 2), flexible=0):
    """The changes; with ``validate_only`` nothing is changed."""

    timeout_ms: Int32 = field(60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field(since=1)


class UpdatableFeatureResult(Struct):
    """The outcome for one feature."""

    feature: str
    error_code: Int16 = field()
    error_message: str | None = field()


class UpdateFeaturesResponse(Message, api_key=57, versions=(0, 2), flexible=0):
    """The outcome."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    results: list[UpdatableFeatureResult] = field(until=1)
