"""The answer of a leader to a follower: all records in its files, or the offset where their histories part.

A fetch at an offset says that the follower has everything below. That is counted once for a request, when it comes; while it
waits nothing new is known of the follower. A partition that is led only since then is asked for once more. A follower outside the in-sync set gets no records of a throttled partition while the
throttle allows none, and waits no longer than that. Where the leader's disk has lost what its archive has, a follower goes on
behind the archive. Sources: Kafka's ``Partition.fetchRecords``, ``UnifiedLog.read``, ``ReplicaManager.shouldLeaderThrottle``;
KIP-73, KIP-101, KIP-405, KIP-595, KIP-903.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

from stratalog.broker.fetches.awaited_followers import AwaitedFollowers, WaitingFetch
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.requests.replication_throttle import ReplicationThrottle
from stratalog.hot.log.log import Log
from stratalog.hot.recovery.missing import MissingRange
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchPartition, PartitionData
from stratalog.wire.topic import Uuid

__all__ = ["ReplicaReader", "divergence"]

_TIERED_SINCE = 14
"""From this version on a follower knows OFFSET_MOVED_TO_TIERED_STORAGE."""


class ReplicaReader:
    """One request of a follower."""

    __slots__ = (
        "_awaited",
        "_broker_epoch",
        "_broker_id",
        "_held_back",
        "_monotonic",
        "_throttle",
        "_throttled_bytes",
        "_version",
        "counts",
        "marks_are_news",
    )

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        version: int,
        *,
        throttle: ReplicationThrottle,
        monotonic: Callable[[], float],
        awaited: AwaitedFollowers,
        marks_are_news: bool = False,
    ) -> None:
        """``throttle``: of what followers get here. ``awaited``: those whose requests are not to wait long.

        ``marks_are_news``: an answer leaves for another high watermark alone.
        """
        self._awaited = awaited
        self.marks_are_news = marks_are_news
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._version = version
        self._throttle = throttle
        self._monotonic = monotonic
        self._throttled_bytes = 0
        self._held_back = False
        self.counts = True
        """Whether the offsets have still to be taken as news of the follower."""

    def read(
        self, unified: UnifiedLog, wanted: FetchPartition, answer: PartitionData, max_bytes: int, *, min_one_batch: bool
    ) -> int:
        """Fill the answer of one partition; how many bytes of records it has got.

        Raises `KafkaError`, for a broker that is no replica UNKNOWN_LEADER_EPOCH, for an offset that only the archive has
        OFFSET_MOVED_TO_TIERED_STORAGE; `Corrupt`, `OSError`.
        """
        partition, offset = unified.partition, wanted.fetch_offset
        partition.check_leader_epoch(wanted.current_leader_epoch)
        leader, log_ = partition.led(), partition.log
        if not leader.state.is_follower(self._broker_id):
            why = f"broker {self._broker_id} is not among the replicas {leader.state.replicas} of {partition.topic_partition}"
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, why)
        if not self.counts and leader.state.follower(self._broker_id).last_fetch_ms < 0:
            # An idle partition of a session is looked at no more: its follower would never count.
            why = f"{partition.topic_partition} is led here only since this request came, it is to be asked for again"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)
        if wanted.last_fetched_epoch >= 0:
            answer.diverging_epoch = divergence(unified, wanted)
        if answer.diverging_epoch is None:
            self._check_range(log_, offset)
            if self.counts:
                leader.follower_fetched(
                    self._broker_id,
                    offset,
                    log_start_offset=wanted.log_start_offset,
                    broker_epoch=self._broker_epoch,
                )
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = log_.log_start_offset
        answer.aborted_transactions = None
        if answer.diverging_epoch is not None or offset >= log_.written_offset:
            return 0
        return self._fill(answer, unified, offset, max_bytes, min_one_batch=min_one_batch)

    def _fill(
        self, answer: PartitionData, unified: UnifiedLog, offset: int, max_bytes: int, *, min_one_batch: bool
    ) -> int:
        """Add the records that the throttle allows; how many bytes."""
        log_, is_throttled = unified.partition.log, self._is_throttled(unified.partition)
        if is_throttled:
            allowed_bytes = self._throttle.allowed_bytes(self._now_ms()) - self._throttled_bytes
            if allowed_bytes <= 0:
                self._held_back = True
                return 0
            # The throttled partitions that may move get on by a batch, also where others fill the answer.
            min_one_batch = min_one_batch or (max_bytes > 0 and not self._throttled_bytes)
            max_bytes = min(max_bytes, ceil(min(allowed_bytes, max_bytes)))
        try:
            read = log_.read(offset, max_bytes=max_bytes, max_offset=log_.written_offset, min_one_batch=min_one_batch)
        except MissingRange as missing:
            # Where other replicas have it, one of them leads soon, and the follower copies it from there.
            if unified.partition.others_have_it or self._version < _TIERED_SINCE or not unified.is_archived(offset):
                raise
            why = f"{missing} The archive of {unified.topic_partition} has offset {offset}"
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, why) from missing
        if read.size_bytes and unified.asked.again(hash((self._broker_id, offset))):  # it could not use them
            read = unified.checked(read, offset, log_.written_offset)
        if is_throttled:
            self._throttled_bytes += read.size_bytes
        if read.size_bytes:
            answer.records = list(read.parts)
            if offset < log_.forgotten.below:
                answer.forgotten_below = log_.forgotten.below
        return read.size_bytes

    def _is_throttled(self, partition: Partition) -> bool:
        outside = self._broker_id not in partition.led().state.in_sync
        return outside and self._throttle.is_throttled(*partition.topic_partition)

    def _now_ms(self) -> float:
        return self._monotonic() * 1000

    def begin(self) -> None:
        """Another attempt at the answer begins."""
        self._throttled_bytes = 0
        self._held_back = False

    def wait_ms_max(self) -> float:
        """How long the request may wait at most: until records may go that the throttle has held back, or as one that is awaited."""
        wait_ms = self._awaited.wait_ms_max(self._broker_id)
        return min(wait_ms, max(1.0, self._throttle.wait_ms(self._now_ms()))) if self._held_back else wait_ms

    def begin_wait(self, fetch: WaitingFetch) -> None:
        """The request waits from now on."""
        self._awaited.begin_wait(self._broker_id, fetch)

    def end_wait(self, fetch: WaitingFetch) -> None:
        """It waits no longer."""
        self._awaited.end_wait(self._broker_id, fetch)

    def count(self, topics: Iterable[FetchableTopicResponse], name_of: Callable[[Uuid], str | None]) -> None:
        """An answer leaves: count its bytes of throttled replicas, also of those that are in sync."""
        throttle, size_bytes = self._throttle, 0
        for topic in topics:
            name = topic.topic or name_of(topic.topic_id)
            for answer in topic.partitions:
                if answer.records and name is not None and throttle.is_throttled(name, answer.partition_index):
                    slices: Any = answer.records  # what a log gives
                    size_bytes += sum(part.length for part in slices)
        if size_bytes:
            throttle.record(size_bytes, self._now_ms())

    def _check_range(self, log_: Log, offset: int) -> None:
        if not log_.log_start_offset <= offset <= log_.log_end_offset:
            why = (
                f"offset {offset} of {log_.topic_partition} is outside [{log_.log_start_offset}, {log_.log_end_offset}]"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
        if offset < log_.local_log_start_offset:
            knows = self._version >= _TIERED_SINCE
            why = f"offset {offset} of {log_.topic_partition} is in the archive; the disk begins at {log_.local_log_start_offset}"
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE if knows else ErrorCode.OFFSET_OUT_OF_RANGE, why)


def divergence(unified: UnifiedLog, wanted: FetchPartition) -> EpochEndOffset | None:
    """Where the reader's history and ours part ways, if they do (KIP-595).

    Raises `KafkaError` OFFSET_OUT_OF_RANGE if that is unknown.
    """
    epoch, end_offset = unified.offset_for_leader_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        why = f"{unified.topic_partition} has no epoch {wanted.last_fetched_epoch}, nor one before"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
