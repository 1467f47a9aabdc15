"""Tests of hot/config.py."""

from stratalog.hot.config import LogConfig


def test_the_defaults_are_kafkas_except_sync_on_ack():
    """The values of facts.md: sizes, times, limits; flush.messages is ours."""
    config = LogConfig()
    assert config.segment_bytes == 1073741824
    assert config.segment_ms == config.retention_ms == 604800000
    assert config.segment_index_bytes == 10485760
    assert config.index_interval_bytes == 4096
    assert config.max_message_bytes == 1048588
    assert config.min_insync_replicas == 1
    assert config.flush_messages == 1
    assert config.message_timestamp_after_max_ms == 3600000
    assert config.file_delete_delay_ms == 60000


def test_local_retention_of_minus_2_follows_retention():
    """Kafka's rule for local.retention.*."""
    config = LogConfig(retention_ms=5, retention_bytes=6)
    assert (config.effective_local_retention_ms, config.effective_local_retention_bytes) == (5, 6)
    config = LogConfig(retention_ms=5, local_retention_ms=3, local_retention_bytes=4)
    assert (config.effective_local_retention_ms, config.effective_local_retention_bytes) == (3, 4)


def test_compact_and_delete_may_hold_at_once():
    """Both may hold at once."""
    assert LogConfig().deletes
    assert not LogConfig().compacted
    both = LogConfig(cleanup_policy=frozenset({"compact", "delete"}))
    assert both.compacted
    assert both.deletes
