"""A partition that is only read: all its records are in the bucket, the local log is empty and has no files.

Readers see it as any other: `UnifiedLog` on top of what stands here in place of `Partition` and `Log`. It ends where
the archive ends, and grows with it; a view (`stratalog.broker.views.views`) ends at an offset for good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

from stratalog.broker.replicas.unified_log import RemoteReader, UnifiedLog
from stratalog.broker.runtime.watchers import Watchers
from stratalog.hot.state.leader_epochs import EpochEntry, LeaderEpochCache
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition, Uuid

if TYPE_CHECKING:
    from stratalog.broker.replicas.partition import Partition
    from stratalog.broker.runtime.metrics import TopicMetrics
    from stratalog.tier.manifests.entry import LeaderEpoch

__all__ = ["LEADER_EPOCH", "ArchivedPartition", "KnownArchive", "archived_log", "wake_readers"]

LEADER_EPOCH: Final = 1 << 30
"""The leader epoch that clients get. It is above every epoch that the archive may hold or come to hold, so that no
client ever takes an answer for older than the records it has read.
"""

log = logging.getLogger(__name__)


class KnownArchive(RemoteReader, Protocol):
    """The archive of one partition, and the leader epochs of what it holds."""

    @property
    def known(self) -> bool:
        """Whether its offsets have been read."""
        ...

    @property
    def leader_epochs(self) -> tuple[LeaderEpoch, ...]:
        """The whole history."""
        ...


class _NoDirectory:
    """A directory that is never offline: views have no files on a disk."""

    offline: Final = None

    def report(self, error: OSError, _: object = None) -> None:
        """A file of the chunk cache failed."""
        log.error("the chunk cache cannot be read: %s; check stratalog.cache.dir", error)


class _EmptyLog:
    """The part of a `Log` that readers need: one that begins and ends where the archive ends, and holds no record."""

    size_bytes: Final = 0

    def __init__(self, archive: KnownArchive) -> None:
        self._archive = archive
        self._epochs: tuple[tuple[LeaderEpoch, ...], LeaderEpochCache] = ((), LeaderEpochCache())

    @property
    def log_start_offset(self) -> int:
        """The first offset anyone may read."""
        return self._archive.start_offset

    @property
    def log_end_offset(self) -> int:
        """Behind the last archived offset; a log start moved beyond all that was archived is the end, too."""
        return max(self._archive.end_offset, self._archive.start_offset)

    @property
    def local_log_start_offset(self) -> int:
        """The end: nothing is local."""
        return self.log_end_offset

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """As the archive knows them."""
        history = self._archive.leader_epochs
        if self._epochs[0] is not history:
            # Imported records may have been written by no leader at all.
            entries = [EpochEntry(*entry) for entry in history if entry.epoch >= 0]
            self._epochs = history, LeaderEpochCache(entries)
        return self._epochs[1]

    def timestamp_search(self, _timestamp_ms: int, _from_offset: int, *, max_offset: int) -> None:
        """Always None: the log is empty."""

    def max_timestamp_search(self) -> None:
        """Always None: the log is empty."""

    def missing_ranges(self) -> tuple[()]:
        """No disk can be damaged here."""
        return ()


class ArchivedPartition:
    """The part of a `Partition` that readers need; everything below the end
    is committed and stable, or it were not archived.
    """

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid, archive: KnownArchive, now_ms: Callable[[], int]) -> None:  # fmt: skip
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = _EmptyLog(archive)
        self.directory = _NoDirectory()
        self.leader_epoch = LEADER_EPOCH
        self.leader = None
        self.watchers = Watchers()
        self.held_back: str | None = None
        """Why the partition cannot be served for now: its manifest has not been read, or cannot be."""
        self.asked_ms = -1
        """When a client last asked for it."""
        self._archive = archive
        self._now_ms = now_ms

    @property
    def high_watermark(self) -> int:
        """The end."""
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end."""
        return self.log.log_end_offset

    is_behind = False
    """Archived records are committed."""

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raises what a client tries again after: the manifest is not known, or the epoch is not ours."""
        self.asked_ms = self._now_ms()
        if not self._archive.known:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.topic_partition} cannot be served: {self.held_back or 'its manifest is being read'}",
            )
        if current_leader_epoch >= 0 and current_leader_epoch != LEADER_EPOCH:
            fenced = current_leader_epoch < LEADER_EPOCH
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is read under leader epoch {LEADER_EPOCH}, not {current_leader_epoch}",
            )

    check_reader_epoch = check_leader_epoch


def archived_log(
    topic_partition: TopicPartition,
    topic_id: Uuid,
    archive: KnownArchive,
    metrics: TopicMetrics,
    *,
    now_ms: Callable[[], int],
) -> UnifiedLog:
    """A partition for `PartitionTable.add_view`. Its owner calls its watchers when the archive grows."""
    partition = ArchivedPartition(topic_partition, topic_id, archive, now_ms)
    # It has every name that reading handlers use, and the table keeps it from all others.
    return UnifiedLog(cast("Partition", partition), metrics, archive)


def wake_readers(unified: UnifiedLog) -> None:
    """More is known of the archive: call the partition's watchers."""
    for watcher in tuple(unified.partition.watchers):
        watcher()
