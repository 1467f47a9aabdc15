"""The cluster through the client: brokers, fenced ones, features."""

from __future__ import annotations

import pytest

from stratalog.client.client import Client
from stratalog.client.cluster import Broker, FeatureLevels, describe_cluster, describe_features
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from stratalog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

VERSIONS, CLUSTER = 18, 60


def test_fenced_brokers_are_asked_for_where_the_broker_can(scripted) -> None:
    """From version 2 on; the result says when they are missing."""
    fenced = DescribeClusterBroker(broker_id=2, host="b", port=9092, rack="r", is_fenced=True)
    active = DescribeClusterBroker(broker_id=1, host="a", port=9092)
    scripted.answers[CLUSTER] = DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=[fenced, active])
    for version, names_fenced in ((2, True), (1, False)):
        scripted.ranges = {CLUSTER: (0, version)}
        with Client(scripted.address, 5) as client:
            found = describe_cluster(client)
        assert scripted.requests[-1][0].include_fenced_brokers is names_fenced
        assert (found.names_fenced, found.cluster_id, found.controller_id) == (names_fenced, "c", 1)
        assert found.brokers[0] == Broker(1, "a", 9092, None, is_fenced=False)
        assert found.brokers[1].is_fenced is names_fenced


def test_a_refusal_to_describe_is_raised(scripted) -> None:
    """Code and words of the broker."""
    scripted.ranges = {CLUSTER: (0, 2)}
    scripted.answers[CLUSTER] = DescribeClusterResponse(error_code=31, error_message="no", cluster_id="", brokers=[])
    with Client(scripted.address, 5) as client, pytest.raises(KafkaError, match="no") as caught:
        describe_cluster(client)
    assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("version", "count"), [(2, 0), (3, 2), (4, 2)])
def test_features_have_the_level_that_the_cluster_runs(scripted, version, count) -> None:
    """One that is not in use has level 0; version 2 tells none."""
    ranges = [ApiVersion(api_key=VERSIONS, min_version=0, max_version=version)]
    scripted.answers[VERSIONS] = ApiVersionsResponse(
        api_keys=ranges,
        supported_features=[
            SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
            SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
        ],
        finalized_features=[FinalizedFeatureKey(name="metadata.version", max_version_level=29, min_version_level=7)],
    )
    with Client(scripted.address, 5) as client:
        found = describe_features(client)
    expected = {"group.version": FeatureLevels(0, 1, 0), "metadata.version": FeatureLevels(7, 30, 29)}
    assert list(found.items()) == list(expected.items())[: count or 0]
