"""A fetch that may have to wait, whether it names all its partitions or goes on with a session."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from math import ceil
from typing import Any

from stratalog.broker.fetches.answer_room import AnswerRoom
from stratalog.broker.fetches.fetch_broker import FetchBroker
from stratalog.broker.fetches.found_bytes import FoundBytes
from stratalog.broker.fetches.named_leaders import MOVED, name_leaders
from stratalog.broker.fetches.preferred_replica import check_reads_here, elsewhere
from stratalog.broker.fetches.replica_read import ReplicaReader, divergence
from stratalog.broker.replicas.unified_log import LogRead, UnifiedLog
from stratalog.broker.requests.context import RequestContext
from stratalog.broker.requests.dispatch import PENDING, Pending
from stratalog.broker.runtime.purgatory import Waiter
from stratalog.broker.runtime.watchers import Watchers
from stratalog.hot.recovery.missing import MissingRange
from stratalog.metadata.fetch_sessions.fetch_session import EPOCH_FINAL, FetchSession
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from stratalog.wire.parts import parts_length

__all__ = ["TOPIC_IDS_SINCE", "FetchAttempt"]

TOPIC_IDS_SINCE = 13
"""From this version on requests name topics by id (KIP-516)."""

_READ_COMMITTED = 1


class FetchAttempt:
    """One request: reading partitions, waiting for more, counting what leaves."""

    __slots__ = (
        "_broker",
        "_elsewhere",
        "_guarded",
        "_trying",
        "_version",
        "by_id",
        "committed",
        "context",
        "cut_bytes",
        "found",
        "max_bytes",
        "min_bytes",
        "moved",
        "pending_remote",
        "quota",
        "replica",
        "request",
        "room",
        "session",
        "session_epoch",
        "table",
        "throttle_ms",
        "waiter",
        "watched",
    )

    def __init__(
        self,
        context: RequestContext[FetchBroker],
        request: FetchRequest,
        session: FetchSession | None = None,
        replica: ReplicaReader | None = None,
    ) -> None:
        """``session`` is what the request goes on with, if anything; ``replica`` reads if a follower asks."""
        self.context = context
        self.request = request
        self.session = session
        self.session_epoch = EPOCH_FINAL if session is None else session.epoch
        """The session's epoch when the request came."""
        dispatcher = context.dispatcher
        self._broker = broker = context.broker
        self.replica = replica
        self._guarded = dispatcher.guarded and replica is None
        self.table = broker.partitions
        self._version = version = context.row.version
        self.by_id = version >= TOPIC_IDS_SINCE
        self._elsewhere = None
        if replica is None:
            self._elsewhere = elsewhere(broker, request.rack_id, context.connection.listener.name, version)
        self.committed = request.isolation_level == _READ_COMMITTED
        self.max_bytes = min(request.max_bytes, broker.config.integer("fetch.max.bytes"))
        self.quota = quota = context.connection.quota if replica is None else None
        if quota is not None:
            self.max_bytes = int(min(self.max_bytes, quota.fetch_bytes_max()))
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.cut_bytes = 0
        """Bytes that the present attempt would have found besides if batches could be cut where a limit ends."""
        self.room = AnswerRoom()
        self.found: FoundBytes | None = None
        """Bytes by partition, as of the last attempt, where there are so many partitions that one alone is looked at again."""
        self.moved = False
        """Whether the client has to learn of another leader, or of a newer epoch."""
        self.pending_remote: list[Hashable] = []
        """Readers of the archive that wait for chunks in the present attempt."""
        self.throttle_ms = 0
        """How long the last of them waits for its turn; 0 if there is one to whom something is coming."""
        self.waiter: Waiter | None = None
        self.watched: Iterable[Hashable] = ()
        """The keys under which the purgatory calls the waiting request."""
        self._trying = False

    # -- what kinds of fetches differ in ----------------------------------------------------------------------

    def attempt(self, *, final: bool) -> FetchResponse | None:
        """The answer, or None if there is not enough yet and ``final`` is not set."""
        raise NotImplementedError

    def may_complete(self) -> bool:
        """Whether another attempt may find more than the last one, after what has woken the request."""
        raise NotImplementedError

    # -- reading ----------------------------------------------------------------------------------------------

    def finder(self) -> Callable[[Any, int], UnifiedLog]:
        """Finds a partition by its topic, as the request names it, and its number. The finder raises `KafkaError`."""
        if self.replica is not None:
            return self.table.by_id if self.by_id else self.table.by_name
        find: Callable[[Any, int], UnifiedLog] = (
            self.table.readable_by_id if self.by_id else self.table.readable_by_name
        )
        if not self._guarded:
            return find

        def find_permitted(topic: Any, number: int) -> UnifiedLog:
            self.context.require_topic(topic)
            return find(topic, number)

        return find_permitted

    def begin(self) -> None:
        """Another attempt begins: it has found nothing yet."""
        self.cut_bytes = self.room.misses = 0
        self.pending_remote = []
        if self.replica is not None:
            self.replica.begin()

    def read(
        self,
        unified: UnifiedLog,
        wanted: FetchPartition,
        answer: PartitionData,
        left_bytes: int,
        *,
        min_one_batch: bool,
    ) -> int:
        """Fill the answer of one partition; how many bytes of records it has got. Raises `KafkaError`."""
        if self.replica is not None:
            return self._read_for_replica(
                self.replica, unified, wanted, answer, left_bytes, min_one_batch=min_one_batch
            )
        if self._guarded and not self.context.allows(unified.topic_partition.topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self._is_answered(unified, wanted, answer):
            return 0
        offset, reader = wanted.fetch_offset, (self.context.connection, unified)
        limit = answer.last_stable_offset if self.committed else answer.high_watermark
        max_bytes, is_cut = min(wanted.partition_max_bytes, left_bytes), left_bytes < wanted.partition_max_bytes
        has_room = min_one_batch or max_bytes > 0
        if self.room.needs_no_look(unified, reader, offset, limit, has_room=has_room, is_cut=is_cut):
            return 0
        try:
            read = unified.read(
                reader,
                offset,
                limit=limit,
                max_bytes=max_bytes,
                committed=self.committed,
                min_one_batch=min_one_batch,
            )
        except (Corrupt, OSError) as error:
            raise self._reported(unified, error) from error
        if read.pending:
            self._wait_for_archive(reader, read.throttle_ms)
        elif read.size_bytes:
            self._take(read, answer, limit, max_bytes, min_one_batch=min_one_batch)
        elif read.next_offset < limit and not min_one_batch:  # else they are not in the file yet, and come
            self.room.misses += is_cut
            self.cut_bytes += max_bytes
        return read.size_bytes

    def _take(self, read: LogRead, answer: PartitionData, limit: int, max_bytes: int, *, min_one_batch: bool) -> None:
        """Put what was read into the answer."""
        answer.records = list(read.parts)
        connection = self.context.connection  # a reader with other answers, too, is in as much of a hurry as ever
        connection.patient = read.remote and (min_one_batch or connection.patient)
        if read.next_offset < limit and read.size_bytes < max_bytes and not read.remote:
            self.cut_bytes += max_bytes - read.size_bytes
        if read.aborted:
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in read.aborted
            ]

    def _is_answered(self, unified: UnifiedLog, wanted: FetchPartition, answer: PartitionData) -> bool:
        """Fill in the marks; whether the reader has to cut its history, or to read elsewhere, before it gets records."""
        partition, offset = unified.partition, wanted.fetch_offset
        check_reads_here(unified, wanted, self._version, self.table.in_contact)
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = unified.log_start_offset
        answer.aborted_transactions = None
        if self._elsewhere is not None and (replica := self._elsewhere(unified, offset)) is not None:
            answer.preferred_read_replica = replica
            unified.leave_archive((self.context.connection, unified), offset)
            return True
        if self.committed:
            answer.aborted_transactions = []
        if wanted.last_fetched_epoch >= 0:
            answer.diverging_epoch = divergence(unified, wanted)
        return answer.diverging_epoch is not None

    def _read_for_replica(
        self,
        replica: ReplicaReader,
        unified: UnifiedLog,
        wanted: FetchPartition,
        answer: PartitionData,
        left_bytes: int,
        *,
        min_one_batch: bool,
    ) -> int:
        max_bytes = min(wanted.partition_max_bytes, left_bytes)
        try:
            return replica.read(unified, wanted, answer, max_bytes, min_one_batch=min_one_batch)
        except (Corrupt, OSError) as error:
            raise self._reported(unified, error) from error

    def watch_key(self, unified: UnifiedLog) -> Hashable:
        """The key under which a request that waits hears of news of the partition."""
        return unified if self.replica is None else unified.partition

    def watchers(self, unified: UnifiedLog) -> Watchers:
        """Those who are called when there is more for this reader."""
        partition = unified.partition
        return partition.watchers if self.replica is None else partition.end_watchers

    def _wait_for_archive(self, reader: Hashable, throttle_ms: int) -> None:
        """``reader`` gets nothing yet: it will be woken when its chunk has come, or its turn."""
        self.throttle_ms = min(self.throttle_ms, throttle_ms) if self.pending_remote else throttle_ms
        self.pending_remote.append(reader)
        if self.waiter is not None:
            self.waiter.watch(reader)

    def throttle(self, response: FetchResponse, *, partition_count: int) -> None:
        """Tell a client that waits for nothing but its turn at the archive how long that is.

        A client that also reads elsewhere gets no throttle time: it would not ask for that either.
        """
        if self.throttle_ms and len(self.pending_remote) == partition_count:
            response.throttle_time_ms = self.throttle_ms

    def _reported(self, unified: UnifiedLog, error: Corrupt | OSError) -> KafkaError:
        """Tell those who look after the disk of a read that failed; what to answer."""
        if isinstance(error, MissingRange):  # it was logged when it was found
            passes = unified.partition.others_have_it  # one of them leads soon; consumers end at CORRUPT_MESSAGE
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR if passes else ErrorCode.CORRUPT_MESSAGE, str(error))
        if isinstance(error, Corrupt):
            self._broker.report_corruption(unified, error)
        else:
            unified.partition.directory.report(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def note_refusal(self, error: KafkaError) -> None:
        """A partition is answered with ``error``."""
        self.moved = self.moved or error.code in MOVED

    def name_leaders(self, response: FetchResponse) -> None:
        """Beside each error that `note_refusal` has noted say who leads."""
        if self.moved:
            name_leaders(self.context, response)

    def enough(self, found_bytes: int) -> bool:
        """Whether an answer with so many bytes need not wait: a batch that does not fit would not come by waiting."""
        return found_bytes + self.cut_bytes >= self.min_bytes

    def has_enough_with(
        self, partition: Hashable, wanted: FetchPartition, look: Callable[[PartitionData, int, bool], int]
    ) -> bool:
        """Whether an attempt would end the wait with what ``look`` finds now in the partition that woke the request.

        ``look(answer, bytes left, at least one batch) -> bytes`` raises `KafkaError`, which is enough as well.
        """
        found = self.found
        assert found is not None
        answer = PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
        others_bytes, cut_bytes = found.without(partition), self.cut_bytes
        try:
            size_bytes = look(answer, max(self.max_bytes - others_bytes, 0), not others_bytes)
        except KafkaError:
            return True
        found.note(partition, size_bytes + self.cut_bytes - cut_bytes)
        return (
            found.total_bytes >= self.min_bytes
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )

    def may_leave(self, response: FetchResponse) -> bool:
        """Whether the client's quota allows an answer; else its connection is not read for a while."""
        quota = self.quota
        if quota is None or quota.fetch is None:
            return True
        return quota.may_fetch(self.context.connection, parts_length(self.context.row.encode(response)))

    def count(self, topics: Iterable[FetchableTopicResponse]) -> None:
        """Add what leaves to the figures of its topics."""
        if self.replica is not None:
            self.replica.count(topics, self.table.name_of)
            return
        figures_of = self._broker.metrics.topics
        for topic in topics:
            name = topic.topic or self.table.name_of(topic.topic_id)
            if name is None:
                continue
            figures = figures_of.get(name)
            if figures is None:
                continue
            for answer in topic.partitions:
                figures.total_fetch_requests += 1
                if answer.error_code:
                    figures.failed_fetch_requests += 1
                elif answer.records:
                    slices: Any = answer.records  # what a log gives
                    for part in slices:
                        figures.bytes_out += part.length

    # -- waiting ----------------------------------------------------------------------------------------------

    def start(self) -> FetchResponse | Pending:
        """Answer now if there is enough, else wait for appends, for chunks, or for the time to be over."""
        request = self.request
        response = self.attempt(final=request.max_wait_ms <= 0 or self.min_bytes <= 0)
        if self.replica is not None:
            self.replica.counts = False
        if response is not None:
            return response
        broker = self._broker
        wait_ms = request.max_wait_ms
        if self.pending_remote:
            wait_ms = max(wait_ms, broker.config.integer("remote.fetch.max.wait.ms"))
        if self.replica is not None:
            wait_ms = ceil(min(wait_ms, self.replica.wait_ms_max()))
        keys = [*self.watched, *self.pending_remote]
        self.waiter = broker.purgatory.wait(keys, wait_ms, self.try_complete, self.expire)
        self.context.on_abandon = self.abandon
        if self.session is not None:
            self.session.reader = self
        if self.replica is not None:
            self.replica.begin_wait(self)
        return PENDING

    def try_complete(self) -> bool:
        """Something has come. Called again by what the attempt itself finds (a failing disk), it does nothing."""
        if self._trying:
            return False
        self._trying = True
        try:
            response = self.attempt(final=False) if self.may_complete() else None
        finally:
            self._trying = False
        if response is None:
            return False
        self._ended()
        self.context.respond(response)
        return True

    def expire(self) -> None:
        """Answer with what there is."""
        response = self.attempt(final=True)
        assert response is not None
        self._ended()
        self.context.respond(response)

    def abandon(self) -> None:
        """The client has gone."""
        assert self.waiter is not None
        self.waiter.cancel()
        self._ended()

    def wake(self) -> None:
        """A partition of the session has become dirty."""
        assert self.waiter is not None
        self.waiter.check()

    def finish(self) -> None:
        """Answer with what there is, now."""
        assert self.waiter is not None
        self.waiter.expired()

    def _ended(self) -> None:
        """The request no longer waits. So no request of the session does, unless that is a later one."""
        if self.session is not None and self.session.reader is self:
            self.session.reader = None
        if self.replica is not None:
            self.replica.end_wait(self)
