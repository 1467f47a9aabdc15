"""The partitions that this broker leads: opened, reconfigured and deleted as the image of the cluster says."""

from __future__ import annotations

import errno
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from stratalog.broker.replicas.directories import Directories, Directory
from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.log_settings import log_config
from stratalog.broker.replicas.partition import Partition, Rework
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.replica_state import ReplicaState
from stratalog.hot.segments.segment_cache import SegmentCache
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import PartitionImage, TopicImage
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import ErrorCode, KafkaError, StratalogError
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Led", "LedPartitions", "LedServices"]

_UUID_BYTES = 16
_OF_ONE_NAME = frozenset(
    {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG}
)
"""Errors that say something about one file, and nothing about the disk."""
_NAMED = (StratalogError, KafkaError, OSError)
"""Errors whose words are enough; of others the place in the code is logged, too."""

log = logging.getLogger(__name__)


class Led(Enum):
    """Why a partition is handed to those who serve it."""

    CREATED = "created"
    """It has no past."""
    OPENED = "opened"
    """Its log comes from an earlier run."""
    LOST = "lost"
    """It has a past, but its log is not there: the disk was replaced or wiped."""
    RECONFIGURED = "reconfigured"
    """It was led all the time; its settings have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedServices:
    """Shared by all led partitions."""

    node_id: int
    directories: Directories
    clock: Clock
    metrics: Metrics
    purgatory: Purgatory
    dice: random.Random
    rework: Rework
    segments_open_max: int
    """How many files of segments may be held open."""
    on_led: Callable[[UnifiedLog, Led], None]
    """A partition is led from now on, or under new settings: coordinators load, the archive is attached."""
    on_released: Callable[[UnifiedLog], None]
    """It is led no longer; called before its log goes."""


class LedPartitions:
    """The table of led partitions, kept in step with the image."""

    def __init__(self, services: LedServices, resolver: ConfigResolver) -> None:
        self.table = PartitionTable()
        self._services = services
        self._resolver = resolver
        self._cache = SegmentCache(open_max=services.segments_open_max)
        self._counts: Counter[str] = Counter()
        self._started = False
        self._recovery = _RecoveryReport()
        self._unopened: dict[Uuid, None] = {}
        self._lost: dict[Uuid, None] = {}
        """Topics with a log that was not there at the start and could not be begun anew so far."""

    def started(self) -> None:
        """The logs of the last run have been opened: partitions without files are new from now on."""
        self._started = True
        for directory in self._services.directories.online:
            directory.writer.begin_together()
        self._recovery.tell()

    def settings(self, image: ClusterImage, topic: str) -> LogConfig:
        """The log settings of a topic."""
        return log_config(self._resolver.resolve(image.topic_configs(topic)), self._services.dice)

    def use_resolver(self, resolver: ConfigResolver, image: ClusterImage) -> None:
        """The broker's own settings have changed: so may those of every topic."""
        self._resolver = resolver
        for topic in image.topics.by_name:
            self.reconfigure(image, topic)

    # -- following the image ------------------------------------------------------------------------------------

    def lead(self, image: ClusterImage, topic: TopicImage) -> None:
        """Open what is led here and not open, and take note of new leader epochs, all at once."""
        for _ in self.leading(image, topic):
            pass

    def leading(self, image: ClusterImage, topic: TopicImage) -> Iterator[None]:
        """The same, step by step: yields after each partition that was opened, which takes a millisecond or two."""
        config: LogConfig | None = None
        for number, state in topic.partitions.items():
            if state.leader != self._services.node_id:
                continue
            name = TopicPartition(topic.name, number)
            led = self.table.get(name)
            if led is None:
                config = config or self.settings(image, topic.name)
                self._open(topic, name, state, config)
                yield
            elif led.partition.leader_epoch != state.leader_epoch:
                led.partition.leader_epoch = state.leader_epoch
                led.log.assign_leader_epoch(state.leader_epoch)

    def retry_unopened(self, image: ClusterImage) -> None:
        """Open what a full disk kept from being opened."""
        for topic_id in list(self._unopened):
            del self._unopened[topic_id]
            topic = image.topics.by_id.get(topic_id)
            if topic is not None:
                self.lead(image, topic)
        self._recovery.tell()

    def reconfigure(self, image: ClusterImage, topic: str) -> None:
        """Hand new settings to the partitions of a topic."""
        config = self.settings(image, topic)
        for unified in self.table.of_topic(topic):
            unified.partition.update_config(config)
            self._services.on_led(unified, Led.RECONFIGURED)

    def delete(self, topic: str) -> None:
        """Forget the partitions of a deleted topic and let their files go."""
        for unified in self.table.of_topic(topic):
            self._delete(unified)
        self.table.forget_unopened(topic)
        self._services.metrics.forget_topic(topic)

    # -- one partition ------------------------------------------------------------------------------------------

    def _open(self, topic: TopicImage, name: TopicPartition, state: PartitionImage, config: LogConfig) -> None:
        services = self._services
        directories = services.directories
        try:
            directories.set_aside(name, topic.topic_id)
            directory = directories.holding(name) or directories.emptiest(self._counts)
        except OSError as error:
            log.error("%s cannot be opened: %s", name, error)
            self.table.add_unopened(topic.name, topic.topic_id, name.partition, f"{name} cannot be opened: {error}")
            return
        led = Led.OPENED
        if directories.holding(name) is None:
            led = Led.CREATED if self._started and topic.topic_id not in self._lost else Led.LOST
        try:
            log_ = directory.files.open_log(
                name,
                topic.topic_id,
                config,
                now_ms=services.clock.wall_ms(),
                cache=self._cache,
                leader_epoch_max=state.leader_epoch,
            )
            log_.assign_leader_epoch(state.leader_epoch)
        except Exception as error:
            path = directory.files.partition_path(name)
            self.table.add_unopened(topic.name, topic.topic_id, name.partition, _unopened(name, path, error))
            if led is Led.LOST:
                self._lost[topic.topic_id] = None
            if isinstance(error, OSError) and error.errno not in _OF_ONE_NAME:
                directory.writer.report(error)
                if directory.writer.offline is None:
                    self._unopened[topic.topic_id] = None
            else:
                named = isinstance(error, _NAMED)
                log.error("%s", _unopened(name, path, error), exc_info=None if named else error)
            return
        self._counts[directory.path] += 1
        unified = UnifiedLog(self._partition(log_, directory, state), services.metrics.topic(topic.name))
        self._recovery.add(log_)
        unified.partition.watchers.add(partial(services.purgatory.check, unified))
        self.table.add(unified)
        if log_.has_unsynced:  # it is synced beside the others, in threads; the first append waits for it
            sync = directory.writer.sync if self._started else directory.writer.sync_together
            sync(unified.partition)
        services.on_led(unified, led)
        for missing in log_.missing_ranges():
            log.error("%s", unified.missing_sentence(missing))

    def _partition(self, log_: Log, directory: Directory, state: PartitionImage) -> Partition:
        services = self._services
        replica = ReplicaState(
            services.node_id,
            replicas=state.replicas,
            in_sync=state.in_sync_replicas,
            leader_epoch=state.leader_epoch,
            epoch_start_offset=log_.log_end_offset,
            leader_end_offset=log_.flushed_offset,
            high_watermark=log_.flushed_offset,
            partition_epoch=state.partition_epoch,
            now_ms=services.clock.wall_ms(),
        )
        return Partition(
            log_,
            directory=directory.writer,
            replica=replica,
            leader_epoch=state.leader_epoch,
            clock=services.clock,
            rework=services.rework,
        )

    def _delete(self, unified: UnifiedLog) -> None:
        services = self._services
        services.on_released(unified)
        self.table.remove(unified)
        unified.partition.close()
        unified.log.abandon()
        directory = services.directories.of(unified.partition.directory)
        self._counts[directory.path] -= 1
        try:
            directory.files.doom_partition(unified.topic_partition, os.urandom(_UUID_BYTES))
        except OSError as error:
            directory.writer.report(error)

    # -- deleting records ---------------------------------------------------------------------------------------

    def delete_records(self, wanted: Sequence[tuple[UnifiedLog, int]]) -> Generator[None, None, list[int | KafkaError]]:
        """Move log starts to the given offsets, or to the high watermark for -1; the new log starts, in order.

        In steps: yields between partitions, so that others have their turns.

        All are written down together, once for each log directory. An error stands for a partition whose log start
        has not moved durably: OFFSET_OUT_OF_RANGE beyond the high watermark, POLICY_VIOLATION where ``delete`` is no
        policy, KAFKA_STORAGE_ERROR if the disk fails or is full.
        """
        outcomes = []
        for unified, offset in wanted:
            outcomes.append(_move_start(unified, offset))
            yield
        moved = [unified for (unified, _), error in zip(wanted, outcomes, strict=True) if error is None]
        kept = set()
        for writer in {one.partition.directory for one in moved}:
            if (yield from self._checkpoint(writer)):
                kept.add(writer)
            yield
        starts: list[int | KafkaError] = []
        for (unified, _), error in zip(wanted, outcomes, strict=True):
            starts.append(error or _drop_before_start(unified, written_down=unified.partition.directory in kept))
            yield
        return starts

    def _checkpoint(self, writer: DirectoryWriter) -> Generator[None, None, bool]:
        directories = self._services.directories
        mine = [unified.partition for unified in self.table if unified.partition.directory is writer]
        return (yield from directories.checkpoint_steps(directories.of(writer), mine))


def _unopened(name: TopicPartition, path: str, error: Exception) -> str:
    return (
        f"{name} cannot be opened and is offline, the other partitions are served. Its files are in {path}: repair or move "
        f"away what is named here, and restart the broker: {error if isinstance(error, _NAMED) else repr(error)}"
    )


def _move_start(unified: UnifiedLog, offset: int) -> KafkaError | None:
    """Move a log start in memory, or say why not."""
    if not unified.log.config.deletes:
        return KafkaError(
            ErrorCode.POLICY_VIOLATION, f"{unified.topic_partition} has no delete policy (cleanup.policy)"
        )
    high_watermark = unified.partition.high_watermark
    target = high_watermark if offset == -1 else offset
    if not 0 <= target <= high_watermark:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {unified.topic_partition} is beyond the high watermark {high_watermark}",
        )
    unified.log.advance_log_start(target)
    return None


def _drop_before_start(unified: UnifiedLog, *, written_down: bool) -> int | KafkaError:
    """Remove the segments below a log start that is durable; the log start."""
    log_start_offset = unified.log_start_offset
    if not written_down:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the new log start {log_start_offset} of {unified.topic_partition} could not be written down; it may be "
            "lost with the next stop",
        )
    try:
        unified.log.delete_local_before(log_start_offset)
    except OSError as error:
        unified.partition.directory.report(error, unified.partition)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return log_start_offset


class _RecoveryReport:
    """The cost of an unclean stop: damage is logged at once, the rest in one line for all partitions."""

    def __init__(self) -> None:
        self._logs = 0
        self._segments = 0
        self._rebuilt = 0
        self._truncated_bytes = 0

    def add(self, log_: Log) -> None:
        """One more log was opened."""
        report = log_.recovery
        for path in report.frozen_indexes_rebuilt:
            log.warning(
                "%s: an index of %s.log was missing or damaged, both were built anew", log_.topic_partition, path
            )
        self._logs += report.segments_checked > 0
        self._segments += report.segments_checked
        self._rebuilt += len(report.indexes_rebuilt)
        self._truncated_bytes += report.truncated_bytes
        if report.tail_offset is not None:
            log.log(
                logging.WARNING if report.tail_is_short else logging.ERROR,
                "%s ends at offset %d: %d bytes behind it are no whole batch (%s). A stop in the middle of a write "
                "leaves such bytes, never acknowledged; so does a disk that changed them. They are kept in %s",
                log_.topic_partition,
                report.tail_offset,
                report.truncated_bytes,
                report.reason,
                report.quarantine,
            )
        if report.damaged_offset is not None:
            log.error(
                "%s: damaged at offset %d (%s); the bytes are kept in %s, the log goes on at offset %s",
                log_.topic_partition,
                report.damaged_offset,
                report.reason,
                report.quarantine,
                report.resume_offset,
            )

    def tell(self) -> None:
        """Say it, if there is anything to say, once."""
        if self._logs:
            log.warning(
                "after an unclean stop %d partitions were recovered: %d segments verified, the indexes of %d derived "
                "anew, %d bytes of torn tails cut off",
                self._logs,
                self._segments,
                self._rebuilt,
                self._truncated_bytes,
            )
        self._logs = self._segments = self._rebuilt = self._truncated_bytes = 0
