"""Changes of min.insync.replicas where eligible leader replicas are kept."""

import pytest

from stratalog.metadata.controller.features import FeatureUpdate, update_features
from stratalog.metadata.controller.min_in_sync import check_minimum, one_minimum_records, without_eligible
from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ResourceType
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ClearElrRecord, ConfigRecord, FeatureLevelRecord

ELR = "eligible.leader.replicas.version"
NAME = "min.insync.replicas"


def setting(kind, holder, value, name=NAME):
    return ConfigRecord(resource_type=kind, resource_name=holder, name=name, value=value)


@pytest.mark.parametrize(("holder", "cleared"), [("t", ["t"]), ("", [""])])
def test_another_minimum_forgets_the_eligible_replicas_in_the_same_batch(world, holder, cleared):
    """A replica that is eligible under 2 may lack what is acknowledged under 1: it must not lead."""
    one = world(elr=True, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.tick(9000, 1)
    assert one.sets() == (1, (1,), (2,))
    kind = ResourceType.TOPIC if holder else ResourceType.BROKER
    records = without_eligible(one.image, [setting(kind, holder, "1"), setting(kind, holder, "9", "retention.ms")])
    assert [record.topic_name for record in records if isinstance(record, ClearElrRecord)] == cleared
    one.write(records)
    assert one.sets() == (1, (1,), ())


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
@pytest.mark.parametrize("holder", ["t", ""])
@pytest.mark.parametrize("minimum", ["1", "3"])
def test_those_that_may_lead_an_empty_set_outlive_another_minimum(world, replicas, holder, minimum):
    """Without a leader no mark moves, under any minimum. Forgotten, they come back with everything, and no one may lead."""
    one = world(elr=True, minimum=2)
    one.start(1, 2)
    one.topic("t", replicas)
    one.tick(9000)
    assert one.sets() == (NO_LEADER, (), replicas)
    kind = ResourceType.TOPIC if holder else ResourceType.BROKER
    one.write(without_eligible(one.image, [setting(kind, holder, minimum)]))
    assert one.sets() == (NO_LEADER, (), replicas)
    assert one.state().last_known_eligible == (1,)
    one.restart(1, is_clean=True)
    assert (one.state().leader, one.state().leader_recovery) == (1, LeaderRecovery.RECOVERED)


def test_those_that_may_lead_an_empty_set_outlive_the_level_and_its_return(world):
    """Others have not gone on since: there was no leader."""
    one = world(elr=True, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.tick(9000)
    one.write([FeatureLevelRecord(name=ELR, feature_level=0)])
    supported = {**SUPPORTED_FEATURES, ELR: SupportedLevels(0, 1)}
    one.do(update_features(one.image, [FeatureUpdate(ELR, 1)], node_id=7, supported=supported))
    assert one.sets() == (NO_LEADER, (), (1, 2))


def test_without_eligible_replicas_a_minimum_is_a_setting_like_others(world):
    """No record that such a cluster does not know, and no refusal."""
    one = world()
    records = [setting(ResourceType.BROKER, "1", "2")]
    assert without_eligible(one.image, records) == records
    check_minimum(one.image, records)


@pytest.mark.parametrize(
    ("holder", "value", "is_refused"), [("1", "2", True), ("1", None, True), ("", None, True), ("", "2", False)]
)
def test_one_minimum_holds_for_all_brokers(world, holder, value, is_refused):
    """The one of a broker cannot be altered, that of the cluster not be removed: INVALID_CONFIG."""
    one = world(elr=True)
    records = [setting(ResourceType.BROKER, holder, value)]
    if not is_refused:
        check_minimum(one.image, records)
        return
    with pytest.raises(KafkaError, match="while ELR is enabled") as caught:
        check_minimum(one.image, records)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_the_feature_begins_with_a_minimum_of_the_cluster(world):
    """That of the file, unless there is one; those of brokers go. All in the batch of the level."""
    one = world()
    one.start(1)
    one.write([setting(ResourceType.BROKER, "1", "3")])
    supported = {**SUPPORTED_FEATURES, ELR: SupportedLevels(0, 1)}
    decision = update_features(
        one.image, [FeatureUpdate(ELR, 1)], node_id=7, supported=supported, min_in_sync_replicas=2
    )
    assert decision.is_atomic
    one.write(decision.records)
    assert one.image.configs.of(CLUSTER_DEFAULT)[NAME] == "2"
    assert one.view.has_eligible
    assert one_minimum_records(one.image, 5) == []


def test_eligible_replicas_of_an_earlier_time_are_not_believed(world):
    """The level was taken back and others went on; a level that begins anew begins without eligible replicas."""
    one = world(elr=True, minimum=2)
    one.start(1, 2)
    one.topic("t", (1, 2))
    one.tick(9000, 1)
    one.write([FeatureLevelRecord(name=ELR, feature_level=0)])
    assert one.state().eligible_leader_replicas == (2,)
    supported = {**SUPPORTED_FEATURES, ELR: SupportedLevels(0, 1)}
    one.do(update_features(one.image, [FeatureUpdate(ELR, 1)], node_id=7, supported=supported))
    assert one.sets() == (1, (1,), ())


def test_the_feature_needs_a_level_of_metadata_version(world):
    """Records below level 23 have no place for eligible replicas."""
    one = world()
    one.write([FeatureLevelRecord(name="metadata.version", feature_level=22)])
    supported = {**SUPPORTED_FEATURES, ELR: SupportedLevels(0, 1)}
    with pytest.raises(KafkaError, match=r"depends on metadata\.version level 23"):
        update_features(one.image, [FeatureUpdate(ELR, 1)], node_id=7, supported=supported)
    both = [FeatureUpdate(ELR, 1), FeatureUpdate("metadata.version", 23)]
    assert update_features(one.image, both, node_id=7, supported=supported).records
