"""UpdateFeatures: levels change together, and clients see them."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE = 1, 2


def ask(broker, *updates, version=2, validate_only=False):
    """``updates``: (feature, level, kind)."""
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind == SAFE)
        for name, level, kind in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    return broker.link().call(request, version)


def levels(broker):
    """The features of the cluster in ApiVersions."""
    link = broker.link()
    answer = link.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    return {one.name: one.max_version_level for one in answer.finalized_features}


@pytest.mark.parametrize("version", range(3))
def test_a_level_goes_down_and_up(broker, version):
    """The change lasts; a success names the features up to version 1."""
    answer = ask(broker, ("transaction.version", 1, SAFE), version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    told = [] if version == 2 else [("transaction.version", 0)]
    assert [(one.feature, one.error_code) for one in answer.results] == told
    assert levels(broker)["transaction.version"] == 1
    broker.restart()
    assert levels(broker)["transaction.version"] == 1
    ask(broker, ("transaction.version", 2, UPGRADE), version=version)
    assert levels(broker)["transaction.version"] == 2


@pytest.mark.parametrize("version", range(3))
def test_one_that_cannot_be_made_stops_all(broker, version):
    """The error is the top one and names the feature."""
    before = levels(broker)
    answer = ask(broker, ("transaction.version", 1, SAFE), ("group.version", 0, UPGRADE), version=version)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Invalid update version 0 for feature group.version." in answer.error_message
    assert answer.results == []
    assert levels(broker) == before


def test_validation_changes_nothing(broker):
    """The answer is that of the change."""
    assert ask(broker, ("transaction.version", 1, SAFE), validate_only=True).error_code == 0
    assert ask(broker, ("metadata.version", 29, SAFE), validate_only=True).error_code == 95
    assert levels(broker)["transaction.version"] == 2


def test_a_node_that_is_alone_keeps_its_kraft_version(broker):
    """Its level is shown only above 0; where no other node can take part, there is nothing to be raised."""
    assert "kraft.version" not in levels(broker)
    assert ask(broker, ("kraft.version", 0, UPGRADE)).error_code == 0
    answer = ask(broker, ("kraft.version", 1, UPGRADE), ("transaction.version", 1, SAFE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "kraft.version" in answer.error_message
    assert levels(broker)["transaction.version"] == 2
