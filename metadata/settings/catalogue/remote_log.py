"""Broker settings of tiered storage (KIP-405 and its successors), under Kafka's names."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import NonEmptyText, Range, at_least

__all__ = ["REMOTE_LOG_SETTINGS"]

_BUILT_IN: Final = "tiering is built in; the bucket is named by stratalog.bucket.url"
_MANIFEST: Final = "what is in the bucket is written in one manifest a partition there, not in a topic"
_ONE_WORKER: Final = "one worker process does the bucket's work; its concurrency follows the throughput"
_NO_FOLLOWERS: Final = "followers read the bucket only to begin behind it"
_TOKENS: Final = "the rate is held by a token bucket, there are no sample windows"
_METADATA_MANAGER: Final = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"

# fmt: off
REMOTE_LOG_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("remote.fetch.max.wait.ms", INT, 500, at_least(1), mode=WIDE,
            doc="Longest time a fetch waits for the bucket; the read goes on behind an empty answer."),
    setting("remote.list.offsets.request.timeout.ms", LONG, 30_000, at_least(1), mode=WIDE,
            unused="a look-up waits as long as the store is tried, and is answered then",
            doc="Longest time a look-up by timestamp waits for the bucket."),
    setting("remote.log.index.file.cache.total.size.bytes", LONG, 1 << 30, at_least(1), mode=WIDE,
            unused="chunk tables are kept in memory and chunks in stratalog.cache.dir, there are no index files",
            doc="Disk for index files fetched from the bucket."),
    setting("remote.log.manager.copier.thread.pool.size", INT, 10, at_least(1), mode=WIDE, unused=_ONE_WORKER,
            doc="Threads that copy segments."),
    setting("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1), mode=WIDE,
            doc="Bytes a second that are uploaded, over all partitions."),
    setting("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1), unused=_TOKENS,
            doc="Samples kept of the uploads' rate."),
    setting("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1), unused=_TOKENS,
            doc="Length of one of these samples."),
    setting("remote.log.manager.expiration.thread.pool.size", INT, 10, at_least(1), mode=WIDE, unused=_ONE_WORKER,
            doc="Threads that delete expired segments."),
    setting("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1), mode=WIDE,
            doc="Bytes a second that are read from the bucket, over all partitions."),
    setting("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1), unused=_TOKENS,
            doc="Samples kept of the reads' rate."),
    setting("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1), unused=_TOKENS,
            doc="Length of one of these samples."),
    setting("remote.log.manager.follower.thread.pool.size", INT, 2, at_least(1), mode=WIDE, unused=_NO_FOLLOWERS,
            doc="Threads that read the highest archived offset for followers."),
    setting("remote.log.manager.task.interval.ms", LONG, 30_000, at_least(1),
            unused="a tiered partition is looked at several times a second; that costs nothing",
            doc="How often each tiered partition looks for work besides the events that call it."),
    setting("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, at_least(1), internal=True,
            doc="Longest pause before a failed upload is tried again."),
    setting("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), internal=True,
            doc="First pause before a failed upload is tried again."),
    setting("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, Range(0, 0.5), internal=True,
            unused="pauses are drawn between half and the whole",
            doc="Share of the pause that is left to chance."),
    setting("remote.log.manager.thread.pool.size", INT, 2, at_least(1), unused=_NO_FOLLOWERS,
            doc="Older name of the follower pool's size."),
    setting("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0), unused=_MANIFEST,
            doc="Bytes a plug-in may store about a segment."),
    setting("remote.log.metadata.manager.class.name", STRING, _METADATA_MANAGER, NonEmptyText(), unused=_MANIFEST,
            doc="Class that remembers what is in the bucket."),
    setting("remote.log.metadata.manager.class.path", STRING, None, unused=_MANIFEST,
            doc="Where that class is loaded from."),
    setting("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", NonEmptyText(), unused=_MANIFEST,
            doc="Prefix of that class's own settings, which are accepted and ignored."),
    setting("remote.log.metadata.manager.listener.name", STRING, None, NonEmptyText(), unused=_MANIFEST,
            doc="Listener over which that class talks to its topic."),
    setting("remote.log.reader.max.pending.tasks", INT, 100, at_least(1),
            unused="budgets of bytes take the place of a queue: over budget a client is throttled, not refused",
            doc="Reads that may wait for a thread."),
    setting("remote.log.reader.threads", INT, 10, at_least(1), mode=WIDE, unused=_ONE_WORKER,
            doc="Threads that read from the bucket."),
    setting("remote.log.storage.manager.class.name", STRING, None, NonEmptyText(), unused=_BUILT_IN,
            doc="Class that stores segments elsewhere."),
    setting("remote.log.storage.manager.class.path", STRING, None, unused=_BUILT_IN,
            doc="Where that class is loaded from."),
    setting("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", NonEmptyText(), unused=_BUILT_IN,
            doc="Prefix of that class's own settings, which are accepted and ignored."),
    setting("remote.log.storage.system.enable", BOOLEAN, True, kafka=False,
            doc="Serve tiered topics. On by default: without a bucket of its own the broker archives into a directory "
                "beside its data."),
)
# fmt: on
