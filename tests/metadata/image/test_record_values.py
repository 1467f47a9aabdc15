"""Records in the versions of the cluster's level."""

import pytest

from stratalog.metadata.image.brokers_image import BrokerImage, ListenerAddress, SupportedLevels
from stratalog.metadata.image.features import METADATA_VERSION, SUPPORTED_FEATURES, record_version
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.record_values import record_values
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot, image_records, read_snapshot
from stratalog.metadata.image.topics_image import PartitionImage
from stratalog.wire.batch import iter_headers, iter_records
from stratalog.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    TopicRecord,
    decode_record,
)

LEVELS = range(SUPPORTED_FEATURES[METADATA_VERSION].minimum, SUPPORTED_FEATURES[METADATA_VERSION].maximum + 1)
TOPIC_ID = b"t" * 16


def version_of(value) -> int:
    """The version of a short record: the frame's version and the type take a byte each."""
    return bytes(value)[2]


def image_of(level: int):
    """An image with everything that the level has a place for."""
    broker = BrokerImage(
        broker_id=1,
        epoch=5,
        incarnation_id=b"i" * 16,
        listeners={"PLAINTEXT": ListenerAddress("a", 9092)},
        features={METADATA_VERSION: SupportedLevels(7, 30)},
        is_fenced=False,
        in_controlled_shutdown=True,
        directories=(b"d" * 16,) if level >= 17 else (),
        cordoned_directories=(b"d" * 16,) if level >= 30 else None,
    )
    partition = PartitionImage(
        replicas=(1, 2),
        in_sync_replicas=(1,),
        leader=1,
        leader_epoch=3,
        partition_epoch=4,
        directories=(b"d" * 16, b"e" * 16) if level >= 17 else (),
        eligible_leader_replicas=(2,) if level >= 23 else (),
    )
    records = [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=level),
        broker.to_record(),
        TopicRecord(name="t", topic_id=TOPIC_ID),
        partition.to_record(TOPIC_ID, 0),
    ]
    return EMPTY_IMAGE.apply(records, Provenance(41, 3, 9))


@pytest.mark.parametrize("level", LEVELS)
def test_the_image_of_each_level_survives_its_records_and_its_snapshot(level):
    """All that the level knows is kept, and no record is newer than a node of that level reads."""
    image = image_of(level)
    values = list(record_values(image_records(image), level))
    records = [decode_record(value) for value in values]
    assert EMPTY_IMAGE.apply(records) == image
    assert [version_of(value) for value in values] == [record_version(type(record), level) for record in records]
    content = b"".join(build_snapshot(image))
    assert read_snapshot(content, SnapshotId(42, 3)) == image
    written = [
        bytes(record.value)
        for position, header in iter_headers(content)
        if not header.is_control
        for record in iter_records(content, position)
    ]
    assert written == values


@pytest.mark.parametrize("level", LEVELS)
def test_changes_are_written_in_the_version_of_the_level(level):
    """A controller of level 30 that leads a cluster of level 17 writes what a node of 17 reads."""
    changes = [
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1),
        NoOpRecord(),
    ]
    found = [version_of(value) for value in record_values(changes, level)]
    assert found == [record_version(type(change), level) for change in changes]


@pytest.mark.parametrize(("before", "level", "version"), [(0, 16, 2), (0, 30, 4), (16, 17, 3), (17, 17, 3)])
def test_a_level_holds_for_the_records_behind_it(before, level, version):
    """A new log begins with its level; an upgrade changes it on the way."""
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level), *image_records(image_of(level))]
    values = record_values(records, before)
    assert [version_of(value) for value in values if bytes(value)[1] == 0] == [version]


def test_the_level_of_another_feature_changes_no_version():
    """Only metadata.version speaks of records."""
    records = [FeatureLevelRecord(name="group.version", feature_level=1), *list(image_records(image_of(30)))[1:2]]
    assert [version_of(value) for value in record_values(records, 7)] == [0, 1]
