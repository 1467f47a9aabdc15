"""Broker settings of the log: segments, retention, sync, cleaner, batches."""

from __future__ import annotations

import sys
from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.topic import CLEANUP_POLICIES, COMPRESSION_TYPES, TIMESTAMP_TYPES
from stratalog.metadata.settings.catalogue.validators import AnyList, GzipLevel, ListOf, OneOf, Range, at_least, between

__all__ = ["LOG_SETTINGS"]

_OWN_BUFFERS: Final = "the cleaner reads and writes a megabyte at a time"
_OWN_LEVELS: Final = "batches that are compressed anew get the level that the codec itself prefers"
_NO_PREALLOCATION: Final = "segments grow by appending; Linux file systems gain nothing from allocating before"

# fmt: off
LOG_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("log.dir", LIST, ("/tmp/stratalog-logs",), AnyList(empty_allowed=False), kafka=("/tmp/kafka-logs",),  # noqa: S108 - the shape of Kafka's default
            doc="Directories of the log when log.dirs is not set. Our default has our name, so that the directories of "
                "a Kafka on the same machine are never touched."),
    setting("log.dirs", LIST, None, AnyList(empty_allowed=False, null_allowed=True),
            doc="Directories of the log; a partition lives in one of them. One that fails is taken offline."),
    setting("log.cleanup.policy", LIST, ("delete",), ListOf(CLEANUP_POLICIES), mode=WIDE,
            doc="Default of cleanup.policy."),
    setting("log.cleaner.backoff.ms", LONG, 15_000, at_least(0), mode=WIDE,
            doc="Pause of the cleaner when no log is worth cleaning."),
    setting("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, mode=WIDE,
            doc="Memory for the map from key to newest offset, shared by log.cleaner.threads; a key takes 40 bytes. The "
                "next run cleans the records whose keys did not fit."),
    setting("log.cleaner.delete.retention.ms", LONG, 86_400_000, at_least(0), mode=WIDE,
            doc="Default of delete.retention.ms."),
    setting("log.cleaner.enable", BOOLEAN, True,
            doc="Run the cleaner of compacted topics; deprecated in Kafka."),
    setting("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, mode=WIDE,
            doc="Fill of the cleaner's map at which a cleaning stops taking more of the log."),
    setting("log.cleaner.io.buffer.size", INT, 524_288, at_least(0), mode=WIDE, unused=_OWN_BUFFERS,
            doc="Memory for the cleaner's reads and writes, over all cleaners."),
    setting("log.cleaner.io.max.bytes.per.second", DOUBLE, sys.float_info.max, mode=WIDE,
            doc="Bound of what the cleaner reads and writes a second, all threads together."),
    setting("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), mode=WIDE,
            doc="Default of max.compaction.lag.ms."),
    setting("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, Range(0, 1), mode=WIDE,
            doc="Default of min.cleanable.dirty.ratio."),
    setting("log.cleaner.min.compaction.lag.ms", LONG, 0, at_least(0), mode=WIDE,
            doc="Default of min.compaction.lag.ms."),
    setting("log.cleaner.threads", INT, 1, at_least(0), mode=WIDE,
            doc="Cleaners that run at once."),
    setting("log.dir.failure.timeout.ms", LONG, 30_000, at_least(1),
            doc="How long a broker may fail to tell the controller of a lost directory before it stops. A broker by itself goes on."),
    setting("log.flush.interval.messages", LONG, 1, at_least(1), mode=WIDE, kafka=LONG_MAX,
            doc="Default of flush.messages: 1 syncs before the answer, 9223372036854775807 is Kafka's page-cache way."),
    setting("log.flush.interval.ms", LONG, None, mode=WIDE,
            doc="Default of flush.ms; not set, it is log.flush.scheduler.interval.ms."),
    setting("log.flush.offset.checkpoint.interval.ms", INT, 60_000, at_least(0),
            doc="How often the recovery points of a directory are written down."),
    setting("log.flush.scheduler.interval.ms", LONG, LONG_MAX,
            doc="How often Kafka looks for logs to sync; here only the default of flush.ms."),
    setting("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, at_least(0),
            doc="How often the log start offsets of a directory are written down."),
    setting("log.index.interval.bytes", INT, 4096, at_least(0), mode=WIDE, doc="Default of index.interval.bytes."),
    setting("log.index.size.max.bytes", INT, 10 << 20, at_least(4), mode=WIDE, doc="Default of segment.index.bytes."),
    setting("log.initial.task.delay.ms", LONG, 30_000, at_least(0), internal=True,
            unused="retention first runs one log.retention.check.interval.ms after the start",
            doc="Pause after the start before retention runs for the first time."),
    setting("log.local.retention.bytes", LONG, -2, at_least(-2), mode=WIDE, doc="Default of local.retention.bytes."),
    setting("log.local.retention.ms", LONG, -2, at_least(-2), mode=WIDE, doc="Default of local.retention.ms."),
    setting("log.message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0), mode=WIDE,
            doc="Default of message.timestamp.after.max.ms."),
    setting("log.message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), mode=WIDE,
            doc="Default of message.timestamp.before.max.ms."),
    setting("log.message.timestamp.type", STRING, "CreateTime", OneOf(TIMESTAMP_TYPES), mode=WIDE,
            doc="Default of message.timestamp.type."),
    setting("log.preallocate", BOOLEAN, False, mode=WIDE, unused=_NO_PREALLOCATION, doc="Default of preallocate."),
    setting("log.retention.bytes", LONG, -1, mode=WIDE, doc="Default of retention.bytes."),
    setting("log.retention.check.interval.ms", LONG, 300_000, at_least(1),
            doc="How often retention looks for segments to drop."),
    setting("log.retention.hours", INT, 168, doc="Default of retention.ms in hours, behind ms and minutes."),
    setting("log.retention.minutes", INT, None, doc="Default of retention.ms in minutes, behind log.retention.ms."),
    setting("log.retention.ms", LONG, None, mode=WIDE, doc="Default of retention.ms."),
    setting("log.roll.hours", INT, 168, at_least(1), doc="Default of segment.ms in hours, behind log.roll.ms."),
    setting("log.roll.jitter.hours", INT, 0, at_least(0), doc="Default of segment.jitter.ms in hours."),
    setting("log.roll.jitter.ms", LONG, None, mode=WIDE, doc="Default of segment.jitter.ms."),
    setting("log.roll.ms", LONG, None, mode=WIDE, doc="Default of segment.ms."),
    setting("log.segment.bytes", INT, 1 << 30, at_least(1 << 20), mode=WIDE, doc="Default of segment.bytes."),
    setting("log.segment.delete.delay.ms", LONG, 60_000, at_least(0), mode=WIDE,
            doc="Default of file.delete.delay.ms."),
    setting("message.max.bytes", INT, 1_048_588, at_least(0), mode=WIDE, doc="Default of max.message.bytes."),
    setting("compression.gzip.level", INT, -1, GzipLevel(), mode=WIDE,
            unused=_OWN_LEVELS,
            doc="Default of the topic's gzip level."),
    setting("compression.lz4.level", INT, 9, between(1, 17), mode=WIDE,
            unused=_OWN_LEVELS,
            doc="Default of the topic's lz4 level."),
    setting("compression.type", STRING, "producer", OneOf(COMPRESSION_TYPES), mode=WIDE,
            doc="Default of the topic's compression.type."),
    setting("compression.zstd.level", INT, 3, between(-131072, 22), mode=WIDE,
            unused=_OWN_LEVELS,
            doc="Default of the topic's zstd level."),
    setting("num.recovery.threads.per.data.dir", INT, 2, at_least(1), mode=WIDE,
            unused="logs are recovered one after the other",
            doc="Logs of one directory that are recovered at once when the broker starts."),
    setting("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), internal=True,
            unused="every ten minutes",
            doc="How often expired producer ids are looked for."),
    setting("producer.id.expiration.ms", INT, 86_400_000, at_least(1), mode=WIDE,
            unused="a partition remembers an idempotent producer for a day",
            doc="How long a partition remembers an idempotent producer after its last batch."),
)
# fmt: on
