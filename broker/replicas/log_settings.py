"""Turns a topic's settings, under Kafka's names, into those of a log."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from stratalog.hot.config import LogConfig
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.settings.configs import ConfigEntry, ConfigResolver
from stratalog.wire.compression import Codec

__all__ = ["TopicSettings", "demanded_codec", "log_config"]

_SAME_NAME = {
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "retention_bytes": "retention.bytes",
    "retention_ms": "retention.ms",
    "local_retention_bytes": "local.retention.bytes",
    "local_retention_ms": "local.retention.ms",
    "max_message_bytes": "max.message.bytes",
    "message_timestamp_type": "message.timestamp.type",
    "message_timestamp_before_max_ms": "message.timestamp.before.max.ms",
    "message_timestamp_after_max_ms": "message.timestamp.after.max.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
    "compression_type": "compression.type",
    "remote_storage_enable": "remote.storage.enable",
    "remote_copy_disable": "remote.log.copy.disable",
    "remote_copy_lag_ms": "remote.copy.lag.ms",
    "remote_copy_lag_bytes": "remote.copy.lag.bytes",
    "upload_lag_ms": "stratalog.upload.lag.ms",
    "upload_part_bytes": "stratalog.upload.part.bytes",
    "storage_class": "stratalog.storage.class",
    "remote_delete_on_disable": "remote.log.delete.on.disable",
    "min_insync_replicas": "min.insync.replicas",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "min_cleanable_dirty_ratio": "min.cleanable.dirty.ratio",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "delete_retention_ms": "delete.retention.ms",
}

_DECIDES_WHAT_GOES = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
)
"""While one of them cannot be read, no record goes: its owner may have asked for every record to be kept."""


def log_config(entries: Mapping[str, ConfigEntry], dice: random.Random) -> LogConfig:
    """The log settings of a topic whose resolved settings are ``entries``; the roll jitter is drawn once."""
    values = {field: entries[name].value for field, name in _SAME_NAME.items()}
    policy = entries["cleanup.policy"].value
    jitter_ms = entries["segment.jitter.ms"].value
    assert isinstance(policy, list | tuple)
    assert isinstance(jitter_ms, int)
    segment_ms, lag_ms = values["segment_ms"], values["max_compaction_lag_ms"]
    assert isinstance(segment_ms, int)
    assert isinstance(lag_ms, int)
    if "compact" in policy:
        values["segment_ms"] = segment_ms = min(segment_ms, lag_ms)  # the active segment is never cleaned
    internal_bytes = entries["internal.segment.bytes"].value if "internal.segment.bytes" in entries else None
    if internal_bytes is not None:
        values["segment_bytes"] = internal_bytes  # Kafka's own way round the lower bound of segment.bytes, for tests
    limit_ms = min(jitter_ms, segment_ms)
    keeps_all = any(entries[name].is_unreadable for name in _DECIDES_WHAT_GOES)
    return LogConfig(
        cleanup_policy=frozenset() if keeps_all else frozenset(policy),
        segment_jitter_ms=dice.randrange(limit_ms) if limit_ms > 0 else 0,
        **values,  # type: ignore[arg-type]  # the catalogue's types were checked when the values were parsed
    )


class TopicSettings:
    """The settings of topics as an image has them, over the broker's own settings in the same image.

    It keeps the last resolver and the last minimum: most images change no settings.
    """

    def __init__(self, node_id: int, resolver: Callable[[ClusterImage], ConfigResolver], dice: random.Random) -> None:
        """``resolver`` makes one from the settings of this broker and of all in an image."""
        self._own = ConfigResource.broker(node_id)
        self._new_resolver = resolver
        self._dice = dice
        self._defaults: tuple[Mapping[str, str], Mapping[str, str], ConfigResolver] | None = None
        self._minimum: tuple[ConfigResolver, Mapping[str, str], int] | None = None

    def resolver(self, image: ClusterImage) -> ConfigResolver:
        """The same object as long as the settings of brokers stay."""
        own, all_brokers, kept = image.configs.of(self._own), image.configs.of(CLUSTER_DEFAULT), self._defaults
        if kept is None or kept[0] is not own or kept[1] is not all_brokers:
            self._defaults = kept = own, all_brokers, self._new_resolver(image)
        return kept[2]

    def log_config(self, image: ClusterImage, topic: str) -> LogConfig:
        """The settings of the topic's logs. The roll jitter is drawn anew."""
        return log_config(self.resolver(image).committed(image.topic_configs(topic)), self._dice)

    def min_in_sync(self, image: ClusterImage, topic: str) -> int:
        """``min.insync.replicas`` of the topic."""
        resolver, overrides, kept = self.resolver(image), image.topic_configs(topic), self._minimum
        if kept is None or kept[0] is not resolver or kept[1] is not overrides:
            value = resolver.committed(overrides)["min.insync.replicas"].value
            assert isinstance(value, int)
            self._minimum = kept = resolver, overrides, value
        return kept[2]


def demanded_codec(config: LogConfig) -> Codec | None:
    """The codec that the topic demands; None if it takes batches as their producers compress them."""
    if config.compression_type == "producer":
        return None
    return Codec.NONE if config.compression_type == "uncompressed" else Codec[config.compression_type.upper()]
