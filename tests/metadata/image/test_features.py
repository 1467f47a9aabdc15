"""Feature levels."""

from stratalog.metadata.image.features import BOOTSTRAP_LEVELS, METADATA_VERSION, SUPPORTED_FEATURES, bootstrap_records


def test_a_new_cluster_has_the_levels_of_kafka_4_3():
    """metadata.version 30 is 4.3-IV0, and comes first in the log."""
    records = bootstrap_records()
    assert (records[0].name, records[0].feature_level) == (METADATA_VERSION, 30)
    assert {record.name: record.feature_level for record in records} == dict(BOOTSTRAP_LEVELS)


def test_every_level_of_a_new_cluster_can_be_run():
    """A broker can register with the cluster it has just made."""
    for name, level in BOOTSTRAP_LEVELS.items():
        assert SUPPORTED_FEATURES[name].minimum <= level <= SUPPORTED_FEATURES[name].maximum
