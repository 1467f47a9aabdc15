"""The cluster through the client: its brokers, fenced ones among them, and the levels of its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from stratalog.client.client import Client
from stratalog.client.link import check
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.describe_cluster import DescribeClusterRequest

__all__ = ["Broker", "Cluster", "FeatureLevels", "describe_cluster", "describe_features"]

_FENCED_SINCE = 2
_FEATURES_SINCE = 3


class Broker(NamedTuple):
    """A registered broker at the listener that was asked."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class Cluster(Struct, frozen=True):
    """The registered brokers of a cluster by id, and its active controller, -1 without one."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]
    names_fenced: bool
    """Whether the broker tells which ones are fenced: before version 2 (KIP-1073) those are missing."""


class FeatureLevels(NamedTuple):
    """The levels of a feature that the asked broker can run, and the one that the cluster runs; 0 for not in use."""

    lowest: int
    highest: int
    level: int


def describe_cluster(client: Client) -> Cluster:
    """All registered brokers, also those that are fenced. Raises `KafkaError`."""
    names_fenced = client.version_of(DescribeClusterRequest) >= _FENCED_SINCE
    answer = client.call(
        DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=names_fenced)
    )
    check(answer.error_code, answer.error_message)
    found = [Broker(one.broker_id, one.host, one.port, one.rack, one.is_fenced) for one in answer.brokers]
    return Cluster(answer.cluster_id, answer.controller_id, tuple(sorted(found)), names_fenced)


def describe_features(client: Client) -> Mapping[str, FeatureLevels]:
    """The features by name, as any broker tells them with ApiVersions; empty before its version 3. Raises `KafkaError`."""
    if client.version_of(ApiVersionsRequest) < _FEATURES_SINCE:
        return {}
    answer = client.call(ApiVersionsRequest(client_software_name="stratalog", client_software_version="1"))
    check(answer.error_code)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    found = {
        one.name: FeatureLevels(one.min_version, one.max_version, levels.get(one.name, 0))
        for one in answer.supported_features
    }
    return dict(sorted(found.items()))
