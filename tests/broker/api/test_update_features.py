"""UpdateFeatures: levels change together, and clients see them."""

import pytest

from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.api_versions import ApiVersionsRequest
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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


ELR, MINIMUM = "eligible.leader.replicas.version", "min.insync.replicas"


def set_minimum(broker, name, value, operation=0):
    """The code of a change of min.insync.replicas of a broker, or of all of them."""
    change = AlterableConfig(name=MINIMUM, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (answer,) = broker.link().call(request, 1).responses
    return answer.error_code


def minimum(broker, name=""):
    """The setting of all brokers, or of one."""
    return broker.run(lambda: broker.node.image.configs.of(ConfigResource(4, name)).get(MINIMUM))


def test_a_new_cluster_keeps_eligible_replicas_under_the_minimum_of_the_file(start_node):
    """It is a setting of the cluster then, which stays when the file changes; one of a broker is refused."""
    node = start_node(min_insync_replicas=2)
    assert levels(node)[ELR] == 1
    assert minimum(node) == "2"
    assert set_minimum(node, "1", "3") == ErrorCode.INVALID_CONFIG
    assert set_minimum(node, "", None, operation=1) == ErrorCode.INVALID_CONFIG
    assert set_minimum(node, "", "1") == 0
    node.create("t")
    node.restart()
    assert minimum(node) == "1"
    assert node.partition("t").log.config.min_insync_replicas == 1


def test_eligible_replicas_are_given_up_and_taken_up_again(start_node):
    """In between a minimum may be that of a broker, or of the file; it goes when the feature begins."""
    node = start_node(min_insync_replicas=2)
    assert ask(node, (ELR, 0, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert ask(node, (ELR, 0, SAFE)).error_code == 0
    assert ELR not in levels(node)
    assert set_minimum(node, "1", "3") == 0
    assert set_minimum(node, "", None, operation=1) == 0
    assert (minimum(node), minimum(node, "1")) == (None, "3")
    assert ask(node, (ELR, 1, UPGRADE), validate_only=True).error_code == 0
    assert (minimum(node), minimum(node, "1")) == (None, "3")
    assert ask(node, (ELR, 1, UPGRADE)).error_code == 0
    assert (minimum(node), minimum(node, "1")) == ("2", None)
    assert levels(node)[ELR] == 1
    node.restart()
    assert levels(node)[ELR] == 1
