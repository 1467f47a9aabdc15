"""Changes of feature levels: what may go up, what may go down, and that all go or none."""

from dataclasses import replace

import pytest
from msgspec import structs

from stratalog.metadata.controller.controller import FeatureUpdate, UpgradeType, kraft_version_wanted, update_features
from stratalog.metadata.image.brokers_image import BrokerImage, BrokersImage, SupportedLevels
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import FeatureLevelRecord

SAFE, UNSAFE = UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def refused(image, *updates):
    with pytest.raises(KafkaError) as caught:
        update_features(image, updates, node_id=1)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    start = "The update failed for all features since the following feature had an error: "
    assert caught.value.message.startswith(start)
    return caught.value.message.removeprefix(start)


def test_a_level_goes_down_and_up_again(cluster):
    """Down only if the caller says so; level 0 is the absence of the feature."""
    image = cluster(1)
    assert image.features["transaction.version"] == 2
    for level, kind in ((1, SAFE), (0, UNSAFE), (2, UpgradeType.UPGRADE)):
        decision = update_features(image, [FeatureUpdate("transaction.version", level, kind)], node_id=1)
        image = image.apply(decision.records)
        assert image.features.get("transaction.version", 0) == level


def test_the_present_level_may_be_named_again(cluster):
    """A request for the present level succeeds, in both directions."""
    for kind in (UpgradeType.UPGRADE, SAFE):
        update = FeatureUpdate("metadata.version", 30, kind)
        assert len(update_features(cluster(1), [update], node_id=1).records) == 1


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        (
            FeatureUpdate("group.version", 0),
            (
                "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature without "
                "setting the upgrade type to either safe or unsafe downgrade."
            ),
        ),
        (
            FeatureUpdate("group.version", 9),
            "Invalid update version 9 for feature group.version. Local controller 1 only supports versions 0-1",
        ),
        (
            FeatureUpdate("group.version", -1),
            "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
        ),
        (
            FeatureUpdate("group.version", 1, 9),
            "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type.",
        ),
        (
            FeatureUpdate("no.such", 1),
            "Invalid update version 1 for feature no.such. Local controller 1 does not support this feature.",
        ),
        (FeatureUpdate("no.such", 0), "Invalid update version 0 for feature no.such. Feature no.such not found."),
        (
            FeatureUpdate("metadata.version", 29, SAFE),
            (
                "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade because it might delete metadata "
                "information."
            ),
        ),
        (
            FeatureUpdate("metadata.version", 29, UNSAFE),
            "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is not supported in this version.",
        ),
        (
            FeatureUpdate("metadata.version", 6, SAFE),
            "Invalid update version 6 for feature metadata.version. Local controller 1 only supports versions 7-30",
        ),
    ],
)
def test_a_change_that_cannot_be_made_is_refused_with_kafkas_sentence(cluster, update, sentence):
    """The code is always INVALID_UPDATE_VERSION."""
    assert refused(cluster(1), update) == sentence


def test_no_level_is_raised_by_a_downgrade(cluster):
    """The direction that the caller names must be that of the change."""
    image = cluster(1).apply([FeatureLevelRecord(name="group.version", feature_level=0)])
    assert "Can't downgrade to a newer version." in refused(image, FeatureUpdate("group.version", 1, SAFE))


def test_metadata_goes_back_where_no_record_changed():
    """Between 24 and 29 every level reads what the others write."""
    image = EMPTY_IMAGE.apply([FeatureLevelRecord(name="metadata.version", feature_level=29)])
    decision = update_features(image, [FeatureUpdate("metadata.version", 24, SAFE)], node_id=1)
    assert image.apply(decision.records).features["metadata.version"] == 24


def test_one_that_fails_stops_all(cluster):
    """The error is that of the first by name; of a feature named twice the last change counts."""
    good, bad = FeatureUpdate("transaction.version", 1, SAFE), FeatureUpdate("group.version", 7)
    assert "group.version" in refused(cluster(1), good, bad)
    again = FeatureUpdate("group.version", 1)
    assert len(update_features(cluster(1), [good, bad, again], node_id=1).records) == 2


def test_validation_writes_nothing(cluster):
    """A possible change has no records then, an impossible one is refused as ever."""
    good = FeatureUpdate("transaction.version", 1, SAFE)
    assert update_features(cluster(1), [good], node_id=1, validate_only=True).records == ()
    with pytest.raises(KafkaError):
        update_features(cluster(1), [FeatureUpdate("group.version", 7)], node_id=1, validate_only=True)


def test_every_broker_has_to_support_a_level(cluster, start_of):
    """One that does not is named."""
    from stratalog.metadata.controller.controller import register_broker
    from stratalog.metadata.image.brokers_image import SupportedLevels

    image = cluster(1).apply([FeatureLevelRecord(name="group.version", feature_level=0)])
    levels = {name: SupportedLevels(0, level) for name, level in image.features.items()}
    old = structs.replace(start_of(2), features={**levels, "group.version": SupportedLevels(0, 0)})
    image = image.apply(register_broker(image, old, broker_epoch=50, unclean_allowed=lambda _: False).records)
    assert refused(image, FeatureUpdate("group.version", 1)).endswith("Broker 2 does not support this feature.")


def test_a_voter_that_has_not_registered_stops_every_change(cluster):
    """It may run code that does not know the level."""
    image = cluster(1).apply([FeatureLevelRecord(name="group.version", feature_level=0)])
    update = [FeatureUpdate("group.version", 1)]
    with pytest.raises(KafkaError, match="controller 8 has not registered"):
        update_features(image, update, node_id=7, voters=(7, 8))
    assert update_features(image, update, node_id=7, voters=(7,)).records


def wanted(image, *updates, present=0):
    return kraft_version_wanted(image, updates, node_id=1, present=present)


def running(image, *levels):
    """The image with brokers that can run these levels of kraft.version."""
    features = [{"kraft.version": SupportedLevels(0, level)} if level else {} for level in levels]
    brokers = {number: BrokerImage(number, 1, bytes(16), {}, each) for number, each in enumerate(features, start=10)}
    return replace(image, brokers=BrokersImage(brokers))


def test_kraft_version_is_the_quorums():
    """No record holds it; the last change that names it counts."""
    image = running(EMPTY_IMAGE, 1, 1)
    assert wanted(image, FeatureUpdate("group.version", 1)) is None
    assert wanted(image, FeatureUpdate("kraft.version", 0), FeatureUpdate("kraft.version", 1)) == 1
    assert wanted(image, FeatureUpdate("kraft.version", 1, SAFE), present=1) == 1


@pytest.mark.parametrize(
    ("levels", "update", "present", "sentence"),
    [
        ((1,), FeatureUpdate("kraft.version", 2), 0, "Local controller 1 only supports versions 0-1"),
        ((1, 0), FeatureUpdate("kraft.version", 1), 0, "Broker 11 does not support this feature."),
        ((1,), FeatureUpdate("kraft.version", -1), 0, "A feature version cannot be less than 0."),
        ((1,), FeatureUpdate("kraft.version", 0), 1, "setting the upgrade type to either safe or unsafe downgrade."),
        ((1,), FeatureUpdate("kraft.version", 0, UNSAFE), 1, "Can't downgrade the version of this feature."),
        ((1,), FeatureUpdate("kraft.version", 1, SAFE), 0, "Can't downgrade to a newer version."),
    ],
)
def test_kraft_version_goes_up_alone_and_where_all_can_run_it(levels, update, present, sentence):
    """The text is Kafka's."""
    with pytest.raises(KafkaError) as caught:
        wanted(running(EMPTY_IMAGE, *levels), update, present=present)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert f"Invalid update version {update.level} for feature kraft.version. " in caught.value.message
    assert caught.value.message.endswith(sentence)
