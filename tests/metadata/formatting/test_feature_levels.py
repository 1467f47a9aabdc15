"""Levels of a new cluster: Kafka's choice as far as this release runs it, and Kafka's refusals."""

from __future__ import annotations

import pytest

from stratalog.metadata.formatting.feature_levels import chosen_levels, metadata_version_name, parse_feature
from stratalog.metadata.image.features import BOOTSTRAP_LEVELS, SUPPORTED_FEATURES
from stratalog.wire.errors import Invalid


def levels(*features, release=None, dynamic=False):
    """The levels that are above 0."""
    return {
        name: level for name, level in chosen_levels(features, release, has_dynamic_quorum=dynamic).items() if level
    }


def test_a_new_cluster_has_the_levels_of_a_broker_that_formats_itself():
    """The command and the first start of serve agree."""
    assert levels() == BOOTSTRAP_LEVELS


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("4.3", BOOTSTRAP_LEVELS),
        (
            "4.1-IV0",
            {
                "metadata.version": 26,
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "transaction.version": 2,
            },
        ),
        ("4.0-IV1", {"metadata.version": 23, "group.version": 1}),
        ("4.0.1", {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
        ("3.9", {"metadata.version": 21}),
        ("3.5", {"metadata.version": 11}),
        ("3.3-IV3", {"metadata.version": 7}),
    ],
)
def test_a_release_names_the_defaults_of_its_features(release, expected):
    """A feature begins at the level that was the default of that release."""
    assert levels(release=release) == expected


def test_a_dynamic_quorum_has_kraft_version_1_unless_it_says_so_itself():
    """Static voters have level 0."""
    assert levels(dynamic=True)["kraft.version"] == 1
    assert levels("kraft.version=1", dynamic=True)["kraft.version"] == 1
    assert "kraft.version" not in levels("kraft.version=0")


def test_options_set_levels_within_their_bounds():
    """The last of several counts."""
    asked = ("group.version=1", "group.version = 0", "transaction.version=1", "eligible.leader.replicas.version=0")
    assert levels(*asked) == {"metadata.version": 30, "transaction.version": 1}
    assert levels("metadata.version=24") == levels(release="4.0-IV2")


@pytest.mark.parametrize(
    ("features", "release", "dynamic", "why"),
    [
        (["group.version"], None, False, "equals sign not found"),
        (["group.version=x"], None, False, "unable to parse x as a short"),
        (["group.version=" + "9" * 5000], None, False, " as a short."),
        (["group.version=-1"], None, False, "unable to parse -1 as a short"),
        (["group.version=40000"], None, False, "unable to parse 40000"),
        (["grup.version=1"], None, False, "Unsupported feature: grup.version. Supported features are: "),
        (["group.version=2"], None, False, "No feature:group.version with feature level 2; its levels are 0 to 1"),
        (["share.version=1"], None, False, "Kafka knows that level, this release runs share.version up to level 0"),
        (["metadata.version=6"], None, False, "No MetadataVersion with feature level 6"),
        (["metadata.version=31"], None, False, "Valid feature levels are from 7 to 30"),
        (["metadata.version=30"], "4.3", False, "Use --release-version instead"),
        ([], "4.4", False, "Unknown metadata.version '4.4'"),
        ([], "3.2", False, "Supported metadata.version are: 3.3-IV3, "),
        (["kraft.version=1"], None, False, "Cannot set kraft.version to 1 unless"),
        (["kraft.version=0"], None, True, "Cannot set kraft.version to 0 if"),
        (["kraft.version=2"], None, True, "No feature:kraft.version with feature level 2"),
    ],
)
def test_levels_that_cannot_be_are_refused_with_the_reason(features, release, dynamic, why):
    """No level is guessed."""
    with pytest.raises(Invalid) as refused:
        chosen_levels(features, release, has_dynamic_quorum=dynamic)
    assert why in str(refused.value)


def test_levels_have_kafkas_names():
    """Every level that is supported has one."""
    assert metadata_version_name(30) == "4.3-IV0"
    supported = SUPPORTED_FEATURES["metadata.version"]
    names = {metadata_version_name(level) for level in range(supported.minimum, supported.maximum + 1)}
    assert len(names) == supported.maximum - supported.minimum + 1
    assert not any(name.isdigit() for name in names)
    assert metadata_version_name(99) == "99"


def test_a_feature_is_a_name_and_a_level():
    """Blanks around either do not count."""
    assert parse_feature(" group.version = 1 ") == ("group.version", 1)
