"""ApiVersions (key 18): which APIs and features this broker serves.

- 0: what everyone understands; also the body of the answer to a version that the broker does not know (KIP-511).
- 1: the throttle time. 2: throttling comes after the answer (KIP-219).
- 3: flexible; the client names itself; features are answered as tagged fields (KIP-584).
- 4: a feature may start at level 0 (KAFKA-17011); before, such features are left out.

The response header stays at version 0 in every version, so that a client can read it before it knows anything.
"""

from __future__ import annotations

from stratalog.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SupportedFeatureKey",
]


class ApiVersionsRequest(Message, api_key=18, versions=(0, 4), flexible=3):
    """The client's name and version, from version 3 on."""

    client_software_name: str = field(since=3)
    client_software_version: str = field(since=3)


class ApiVersion(Struct):
    """One API and its first and last version."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    """The levels of a feature that this broker can run."""

    name: str
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    """The levels of a feature that the cluster has agreed on."""

    name: str
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Message, api_key=18, versions=(0, 4), flexible=3):
    """The ranges served. ``finalized_features_epoch`` is -1 where it is not known."""

    error_code: Int16 = field()
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field(since=1)
    supported_features: list[SupportedFeatureKey] = field(since=3, tag=0)
    finalized_features_epoch: Int64 = field(-1, since=3, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(since=3, tag=2)
    zk_migration_ready: Bool = field(since=3, tag=3)
