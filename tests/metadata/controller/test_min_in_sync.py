"""Changes of min.insync.replicas where eligible leader replicas are kept."""

from types import SimpleNamespace

import pytest

from stratalog.metadata.controller.assign_replicas import Placed, assigning_replicas_to_directories
from stratalog.metadata.controller.configs import ConfigChange, ConfigRules, incremental_alter_configs
from stratalog.metadata.controller.elections import electing_leaders
from stratalog.metadata.controller.features import FeatureUpdate, update_features
from stratalog.metadata.controller.min_in_sync import check_minimum, one_minimum_records, without_eligible
from stratalog.metadata.controller.topics import deleting_topics
from stratalog.metadata.image.brokers_image import SupportedLevels
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ConfigsImage, ResourceType
from stratalog.metadata.image.decision import at_once
from stratalog.metadata.image.directory_ids import LOST
from stratalog.metadata.image.features import SUPPORTED_FEATURES
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.same_image import same_to_resources
from stratalog.metadata.image.topics_image import NO_LEADER, LeaderRecovery
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from stratalog.wire.topic import ZERO_UUID, TopicPartition

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


def test_a_broker_that_is_away_comes_back_without_a_minimum_of_its_own(world):
    """By it the broker would acknowledge what the replicas that may lead after it lack."""
    one = world(minimum=2)
    one.start(1)
    one.write([setting(ResourceType.BROKER, "2", "1"), setting(ResourceType.BROKER, "2", "9", "log.cleaner.threads")])
    supported = {**SUPPORTED_FEATURES, ELR: SupportedLevels(0, 1)}
    one.do(update_features(one.image, [FeatureUpdate(ELR, 1)], node_id=7, supported=supported))
    assert dict(one.image.configs.of(ConfigResource.broker(2))) == {"log.cleaner.threads": "9"}


class Unsorted(str):
    """The name of one of very many topics."""

    __slots__ = ()

    def __lt__(self, other):
        raise AssertionError(f"{self} is sorted beside {other}")


def test_the_settings_of_topics_are_not_sorted():
    """The look for brokers' minima is made in one turn of the loop, by each controller that becomes active."""
    holders = [ConfigResource(ResourceType.TOPIC, Unsorted(name)) for name in "cab"]
    brokers = [ConfigResource.broker(3), ConfigResource.broker(2)]
    configs = ConfigsImage({one: {NAME: "1"} for one in (*holders, *brokers)})
    records = one_minimum_records(SimpleNamespace(configs=configs), 2)
    assert [one.resource_name for one in records] == ["", "2", "3"]


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


def deleted(one):
    """No replica of the topic lives, and it is deleted: a record of its partition could not be replayed."""
    one.tick(9000)
    return lambda: at_once(deleting_topics)(one.image, [("t", ZERO_UUID)])


def elected_uncleanly(one):
    """The last one to be out of sync leads now: the others must not be eligible again."""
    one.tick(9000, 1, 2)
    one.tick(9000)
    one.tick(9000)
    one.restart(3, is_clean=True)
    return lambda: at_once(electing_leaders)(one.view, 1, [TopicPartition("t", 0)])


def without_its_leader(one):
    """The leader's directory is lost: the eligible one has everything and is kept."""
    one.tick(9000, 1)
    key, epoch = PartitionKey(one.image.topics.by_name["t"].topic_id, 0), one.image.brokers.brokers[1].epoch
    return lambda: at_once(assigning_replicas_to_directories)(one.view, 1, epoch, [Placed(key, LOST)])


@pytest.mark.parametrize("kind", ["cluster", "topic"])
@pytest.mark.parametrize("prepare", [deleted, elected_uncleanly, without_its_leader])
def test_another_minimum_is_decided_again_after_a_change_of_its_topics(world, prepare, kind):
    """Its records name partitions without a leader: decided before that change, they would be others."""
    one = world(elr=True, minimum=2)
    one.start(1, 2, 3)
    one.topic("t", (1, 2, 3))
    meanwhile = prepare(one)
    resource = CLUSTER_DEFAULT if kind == "cluster" else ConfigResource.topic("t")
    changes = [(resource, [ConfigChange(NAME, 0, "1")])]
    rules = ConfigRules(resolver=ConfigResolver.for_topics({}, {}, {}), static={})
    before, decided = one.image, incremental_alter_configs(one.image, changes, rules)
    assert same_to_resources([resource])(before, one.image)
    one.write(meanwhile().records)
    assert incremental_alter_configs(one.image, changes, rules) != decided
    assert not same_to_resources([resource])(before, one.image)
