"""One partition on this broker: appends in order, acknowledgements, and the watermarks that readers see.

An append is queued in the log and answered later: with ``acks=1`` when it is in the file, with ``acks=all`` when
the high watermark has passed it. A batch that needs deep work (another codec, keys on a compacted topic) waits in
a worker and holds back the later ones of its partition, so the log keeps the order in which they came.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.waiting_append import Acknowledge, CallingBack, HeldAppend, WaitingAppend, ended_by
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log import Log
from stratalog.hot.replica_state import ReplicaState
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.state.validation import record_rules
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.record_rules import RecordRules, RecordsRefused
from stratalog.wire.rework import needs_rework, opened_bytes_max
from stratalog.wire.topic import TopicPartition, Uuid

__all__ = ["Partition", "Rework"]

log = logging.getLogger(__name__)

Rework = Callable[[bytes, Codec | None, RecordRules, Callable[["bytearray | Exception"], None], int, Hashable], None]
"""Rework a batch elsewhere (`stratalog.wire.rework`) and report the new bytes or what is wrong with the old ones.

Behind that: how many bytes its records may have, and whose turn it takes.
"""

_ATTRIBUTES_FIELD = 5


class Partition:
    """The leader of one partition, on the event loop."""

    def __init__(
        self,
        log_: Log,
        *,
        directory: DirectoryWriter,
        replica: ReplicaState,
        leader_epoch: int,
        clock: Clock,
        rework: Rework,
    ) -> None:
        self.log = log_
        self.directory = directory
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.watchers: set[Callable[[], object]] = set()
        """Called when readers may see something else: a watermark or the log
        start has moved, or leadership here has ended.
        """
        self.held_back: str | None = None
        """Why the partition takes no requests for now (rule 8: it is being compared with its archive)."""
        self._clock = clock
        self._rework = rework
        self._log_start_offset = log_.log_start_offset
        self._demand(log_.config)
        self._written: deque[WaitingAppend] = deque()
        self._committed: deque[WaitingAppend] = deque()
        self._held: deque[HeldAppend] = deque()
        self._flushed_at = clock.monotonic()
        log_.producer_state.on_high_watermark(replica.high_watermark)  # recovery cannot know which markers are final
        directory.add(self)

    # -- identity and watermarks --------------------------------------------------------------------------

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        return self.log.topic_partition

    @property
    def topic_id(self) -> Uuid:
        """The id of its topic."""
        return self.log.topic_id

    @property
    def high_watermark(self) -> int:
        """Consumers read below this offset."""
        return self.replica.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """read_committed consumers read below this offset."""
        if self.log.producer_state.first_unstable_offset is None:  # as nearly always; each fetch asks
            return self.replica.high_watermark
        return self.replica.last_stable_offset(self.log.first_unstable_offset)

    def update_config(self, config: LogConfig) -> None:
        """New topic settings, effective from the next append on."""
        self.log.update_config(config)
        self._demand(config)
        if config.flush_messages > 1:
            self._advance(self.log.written_offset)  # what has waited for a sync waits no longer

    def _demand(self, config: LogConfig) -> None:
        """Set the demands of the topic's settings on a batch beyond a good header."""
        self._codec = _demanded_codec(config)
        self._keys_required = config.compacted
        self._demanding = self._codec is not None or self._keys_required

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client believes in another epoch (KIP-320)."""
        if self.held_back is not None or self.directory.offline is not None:
            self.check_online()
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        fenced = current_leader_epoch < self.leader_epoch
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.topic_partition} has leader epoch {self.leader_epoch}, the request {current_leader_epoch}",
        )

    def check_online(self) -> None:
        """Raises KAFKA_STORAGE_ERROR while the log directory is offline, NOT_LEADER_OR_FOLLOWER while held back."""
        if self.held_back is not None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is not served yet: {self.held_back}"
            )
        if self.directory.offline is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.topic_partition} is offline: its log directory failed with {self.directory.offline}",
            )

    # -- appends --------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | bytearray,
        acks: int,
        release: Callable[[], None] | None,
        waiting: WaitingAppend,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        ready: bool = False,
        transaction_version: int = 0,
    ) -> None:
        """Append one batch.

        ``waiting`` is acknowledged exactly once: at once with an error, or later. ``release`` is called when the buffer
        of ``records`` may be used again; None if the caller alone holds it. ``ready``: the batch is as the
        topic demands it, and its turn has come.
        """
        if not ready and (self._demanding or self._held):
            held = HeldAppend(records, acks, release, waiting, True, transaction_version=transaction_version)
            if self._holds(held):
                return
        try:
            if self.held_back is not None or self.directory.offline is not None:
                self.check_online()
            if acks == -1 and len(self.replica.in_sync) < self.log.config.min_insync_replicas:
                self.replica.check_enough_replicas(self.log.config.min_insync_replicas)
        except KafkaError as error:
            if release is not None:
                release()
            waiting.acknowledge(error)
            return
        try:
            waiting.info = info = self.log.appender.append_as_leader(
                records, self.leader_epoch, self._clock.wall_ms(), origin, transaction_version, release
            )
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_TIMESTAMP:
                self._explain(bytes(records), error, waiting)
            else:
                waiting.acknowledge(error)
            return
        if info.duplicate:
            self._await_duplicate(acks, waiting)
            return
        self.directory.enqueue(self)
        (self._committed if acks == -1 else self._written).append(waiting)

    def append_as_leader(self, records: bytearray, acknowledge: Acknowledge) -> None:
        """Append a batch of the broker's own coordinators; acknowledged when committed."""
        self.append(records, -1, None, CallingBack(acknowledge), AppendOrigin.COORDINATOR, ready=True)

    def append_marker(self, marker: bytearray, transaction_version: int, acknowledge: Acknowledge) -> None:
        """Append the end of a transaction; acknowledged when committed.

        It goes behind every append that waits for deep work: one of the transaction it ends would begin it anew.
        """
        waiting = CallingBack(acknowledge)
        if self._held:
            self._held.append(
                HeldAppend(marker, -1, None, waiting, True, AppendOrigin.COORDINATOR, transaction_version)
            )
            return
        self.append(
            marker,
            -1,
            None,
            waiting,
            AppendOrigin.COORDINATOR,
            ready=True,
            transaction_version=transaction_version,
        )

    def _await_duplicate(self, acks: int, waiting: WaitingAppend) -> None:
        """Answer a retry with the offsets of the first attempt, and not earlier than that one would have been."""
        info = waiting.info
        queue, safe_offset = self._written, self.log.written_offset
        if acks == -1:
            queue, safe_offset = self._committed, self.replica.high_watermark
        if info.last_offset < safe_offset:
            waiting.acknowledge(info)
            return
        # Its place is among the offsets it repeats, not behind what came later.
        index = len(queue)
        while index and queue[index - 1].info.last_offset > info.last_offset:
            index -= 1
        queue.insert(index, waiting)

    # -- appends that wait for deep work --------------------------------------------------------------------

    def _holds(self, held: HeldAppend) -> bool:
        """Hold the append back if its batch needs deep work, or an earlier one does; False if neither is so."""
        records, deep = held.records, False
        # A batch that is too large as it stands is refused by the log, and not opened before.
        if HEADER_BYTES <= len(records) <= self.log.config.max_message_bytes:
            attributes = BATCH_HEADER.unpack_from(records)[_ATTRIBUTES_FIELD]
            deep = needs_rework(attributes, self._codec, keys_required=self._keys_required)
        if not deep and not self._held:
            return False
        if self._held and ended_by(self._held, records):
            held.give_back()
            error = KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction was ended before its batch")
            held.waiting.acknowledge(error)
            return True
        held.ready = not deep
        self._held.append(held)
        if deep:
            done = partial(self._reworked, held)
            self._open(bytes(records), self._codec, done, held.waiting, keys_required=self._keys_required)
        return True

    def _explain(self, batch: bytes, error: KafkaError, waiting: WaitingAppend) -> None:
        """Refuse a batch by its header once it is known which of its records are at fault (KIP-467)."""

        def explained(out: bytearray | Exception) -> None:
            waiting.acknowledge(out if isinstance(out, RecordsRefused) else error)

        self._open(batch, None, explained, waiting, keys_required=False)

    def _open(
        self,
        batch: bytes,
        codec: Codec | None,
        done: Callable[[bytearray | Exception], None],
        waiting: WaitingAppend,
        *,
        keys_required: bool,
    ) -> None:
        """Have the records of a batch looked at in the worker, in the turn of the connection that sent it."""
        config, now_ms = self.log.config, self._clock.wall_ms()
        rules = record_rules(config, self.topic_partition, keys_required=keys_required, now_ms=now_ms)
        self._rework(batch, codec, rules, done, opened_bytes_max(config.max_message_bytes), waiting.source)

    def _reworked(self, held: HeldAppend, out: bytearray | Exception) -> None:
        held.settle(out, self.topic_partition)
        self._append_ready()

    def _append_ready(self) -> None:
        while self._held and self._held[0].ready:
            held = self._held.popleft()
            if held.error is None:
                self.append(
                    held.records,
                    held.acks,
                    held.release,
                    held.waiting,
                    held.origin,
                    ready=True,
                    transaction_version=held.transaction_version,
                )
                continue
            held.give_back()
            held.waiting.acknowledge(held.error)

    # -- what the log directory reports ---------------------------------------------------------------------

    def flush_due(self) -> bool:
        """Kafka's ``flush.messages``, counted in offsets, and after every roll; ``flush.ms`` is :meth:`tick`'s."""
        return self.log.flush_due

    def on_written(self) -> None:
        """Answer ``acks=1``; without sync on ack the leader counts itself by what is in the file."""
        written_offset = self.log.tail.written_offset
        written = self._written
        while written and written[0].info.last_offset < written_offset:
            waiting = written.popleft()
            waiting.acknowledge(waiting.info)
        if self.log.config.flush_messages > 1:
            self._advance(written_offset)

    def on_flushed(self) -> None:
        """With sync on ack the leader counts itself by its flushed offset; else this ends the wait after recovery."""
        self._flushed_at = self._clock.monotonic()
        sync_on_ack = self.log.config.flush_messages <= 1
        self._advance(self.log.flushed_offset if sync_on_ack else self.log.written_offset)

    def _advance(self, leader_end_offset: int) -> None:
        if not self.replica.leader_advanced(leader_end_offset):
            return
        high_watermark = self.replica.high_watermark
        producers = self.log.producer_state
        if producers.first_unstable_offset is not None:
            producers.on_high_watermark(high_watermark)
        # Readers first: theirs is the longer way.
        for watcher in tuple(self.watchers):
            watcher()
        committed = self._committed
        while committed and committed[0].info.last_offset < high_watermark:
            waiting = committed.popleft()
            waiting.acknowledge(waiting.info)

    def _wake(self) -> None:
        for watcher in tuple(self.watchers):
            watcher()

    def restarted(self) -> None:
        """The log was begun anew elsewhere: the high watermark is its end, and what still waits is not in it."""
        self._fail_waiting(
            KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} went on from its archive")
        )
        replica, end = self.replica, self.log.log_end_offset
        self.replica = ReplicaState(
            replica.local_id,
            replicas=replica.replicas,
            in_sync=replica.in_sync,
            leader_epoch=self.leader_epoch,
            epoch_start_offset=end,
            leader_end_offset=end,
            high_watermark=end,
            partition_epoch=replica.partition_epoch,
        )
        self._wake()

    def on_write_refused(self, error: OSError) -> None:
        """Refuse what was queued; what is in the file keeps waiting for its sync."""
        written_offset = self.log.written_offset
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} could not be written: {error}")
        lost = [
            waiting
            for queue in (self._written, self._committed)
            for waiting in queue
            if waiting.info.last_offset >= written_offset
        ]
        self._written = deque(one for one in self._written if one.info.last_offset < written_offset)
        self._committed = deque(one for one in self._committed if one.info.last_offset < written_offset)
        for waiting in lost:
            waiting.acknowledge(failure)

    def on_storage_failed(self, error: OSError) -> None:
        """Waiting appends will not be acknowledged as written."""
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} went offline: {error}")
        self._fail_waiting(failure)

    def close(self) -> None:
        """The partition is no longer led here: waiting requests get an error, the log is the caller's."""
        self.directory.remove(self)
        self._fail_waiting(
            KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is no longer led by this broker")
        )

    def _fail_waiting(self, failure: KafkaError) -> None:
        for queue in (self._written, self._committed):
            while queue:
                queue.popleft().acknowledge(failure)
        while self._held:
            held = self._held.popleft()
            held.give_back()
            held.waiting.acknowledge(failure)
        self._wake()

    def tick(self, now: float) -> None:
        """Time-outs of ``acks=-1``, ``flush.ms``, news of log start and markers; called a few times a second."""
        if self._committed and any(waiting.deadline <= now for waiting in self._committed):
            late = [waiting for waiting in self._committed if waiting.deadline <= now]
            self._committed = deque(waiting for waiting in self._committed if waiting.deadline > now)
            for waiting in late:
                waiting.acknowledge(
                    KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"{self.topic_partition} has offset {waiting.info.base_offset} in its log but not "
                        "acknowledged by all in-sync replicas in time",
                    )
                )
        log_, producers = self.log, self.log.producer_state
        if log_.written_offset > log_.flushed_offset and (now - self._flushed_at) * 1000 >= log_.config.flush_ms:
            self.directory.sync(self)
        unstable = producers.first_unstable_offset
        if unstable is not None:
            producers.on_high_watermark(self.replica.high_watermark)  # after a full disk it was read anew
        if log_.log_start_offset != self._log_start_offset or producers.first_unstable_offset != unstable:
            self._log_start_offset = log_.log_start_offset
            self._wake()


def _demanded_codec(config: LogConfig) -> Codec | None:
    if config.compression_type == "producer":
        return None
    return Codec.NONE if config.compression_type == "uncompressed" else Codec[config.compression_type.upper()]
