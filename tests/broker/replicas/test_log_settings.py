"""Kafka's topic settings as those of a log."""

import random

import pytest

from stratalog.broker.replicas.log_settings import TopicSettings, log_config
from stratalog.hot.config import LogConfig
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ResourceType
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.records.metadata import ConfigRecord


@pytest.fixture
def settings():
    """The log settings of a topic with some of its own."""
    resolver = ConfigResolver.for_topics({}, {}, {})
    return lambda **own: log_config(
        resolver.resolve({name.replace("_", "."): value for name, value in own.items()}), random.Random(7)
    )


def test_the_defaults_are_those_of_the_log(settings):
    """Two places state them; they must agree."""
    assert settings() == LogConfig()


def test_every_setting_is_carried_over(settings):
    """Numbers, words, sets and flags arrive typed under their own names."""
    config = settings(
        segment_bytes="1048577",
        cleanup_policy="compact,delete",
        compression_type="zstd",
        message_timestamp_type="LogAppendTime",
        remote_storage_enable="true",
        local_retention_bytes="9",
        min_insync_replicas="2",
        flush_messages="100",
    )
    assert config.segment_bytes == 1_048_577
    assert config.cleanup_policy == {"compact", "delete"}
    assert (config.compression_type, config.message_timestamp_type) == ("zstd", "LogAppendTime")
    assert config.remote_storage_enable is True
    assert (config.local_retention_bytes, config.min_insync_replicas, config.flush_messages) == (9, 2, 100)


def test_the_jitter_is_drawn_below_its_limit_and_below_the_roll_time(settings):
    """So that the segments of many partitions do not roll at once, and never at every append."""
    assert settings().segment_jitter_ms == 0
    assert 0 <= settings(segment_jitter_ms="1000").segment_jitter_ms < 1000
    assert 0 <= settings(segment_jitter_ms="1000", segment_ms="10").segment_jitter_ms < 10


def test_a_compacted_topic_rolls_its_segment_by_the_longest_lag(settings):
    """The active segment is never cleaned, so a record in it would wait for too long."""
    assert settings(max_compaction_lag_ms="5000").segment_ms == LogConfig().segment_ms
    config = settings(max_compaction_lag_ms="5000", cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    assert (config.segment_ms, config.max_compaction_lag_ms, config.min_cleanable_dirty_ratio) == (5000, 5000, 0.1)
    assert settings(max_compaction_lag_ms=str(10**15), cleanup_policy="compact").segment_ms == LogConfig().segment_ms


def test_settings_of_topics_follow_each_level_of_an_image():
    """Each of the topic, of this broker and of all brokers; and a resolver is made once for all images with the same defaults."""
    made = []

    def resolver(image):
        made.append(image)
        own, all_brokers = image.configs.of(ConfigResource.broker(7)), image.configs.of(CLUSTER_DEFAULT)
        return ConfigResolver.for_topics({}, own, all_brokers)

    topics, image = TopicSettings(7, resolver, random.Random(7)), EMPTY_IMAGE
    assert [topics.min_in_sync(image, "t"), topics.log_config(image, "t").min_insync_replicas] == [1, 1]
    for count, (level, name) in enumerate(
        [(ResourceType.BROKER, ""), (ResourceType.BROKER, "7"), (ResourceType.TOPIC, "t")], 2
    ):
        setting = ConfigRecord(resource_type=level, resource_name=name, name="min.insync.replicas", value=str(count))
        image = image.apply([setting])
        for _ in range(2):
            assert [topics.min_in_sync(image, "t"), topics.log_config(image, "t").min_insync_replicas] == [count] * 2
    assert topics.min_in_sync(image, "u") == 3
    assert len(made) == 3
