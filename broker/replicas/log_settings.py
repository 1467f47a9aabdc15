"""Turns a topic's settings, under Kafka's names, into those of a log."""

from __future__ import annotations

import random
from collections.abc import Mapping

from stratalog.hot.config import LogConfig
from stratalog.metadata.settings.configs import ConfigEntry
from stratalog.wire.compression import Codec

__all__ = ["demanded_codec", "log_config"]

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
    return LogConfig(
        cleanup_policy=frozenset(policy),
        segment_jitter_ms=dice.randrange(limit_ms) if limit_ms > 0 else 0,
        **values,  # type: ignore[arg-type]  # the catalogue's types were checked when the values were parsed
    )


def demanded_codec(config: LogConfig) -> Codec | None:
    """The codec that the topic demands; None if it takes batches as their producers compress them."""
    if config.compression_type == "producer":
        return None
    return Codec.NONE if config.compression_type == "uncompressed" else Codec[config.compression_type.upper()]
