"""Feature levels."""

import pytest

from stratalog.metadata.image.features import (
    BOOTSTRAP_LEVELS,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    bootstrap_records,
    has_eligible_leader_replicas,
    record_version,
    runnable_records,
)
from stratalog.wire.errors import Invalid
from stratalog.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)


def test_a_new_cluster_has_the_levels_of_kafka_4_3():
    """metadata.version 30 is 4.3-IV0, and comes first in the log."""
    records = bootstrap_records()
    assert (records[0].name, records[0].feature_level) == (METADATA_VERSION, 30)
    assert {record.name: record.feature_level for record in records} == dict(BOOTSTRAP_LEVELS)


def test_every_level_of_a_new_cluster_can_be_run():
    """A broker can register with the cluster it has just made."""
    for name, level in BOOTSTRAP_LEVELS.items():
        assert SUPPORTED_FEATURES[name].minimum <= level <= SUPPORTED_FEATURES[name].maximum


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (RegisterBrokerRecord, {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}),
        (PartitionRecord, {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (PartitionChangeRecord, {16: 0, 17: 1, 22: 1, 23: 2}),
        (BrokerRegistrationChangeRecord, {7: 1, 16: 1, 17: 2, 29: 2, 30: 3}),
        (TopicRecord, {7: 0, 30: 0}),
    ],
)
def test_a_record_is_written_in_the_version_of_the_clusters_level(record, versions):
    """A node of that level reads no newer one."""
    assert {level: record_version(record, level) for level in versions} == versions


@pytest.mark.parametrize(("levels", "has"), [({}, False), ({"eligible.leader.replicas.version": 1}, True)])
def test_eligible_replicas_are_kept_from_level_1_on(levels, has):
    """Without the feature an in-sync set is never empty but after a loss."""
    assert has_eligible_leader_replicas(levels) is has


def test_levels_of_another_release_are_lowered_to_ours_and_said():
    """Kafka formats with features that this release does not run yet; other records stay as they are."""
    scram = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    levels = {METADATA_VERSION: 30, "group.version": 1, "share.version": 1, "transaction.version": 3}
    records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
    kept, lowered = runnable_records([*records, scram])
    assert [(one.name, one.feature_level) for one in kept[:-1]] == [
        (METADATA_VERSION, 30),
        ("group.version", 1),
        ("transaction.version", 2),
    ]
    assert kept[-1] == scram
    assert lowered == (
        "share.version begins with level 0 instead of 1: this release runs no higher one",
        "transaction.version begins with level 2 instead of 3: this release runs no higher one",
    )


@pytest.mark.parametrize("level", [21, 31])
def test_a_new_cluster_of_another_metadata_version_is_refused(level):
    """The records that are written would not be those of its level."""
    with pytest.raises(Invalid, match=f"level {level}|version {level} cannot begin here"):
        runnable_records([FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)])
