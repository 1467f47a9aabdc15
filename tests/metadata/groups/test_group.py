"""Shared by all groups."""

from stratalog.metadata.groups.group import GroupSettings, GroupType
from stratalog.metadata.settings.by_name import definitions


def test_types_are_named_as_in_kafka():
    """ListGroups filters by these names (KIP-1043)."""
    assert [str(kind) for kind in GroupType] == ["classic", "consumer"]


def test_the_settings_begin_with_kafkas_defaults():
    """A shard without settings of its own behaves as a broker without a properties file."""
    settings = GroupSettings()
    by_name = definitions()
    for name, value in {
        "group.min.session.timeout.ms": settings.min_session_timeout_ms,
        "group.max.session.timeout.ms": settings.max_session_timeout_ms,
        "group.initial.rebalance.delay.ms": settings.initial_rebalance_delay_ms,
        "group.max.size": settings.max_size,
        "offset.metadata.max.bytes": settings.offset_metadata_max_bytes,
        "offsets.retention.check.interval.ms": settings.offsets_retention_check_interval_ms,
        "group.consumer.session.timeout.ms": settings.consumer_session_timeout_ms,
        "group.consumer.min.session.timeout.ms": settings.consumer_min_session_timeout_ms,
        "group.consumer.max.session.timeout.ms": settings.consumer_max_session_timeout_ms,
        "group.consumer.heartbeat.interval.ms": settings.consumer_heartbeat_interval_ms,
        "group.consumer.min.heartbeat.interval.ms": settings.consumer_min_heartbeat_interval_ms,
        "group.consumer.max.heartbeat.interval.ms": settings.consumer_max_heartbeat_interval_ms,
        "group.consumer.max.size": settings.consumer_max_size,
        "group.consumer.migration.policy": settings.consumer_migration_policy,
        "group.consumer.regex.refresh.interval.ms": settings.consumer_regex_refresh_interval_ms,
    }.items():
        assert by_name[name].default == value, name
    assert settings.offsets_retention_ms == by_name["offsets.retention.minutes"].default * 60_000
