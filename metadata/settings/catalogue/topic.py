"""Settings of a topic. Each names the broker settings that are its default, nearest first (Kafka's synonyms)."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigDef,
    Synonym,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import (
    GzipLevel,
    ListOf,
    OneOf,
    Range,
    ThrottledReplicas,
    at_least,
    between,
)

__all__ = ["CLEANUP_POLICIES", "COMPRESSION_TYPES", "TIMESTAMP_TYPES", "TOPIC_SETTINGS"]

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = ("compact", "delete")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")

_OWN_LEVELS: Final = "batches that are compressed anew get the level that the codec itself prefers"
_NO_PREALLOCATION: Final = "segments grow by appending; Linux file systems gain nothing from allocating before"


def _hours(value: int) -> int:
    return value * 3_600_000


def _retention_hours(value: int) -> int:
    return -1 if value < 0 else value * 3_600_000


def _retention_minutes(value: int) -> int:
    return -1 if value < 0 else value * 60_000


def _from(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


# fmt: off
TOPIC_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("cleanup.policy", LIST, ("delete",), ListOf(CLEANUP_POLICIES), synonyms=_from("log.cleanup.policy"),
            doc="Fate of old data: delete drops whole segments by age or size, compact keeps the newest record "
                "of each key, both do both, an empty list keeps everything."),
    setting("compression.gzip.level", INT, -1, GzipLevel(), synonyms=_from("compression.gzip.level"),
            unused=_OWN_LEVELS,
            doc="Level used when compression.type is gzip; -1 leaves the choice to zlib."),
    setting("compression.lz4.level", INT, 9, between(1, 17), synonyms=_from("compression.lz4.level"),
            unused=_OWN_LEVELS,
            doc="Level used when compression.type is lz4."),
    setting("compression.type", STRING, "producer", OneOf(COMPRESSION_TYPES), synonyms=_from("compression.type"),
            doc="Codec of the stored batches; producer keeps what arrives, any other codec re-encodes batches that "
                "come in a different one. Offsets and times stay."),
    setting("compression.zstd.level", INT, 3, between(-131072, 22), synonyms=_from("compression.zstd.level"),
            unused=_OWN_LEVELS,
            doc="Level used when compression.type is zstd."),
    setting("delete.retention.ms", LONG, 86_400_000, at_least(0), synonyms=_from("log.cleaner.delete.retention.ms"),
            doc="How long a tombstone of a compacted topic stays after the cleaning that could first have dropped it."),
    setting("file.delete.delay.ms", LONG, 60_000, at_least(0), synonyms=_from("log.segment.delete.delay.ms"),
            doc="How long a segment's files stay on disk, renamed to .deleted, after the segment has left the log."),
    setting("flush.messages", LONG, 1, at_least(1), synonyms=_from("log.flush.interval.messages"), kafka=LONG_MAX,
            doc="A batch is synced to disk once this many records wait for it. 1, our default, answers acks=all only "
                "after the sync, many batches sharing one; Kafka's default leaves it to the operating system."),
    setting("flush.ms", LONG, LONG_MAX, at_least(0),
            synonyms=_from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
            doc="Longest time that appended records wait for their sync."),
    setting("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas(),
            doc="Replicas whose copying is throttled on the follower, as partition:broker pairs or *. One that is in sync "
                "is counted and not held up."),
    setting("index.interval.bytes", INT, 4096, at_least(0), synonyms=_from("log.index.interval.bytes"),
            doc="Bytes of log between two entries of the offset index."),
    setting("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas(),
            doc="Leaders that hold back records from followers outside the in-sync set, as partition:broker pairs or *."),
    setting("local.retention.bytes", LONG, -2, at_least(-2), synonyms=_from("log.local.retention.bytes"),
            doc="Bytes of a tiered partition that stay on local disk once they are in the bucket; -2 means "
                "retention.bytes, -1 no limit. Never above retention.bytes."),
    setting("local.retention.ms", LONG, -2, at_least(-2), synonyms=_from("log.local.retention.ms"),
            doc="Time that records of a tiered partition stay on local disk once they are in the bucket; -2 means "
                "retention.ms, -1 no limit. Never above retention.ms."),
    setting("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), synonyms=_from("log.cleaner.max.compaction.lag.ms"),
            doc="Longest time a record may wait for compaction; a compacted topic also rolls its segment by it."),
    setting("max.message.bytes", INT, 1_048_588, at_least(0), synonyms=_from("message.max.bytes"),
            doc="Largest record batch that is accepted, compressed as it stands; a larger one is answered with "
                "MESSAGE_TOO_LARGE."),
    setting("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0),
            synonyms=_from("log.message.timestamp.after.max.ms"),
            doc="How far a CreateTime may lie ahead of the broker's clock."),
    setting("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0),
            synonyms=_from("log.message.timestamp.before.max.ms"),
            doc="How far a CreateTime may lie behind the broker's clock."),
    setting("message.timestamp.type", STRING, "CreateTime", OneOf(TIMESTAMP_TYPES),
            synonyms=_from("log.message.timestamp.type"),
            doc="Whether records keep the producer's time or get the broker's time of appending."),
    setting("min.cleanable.dirty.ratio", DOUBLE, 0.5, Range(0, 1), synonyms=_from("log.cleaner.min.cleanable.ratio"),
            doc="Share of not yet cleaned bytes from which a compacted log is worth cleaning."),
    setting("min.compaction.lag.ms", LONG, 0, at_least(0), synonyms=_from("log.cleaner.min.compaction.lag.ms"),
            doc="Shortest time a record stays uncompacted."),
    setting("min.insync.replicas", INT, 1, at_least(1), synonyms=_from("min.insync.replicas"),
            doc="With acks=all, a write is refused when fewer replicas than this are in sync."),
    setting("preallocate", BOOLEAN, False, synonyms=_from("log.preallocate"), unused=_NO_PREALLOCATION,
            doc="Allocate a new segment's file at full size at once."),
    setting("remote.log.copy.disable", BOOLEAN, False,
            doc="Stop uploading a tiered topic: what is in the bucket stays readable and ages out by retention."),
    setting("remote.log.delete.on.disable", BOOLEAN, False,
            doc="Must be true to turn remote.storage.enable off: it says that the archive of the topic may go."),
    setting("remote.storage.enable", BOOLEAN, False,
            doc="Keep the topic's history in the bucket; local disk then holds only what local retention says. Unlike "
                "in Kafka a compacted topic may be tiered too."),
    setting("retention.bytes", LONG, -1, synonyms=_from("log.retention.bytes"),
            doc="Size above which a partition drops its oldest segments, local and archived counted once; -1 is no "
                "limit."),
    setting("retention.ms", LONG, 604_800_000, at_least(-1),
            synonyms=(Synonym("log.retention.ms"), Synonym("log.retention.minutes", _retention_minutes),
                      Synonym("log.retention.hours", _retention_hours)),
            doc="Age of the newest record of a segment at which the segment is dropped; -1 keeps all."),
    setting("segment.bytes", INT, 1 << 30, at_least(1 << 20), synonyms=_from("log.segment.bytes"),
            doc="Size at which a segment is closed and the next begun; retention and upload work on whole segments."),
    setting("segment.index.bytes", INT, 10 << 20, at_least(4), synonyms=_from("log.index.size.max.bytes"),
            doc="Size of one index file; a full index closes the segment."),
    setting("segment.jitter.ms", LONG, 0, at_least(0),
            synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _hours)),
            doc="Random time taken off segment.ms, so that many segments do not roll together."),
    setting("segment.ms", LONG, 604_800_000, at_least(1),
            synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", _hours)),
            doc="Age at which a segment is closed even if it is not full; an idle topic's last segment closes by the "
                "wall clock, so that it can be uploaded."),
    setting("unclean.leader.election.enable", BOOLEAN, False, synonyms=_from("unclean.leader.election.enable"),
            doc="Let a replica outside the in-sync set lead when no other is left, at the price of lost records."),
    setting("internal.segment.bytes", INT, None, internal=True,
            doc="Size of a segment below the minimum of segment.bytes; for tests only."),
)
# fmt: on
