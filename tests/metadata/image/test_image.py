"""The cluster's image."""

import pytest

from stratalog.metadata.image.brokers_image import BrokerImage
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.image import EMPTY_IMAGE, INCARNATION, ImageDelta, Provenance
from stratalog.wire.errors import Corrupt
from stratalog.wire.records import metadata
from stratalog.wire.records.metadata import (
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

_ID = b"t" * 16
_TOPIC = ConfigResource.topic("t")


def _topic(name="t", topic_id=_ID):
    return [
        TopicRecord(name=name, topic_id=topic_id),
        PartitionRecord(
            topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
        ),
    ]


def _config(name, value, resource=_TOPIC):
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def test_records_become_an_image():
    """Topics, settings, features and producer ids are all there, under the given provenance."""
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        *_topic(),
        _config("retention.ms", "5"),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        NoOpRecord(),
    ]
    image = EMPTY_IMAGE.apply(records, Provenance(7, 1, 99))
    assert image.provenance == (7, 1, 99)
    assert image.features == {"metadata.version": 30}
    assert image.topic_configs("t") == {"retention.ms": "5"}
    assert image.next_producer_id == 1000
    partition = image.topics.partition("t", 0)
    assert partition is not None
    assert partition.leader == 1
    assert EMPTY_IMAGE.topics.by_name == {}


def test_a_batch_shares_what_it_does_not_touch():
    """Brokers, settings and other topics of the next image are the same objects."""
    image = EMPTY_IMAGE.apply([*_topic("a", b"a" * 16), *_topic("b", b"b" * 16), _config("x", "1")])
    change = PartitionChangeRecord(topic_id=b"a" * 16, partition_id=0, leader=-1)
    after = image.apply([change])
    assert after.brokers is image.brokers
    assert after.configs is image.configs
    assert after.topics.by_name["b"] is image.topics.by_name["b"]
    assert after.topics.by_name["a"] is not image.topics.by_name["a"]
    assert after.version == image.version + 1 == after.topics.by_name["a"].version


def test_a_delta_says_what_changed():
    """The broker acts on the difference, not on the whole."""
    image = EMPTY_IMAGE.apply([*_topic(), *_topic("gone", b"g" * 16), _config("x", "1", ConfigResource.topic("gone"))])
    delta = ImageDelta(image)
    delta.replay(PartitionChangeRecord(topic_id=_ID, partition_id=0, isr=[]))
    delta.replay(RemoveTopicRecord(topic_id=b"g" * 16))
    assert delta.changed_topic_ids == {_ID}
    assert delta.removed_topics == {b"g" * 16: "gone"}
    assert delta.changed_resources == {ConfigResource.topic("gone")}
    assert delta.base is image


def test_a_deleted_topic_takes_its_settings_along():
    """A topic of the same name begins without them."""
    image = EMPTY_IMAGE.apply([*_topic(), _config("retention.ms", "5")])
    after = image.apply([RemoveTopicRecord(topic_id=_ID), *_topic("t", b"n" * 16)])
    assert after.topic_configs("t") == {}
    assert after.topics.by_name["t"].topic_id == b"n" * 16


def test_a_feature_of_level_zero_is_not_there():
    """Level 0 removes it (KIP-584)."""
    image = EMPTY_IMAGE.apply([FeatureLevelRecord(name="group.version", feature_level=1)])
    assert image.apply([FeatureLevelRecord(name="group.version", feature_level=0)]).features == {}


def test_producer_ids_never_go_back():
    """A block given out twice would let one producer fence another."""
    image = EMPTY_IMAGE.apply([ProducerIdsRecord(broker_id=1, next_producer_id=2000)])
    with pytest.raises(Corrupt, match="goes back from 2000 to 1000"):
        image.apply([ProducerIdsRecord(broker_id=1, next_producer_id=1000)])


def test_the_incarnation_is_the_clusters_own():
    """It is kept in the metadata log, 0 for a cluster that never took over."""
    assert EMPTY_IMAGE.incarnation == 0
    assert EMPTY_IMAGE.apply([_config(INCARNATION, "3", CLUSTER_DEFAULT)]).incarnation == 3


def test_brokers_and_controllers_come_and_go():
    """Registration, fencing by older records, leaving."""
    broker = BrokerImage(1, 5, b"i" * 16, {})
    controller = RegisterControllerRecord(
        controller_id=1, incarnation_id=b"i" * 16, zk_migration_ready=False, end_points=[], features=[]
    )
    image = EMPTY_IMAGE.apply([controller, broker.to_record(), UnfenceBrokerRecord(id=1, epoch=5)])
    assert image.brokers.is_active(1)
    assert set(image.brokers.controllers) == {1}
    fenced = image.apply([FenceBrokerRecord(id=1, epoch=5)])
    assert not fenced.brokers.is_active(1)
    assert fenced.apply([UnregisterBrokerRecord(broker_id=1, broker_epoch=5)]).brokers.brokers == {}


def test_eligible_replicas_can_be_cleared():
    """ClearElrRecord reaches the topics."""
    image = EMPTY_IMAGE.apply(
        [
            TopicRecord(name="t", topic_id=_ID),
            PartitionRecord(topic_id=_ID, partition_id=0, replicas=[1], isr=[1], eligible_leader_replicas=[1]),
        ]
    )
    after = image.apply([ClearElrRecord(topic_name="t")]).topics.partition("t", 0)
    assert after is not None
    assert after.eligible_leader_replicas == ()


def test_a_record_that_is_no_change_is_refused():
    """Markers of metadata transactions are resolved before the image."""
    with pytest.raises(Corrupt, match="BeginTransactionRecord cannot be applied"):
        EMPTY_IMAGE.apply([BeginTransactionRecord()])


def test_how_an_image_was_reached_does_not_count():
    """Two images that say the same are equal whatever their versions and provenance."""
    one = EMPTY_IMAGE.apply(_topic(), Provenance(1, 1, 1))
    other = EMPTY_IMAGE.apply([]).apply(_topic()[:1]).apply(_topic()[1:], Provenance(9, 9, 9))
    assert one == other


def test_every_record_that_can_be_read_can_be_applied():
    """A log that a controller of Apache Kafka wrote ends no broker: each type but the markers has its place here."""
    markers = {metadata.BeginTransactionRecord, metadata.EndTransactionRecord, metadata.AbortTransactionRecord}
    assert ImageDelta._HANDLERS.keys() | markers == set(metadata._RECORDS.values())


def test_a_record_of_a_migration_changes_nothing():
    """Kafka 3 may have left one in the log, from the way out of ZooKeeper."""
    assert EMPTY_IMAGE.apply([metadata.ZkMigrationStateRecord(zk_migration_state=3)]) == EMPTY_IMAGE
