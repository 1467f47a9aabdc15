"""The role of a leader in one leader epoch: appends in order, their acknowledgements, and the high watermark.

An append is queued in the log and answered later: with ``acks=1`` when it is in the file, with ``acks=all`` when
the high watermark has passed it. A batch that needs deep work (another codec, keys on a compacted topic) waits in
a worker and holds back the later ones of its partition, so the log keeps the order in which they came.

A role ends with its epoch. Taken down, it has answered all that waited and refuses whatever comes late: from a worker,
from a coordinator, or from a request that was on its way. It never begins again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Protocol

from stratalog.broker.replicas.directory_writer import DirectoryWriter
from stratalog.broker.replicas.in_sync import InSyncAsking
from stratalog.broker.replicas.log_settings import demanded_codec
from stratalog.broker.replicas.refused_batches import RefusedBatches
from stratalog.broker.replicas.waiting_append import Acknowledge, CallingBack, HeldAppend, WaitingAppend, ended_by
from stratalog.broker.runtime.clock import Clock
from stratalog.hot.config import LogConfig
from stratalog.hot.log.log_owner import LogOwner
from stratalog.hot.replica_state import IsrChange, ReplicaState
from stratalog.hot.state.producer_state import AppendOrigin
from stratalog.hot.state.validation import record_rules
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.batch import BATCH_HEADER, HEADER_BYTES
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.record_rules import RecordRules, RecordsRefused
from stratalog.wire.rework import needs_rework, opened_bytes_max
from stratalog.wire.topic import TopicPartition

__all__ = ["Hosted", "Leader", "Rework"]

Rework = Callable[[bytes, Codec | None, RecordRules, Callable[["bytearray | Exception"], None], int, Hashable], None]
"""Rework a batch elsewhere (`stratalog.wire.rework`) and report the new bytes or what is wrong with the old ones.

Behind that: how many bytes its records may have, and whose turn it takes.
"""

_ATTRIBUTES_FIELD = 5


class Hosted(LogOwner, Protocol):
    """The partition as its role sees it: `stratalog.broker.replicas.partition.Partition`."""

    directory: DirectoryWriter
    held_back: str | None
    refused: RefusedBatches

    def check_online(self) -> None:
        """Raises `KafkaError` while the partition takes no requests."""
        ...

    def advance(self, high_watermark: int) -> None:
        """Everything below ``high_watermark`` is committed: keep the mark, let readers look."""
        ...


Release = Callable[[], None] | None


class Leader:
    """The leadership of one partition in one epoch, on the event loop. The partition makes it."""

    def __init__(
        self, partition: Hosted, state: ReplicaState, *, clock: Clock, rework: Rework, asking: InSyncAsking
    ) -> None:
        """``state`` is the machine of the epoch: the in-sync set, the start of the epoch, the leader's own end."""
        self._partition = partition
        self._asking = asking
        self.state = state
        self.epoch = state.leader_epoch
        self.ended: KafkaError | None = None
        """Why the role takes nothing any more, once it is taken down."""
        self._log = partition.log
        self._clock, self._rework = clock, rework
        self._since = clock.monotonic()
        self.refused = partition.refused
        self._written: deque[WaitingAppend] = deque()
        self._committed: deque[WaitingAppend] = deque()
        self._held: deque[HeldAppend] = deque()
        self._explained: dict[int, WaitingAppend] = {}
        self._demand(partition.log.config)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is led."""
        return self._log.topic_partition

    @property
    def key(self) -> PartitionKey:
        """The partition by the id of its topic."""
        return PartitionKey(self._log.topic_id, self._log.topic_partition.partition)

    # -- appends --------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | bytearray,
        acks: int,
        release: Release,
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
        if (self.ended is not None or self.refused.batches) and self._turned_away(records, release, waiting):
            return
        if not ready and (self._demanding or self._held):
            held = HeldAppend(records, acks, release, waiting, True, transaction_version=transaction_version)
            if self._holds(held):
                return
        partition = self._partition
        try:
            if partition.held_back is not None or partition.directory.offline is not None:
                partition.check_online()
            if acks == -1 and len(self.state.in_sync) < self.state.min_insync_replicas:
                self.state.check_enough_replicas()
        except KafkaError as error:
            self.refused.turn_away(self.topic_partition, records, release, waiting, error)
            return
        try:
            waiting.info = info = self._log.appender.append_as_leader(
                records, self.epoch, self._clock.wall_ms(), origin, transaction_version, release
            )
        except (KafkaError, OSError) as error:
            self._not_taken(records, release, error, waiting)
            return
        if info.duplicate:
            self._await_duplicate(acks, waiting)
            return
        partition.directory.enqueue(partition)
        (self._committed if acks == -1 else self._written).append(waiting)

    def append_as_leader(self, records: bytearray, acknowledge: Acknowledge) -> None:
        """Append a batch of the broker's own coordinators; acknowledged when committed."""
        self.append(records, -1, None, CallingBack(acknowledge), AppendOrigin.COORDINATOR, ready=True)

    def append_marker(self, marker: bytearray, transaction_version: int, acknowledge: Acknowledge) -> None:
        """Append the end of a transaction; acknowledged when committed.

        It goes behind every append that waits for deep work: one of the transaction it ends would begin it anew.
        """
        waiting, origin = CallingBack(acknowledge), AppendOrigin.COORDINATOR
        if self._held:
            self._held.append(HeldAppend(marker, -1, None, waiting, True, origin, transaction_version))
            return
        self.append(marker, -1, None, waiting, origin, ready=True, transaction_version=transaction_version)

    def _turned_away(self, records: memoryview | bytearray, release: Release, waiting: WaitingAppend) -> bool:
        """Whether the role has ended, or a batch before this one was refused: then this one is, too."""
        if self.ended is None:
            return self.refused.turned_away(self._log, records, release, waiting)
        self.refused.turn_away(self.topic_partition, records, release, waiting, self.ended)
        return True

    def _not_taken(
        self, records: memoryview | bytearray, release: Release, error: KafkaError | OSError, waiting: WaitingAppend
    ) -> None:
        """The log has refused a batch, or could not read its own files for it."""
        if isinstance(error, OSError):
            self._partition.directory.report(error, self._partition)
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} takes no append now: {error}")
        if error.code is ErrorCode.INVALID_TIMESTAMP:
            self._explain(bytes(records), release, error, waiting)
        else:
            error = self.refused.over_gap(self._log, records, error, self.state, self._since)
            self.refused.turn_away(self.topic_partition, records, release, waiting, error)

    def _await_duplicate(self, acks: int, waiting: WaitingAppend) -> None:
        """Answer a retry with the offsets of the first attempt, and not earlier than that one would have been."""
        info = waiting.info
        queue, safe_offset = self._written, self._log.written_offset
        if acks == -1:
            queue, safe_offset = self._committed, self.state.high_watermark
        if info.last_offset < safe_offset:
            waiting.acknowledge(info)
            return
        # Its place is among the offsets it repeats, not behind what came later.
        index = len(queue)
        while index and queue[index - 1].info.last_offset > info.last_offset:
            index -= 1
        queue.insert(index, waiting)

    # -- appends that wait for deep work --------------------------------------------------------------------

    def update_config(self, config: LogConfig) -> None:
        """The topic has new settings, which are in force in the log already."""
        self._demand(config)
        self.in_sync_changed(self.state.in_sync, self.state.partition_epoch)
        if config.flush_messages > 1:
            self._advance(self._log.written_offset)  # what has waited for a sync waits no longer

    def in_sync_changed(
        self, in_sync: Iterable[int], epoch: int, replicas: Iterable[int] | None = None, *, is_recovering: bool = False
    ) -> None:
        """The image has this in-sync set in this leader epoch; the settings of the log are of the same image.

        ``epoch`` is the partition epoch, ``replicas`` the assignment; None if it stays. ``is_recovering``: by the image.
        """
        before, minimum, now_ms = len(self.state.in_sync), self._log.config.min_insync_replicas, self._now_ms()
        if self.state.isr_changed(
            in_sync, epoch, minimum, replicas=replicas, is_recovering=is_recovering, now_ms=now_ms
        ):
            self._mark_moved()
        if len(self.state.in_sync) != before:
            self._asking.changed(before, len(self.state.in_sync))
        self.look_for_joiners()

    def _demand(self, config: LogConfig) -> None:
        """Set the demands of the topic's settings on a batch beyond a good header."""
        self._codec = demanded_codec(config)
        self._keys_required = config.compacted
        self._demanding = self._codec is not None or self._keys_required

    def _holds(self, held: HeldAppend) -> bool:
        """Hold the append back if its batch needs deep work, or an earlier one does; False if neither is so."""
        records, deep = held.records, False
        # A batch that is too large as it stands is refused by the log, and not opened before.
        if HEADER_BYTES <= len(records) <= self._log.config.max_message_bytes:
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

    def _explain(self, batch: bytes, release: Release, error: KafkaError, waiting: WaitingAppend) -> None:
        """Refuse a batch by its header once it is known which of its records are at fault (KIP-467)."""
        if release is not None:
            release()
        self._explained[number := id(waiting)] = waiting

        def explained(out: bytearray | Exception) -> None:
            if self._explained.pop(number, None) is not None:  # otherwise the role was taken down meanwhile
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
        config, now_ms = self._log.config, self._clock.wall_ms()
        rules = record_rules(config, self._log.topic_partition, keys_required=keys_required, now_ms=now_ms)
        self._rework(batch, codec, rules, done, opened_bytes_max(config.max_message_bytes), waiting.source)

    def _reworked(self, held: HeldAppend, out: bytearray | Exception) -> None:
        held.settle(out, self._log.topic_partition)
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
            self.refused.turn_away(self.topic_partition, held.records, held.give_back, held.waiting, held.error)

    # -- followers ------------------------------------------------------------------------------------------

    def follower_fetched(self, broker_id: int, offset: int, *, log_start_offset: int, broker_epoch: int) -> None:
        """A follower asks for ``offset``: it has everything below. Raises `KafkaError` as `ReplicaState.follower_fetched`."""
        moved = self.state.follower_fetched(
            broker_id,
            offset,
            leader_log_end_offset=self._log.written_offset,
            now_ms=self._now_ms(),
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
        )
        if moved:
            self._mark_moved()
        if broker_id not in self.state.in_sync:
            self._let_join(broker_id)

    def _let_join(self, broker_id: int) -> None:
        may_join = self._asking.may_join(self.key, broker_id, self.state.follower(broker_id).broker_epoch)
        change = self.state.expansion(broker_id, self._log.log_start_offset) if may_join else None
        if change is not None:
            self._asking.ask(self, change)

    def look_for_joiners(self) -> None:
        """Ask for a larger set with followers that have everything, and could not join when they fetched last."""
        for broker_id in self.state.waiting_outside():
            self._let_join(broker_id)

    def check_lag(self, replica_lag_time_max_ms: int) -> None:
        """Ask for a smaller set without members that have not caught up for too long, or for a larger one."""
        change = self.state.retraction or self.state.shrinking(self._now_ms(), replica_lag_time_max_ms)
        if change is not None:
            self._asking.ask(self, change)
        else:
            self.look_for_joiners()

    def _report_recovered(self) -> None:
        """An unclean leader has recovered when its log is not, or no longer, compared with its archive: report it (KIP-704)."""
        partition = self._partition
        change = self.state.recovered() if partition.held_back is None and partition.directory.offline is None else None
        if change is not None:
            self._asking.ask(self, change)

    def in_sync_refused(self, change: IsrChange, code: ErrorCode) -> None:
        """The controller has refused a change, as `ReplicaState.isr_change_refused`."""
        before = self.state.retraction
        if self.state.isr_change_refused(change, code):
            self._mark_moved()
        if self.state.retraction is not None and before is None:
            self._asking.ask(self, self.state.retraction)

    def in_sync_passed_over(self, change: IsrChange) -> None:
        """The controller has granted a change without a new partition epoch, as `ReplicaState.retraction_passed_over`."""
        if self.state.retraction_passed_over(change):
            self._mark_moved()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    # -- what the log directory reports ---------------------------------------------------------------------

    def on_written(self) -> None:
        """Answer ``acks=1``; without sync on ack the leader counts itself by what is in the file."""
        written_offset = self._log.tail.written_offset
        if self.state.has_followers:
            self.state.appended(self._now_ms())
        written = self._written
        while written and written[0].info.last_offset < written_offset:
            waiting = written.popleft()
            waiting.acknowledge(waiting.info)
        if self._log.config.flush_messages > 1:
            self._advance(written_offset)

    def on_flushed(self) -> None:
        """With sync on ack the leader counts itself by its flushed offset; else this ends the wait after recovery."""
        sync_on_ack = self._log.config.flush_messages <= 1
        self._advance(self._log.flushed_offset if sync_on_ack else self._log.written_offset)

    def _advance(self, leader_end_offset: int) -> None:
        if self.state.leader_advanced(leader_end_offset):
            self._mark_moved()

    def _mark_moved(self) -> None:
        if self.ended is not None:
            return
        high_watermark = self.state.high_watermark
        self._partition.advance(high_watermark)  # readers first: theirs is the longer way
        committed = self._committed
        while committed and committed[0].info.last_offset < high_watermark:
            waiting = committed.popleft()
            waiting.acknowledge(waiting.info)

    def on_write_refused(self, error: OSError) -> None:
        """Refuse what was queued; what is in the file keeps waiting for its sync."""
        self.refused.note_shortage(self.topic_partition)
        written_offset = self._log.written_offset
        failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} could not be written: {error}")
        lost = [one for one in (*self._written, *self._committed) if one.info.last_offset >= written_offset]
        self._written = deque(one for one in self._written if one.info.last_offset < written_offset)
        self._committed = deque(one for one in self._committed if one.info.last_offset < written_offset)
        for waiting in lost:
            waiting.acknowledge(failure)

    def fail_waiting(self, failure: KafkaError) -> None:
        """Answer every append that waits, at whatever stage, with ``failure``."""
        for queue in (self._written, self._committed):
            while queue:
                queue.popleft().acknowledge(failure)
        while self._held:
            held = self._held.popleft()
            self.refused.turn_away(self.topic_partition, held.records, held.give_back, held.waiting, failure)
        while self._explained:
            self._explained.popitem()[1].acknowledge(failure)

    def take_down(self, ending: KafkaError) -> None:
        """End the role: every append that waits, and all that come late, are answered with ``ending``."""
        self.ended = ending
        self.fail_waiting(ending)

    def tick(self, now: float) -> None:
        """Time-outs of ``acks=-1``: those whose deadline is not after ``now``, in monotonic seconds."""
        if self.state.is_recovering:
            self._report_recovered()
        if self._committed and any(waiting.deadline <= now for waiting in self._committed):
            late = [waiting for waiting in self._committed if waiting.deadline <= now]
            self._committed = deque(waiting for waiting in self._committed if waiting.deadline > now)
            for waiting in late:
                why = f"has offset {waiting.info.base_offset} in its log but not acknowledged by all in-sync replicas in time"
                waiting.acknowledge(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self.topic_partition} {why}"))
