"""Batches of idempotent producers that were refused: those behind them, which are on their way already, are refused likewise.

A producer has several batches under way. When the reason of a refusal passes between two of them, the later one finds a log that can
take it:

- A producer that the log does not know may begin with any sequence, as in Kafka. The refused batch would be out of
  order for ever, and librdkafka takes a later batch's acknowledgement for its own: an acknowledged record is lost.
- For a known producer it is out of order. librdkafka then begins a new epoch and sends all again, also a batch whose answer it has
  missed and that is in the log: the record is there twice.

With the answer of the batch before it, which may be tried again, it comes again behind that one.

The batch before it may also have been refused by the leader of before, on another broker. librdkafka (2.16, its issue 4953) counts a
batch as no longer under way before it has put it back into its queue: a partition that has moved meanwhile is served by another
thread, which sends the batches behind it to the new leader alone. Their gap has some seconds to close before it is out of order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from stratalog.broker.replicas.waiting_append import WaitingAppend
from stratalog.hot.log.log import Log
from stratalog.hot.replica_state import ReplicaState
from stratalog.hot.state.producer_snapshot import BATCHES_KEPT, ProducerEntry
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.wire.batch import HEADER_BYTES, NO_SEQUENCE, BatchHeader, read_header
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

__all__ = ["RefusedBatches"]

_BATCHES_MAX: Final = 10_000
REMEMBERED_SECONDS: Final = 10.0
"""After the last refusal, and for a gap. A producer that has given the batch up is answered as by Kafka then."""
_MOVING_SECONDS: Final = 60.0
"""librdkafka's ``socket.timeout.ms``: so long after a move an answer of the leader of before may come."""
_IN_THE_LOG: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT})
"""Answers to a batch that has its place, and may come again all the same."""
_SEQUENCES: Final = 1 << 31
"""0 comes after the highest one."""
_ALL: Final = None
"""Stands for the producer id in a log that had no room: which batches were refused is not known then."""

_Place = TopicPartition | PartitionKey
"""A partition, by the id of its topic where the name is not known yet."""


class _Refused(NamedTuple):
    """The batches of a producer that were refused lately, and may come again."""

    epoch: int
    first: int
    """The first of their sequences."""
    last: int
    """The last one; less than ``first`` where they wrap."""
    code: ErrorCode
    until: float


class _Gap(NamedTuple):
    """A sequence of a producer that has not come to this leader."""

    epoch: int
    awaited: int
    until: float


class RefusedBatches:
    """Those of one broker."""

    __slots__ = ("_gaps", "_monotonic", "batches")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.batches: OrderedDict[tuple[_Place, int | None], _Refused] = OrderedDict()
        """The refused batches of each producer in each partition, the latest refusal last; empty nearly always."""
        self._gaps: OrderedDict[tuple[TopicPartition, int], _Gap] = OrderedDict()
        """The last gap of each producer in each partition, also one whose time is over."""

    def note(self, partition: _Place, records: memoryview | bytearray, error: KafkaError) -> None:
        """A batch was refused, and is not in the log: remember it if its producer sends it again by itself.

        CORRUPT_MESSAGE is about this batch alone, so those behind it get NOT_ENOUGH_REPLICAS: every client repeats that.
        """
        if not error.retriable or error.code in _IN_THE_LOG or len(records) < HEADER_BYTES:
            return
        code = ErrorCode.NOT_ENOUGH_REPLICAS if error.code is ErrorCode.CORRUPT_MESSAGE else error.code
        header = read_header(records)
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        key, now, first = (partition, header.producer_id), self._monotonic(), header.base_sequence
        last = _sequence_after(first, header.last_offset_delta)
        before = self.batches.get(key)
        if before is not None and before.epoch == header.producer_epoch and now < before.until:
            first = before.first if _is_behind(first, before.first) else first
            last = _later(last, before.last)
        self._put(key, _Refused(header.producer_epoch, first, last, code, now + REMEMBERED_SECONDS))

    def note_shortage(self, partition: TopicPartition) -> None:
        """Batches that were queued found no room on the disk, and are forgotten."""
        self._put(
            (partition, _ALL), _Refused(0, 0, 0, ErrorCode.KAFKA_STORAGE_ERROR, self._monotonic() + REMEMBERED_SECONDS)
        )

    def turn_away(
        self,
        partition: TopicPartition,
        records: memoryview | bytearray,
        release: Callable[[], None] | None,
        waiting: WaitingAppend,
        error: KafkaError,
    ) -> None:
        """Refuse a batch, and give its buffer back: another request may have it from then on."""
        refusal = self.instead(partition, records, error)
        _refuse(release, waiting, refusal)

    def turned_away(
        self,
        log_: Log,
        records: memoryview | bytearray,
        release: Callable[[], None] | None,
        waiting: WaitingAppend,
    ) -> bool:
        """Whether a batch is behind one that was refused and has not come again: then it is refused likewise."""
        error = self.before(log_, records)
        if error is not None:
            _refuse(release, waiting, error)
        return error is not None

    def before(self, log_: Log, records: memoryview | bytearray) -> KafkaError | None:
        """The refusal of a batch behind one that was refused and has not come again; None for any other.

        The log knows the next sequence of a producer that it knows: others may have been taken by another leader. A batch
        that is refused here is remembered no longer than the one before it.
        """
        self._forget()
        if len(records) < HEADER_BYTES:
            return None
        header, partition = read_header(records), log_.topic_partition
        for place in (partition, PartitionKey(log_.topic_id, partition.partition)):
            refused = self._refusal_before(log_, place, header)
            if refused is not None:
                return _again(partition, header.producer_id, refused)
        return None

    def _refusal_before(self, log_: Log, place: _Place, header: BatchHeader) -> _Refused | None:
        key = place, header.producer_id
        refused = self.batches.get(key)
        if refused is None or header.base_sequence < 0:
            return None
        entry, awaited = log_.producer_state.entries.get(header.producer_id), refused.first
        if entry is not None and entry.producer_epoch == refused.epoch and entry.last_sequence != NO_SEQUENCE:
            awaited = _later(awaited, _sequence_after(entry.last_sequence, 1))
        if _is_behind(awaited, refused.last) or header.producer_epoch != refused.epoch:
            del self.batches[key]
            return None
        if not _is_behind(header.base_sequence, awaited):
            return None
        last = _sequence_after(header.base_sequence, header.last_offset_delta)
        self.batches[key] = refused._replace(last=_later(refused.last, last))
        return refused

    def instead(self, partition: TopicPartition, records: memoryview | bytearray, error: KafkaError) -> KafkaError:
        """The answer to a batch that the log refuses: behind one that found no room it is not out of order for good."""
        self.note(partition, records, error)
        self._forget()
        short = self.batches.get((partition, _ALL))
        if short is None or error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return error
        return _again(partition, read_header(records).producer_id, short)

    def over_gap(
        self, log_: Log, records: memoryview | bytearray, error: KafkaError, state: ReplicaState, since: float
    ) -> KafkaError:
        """The answer to a batch that the log refuses: the one before it may be on its way from the leader of before.

        ``state`` is the leader's, which leads ``since`` then, in monotonic seconds. Each gap has its seconds once.
        """
        self._forget()
        partition, now = log_.topic_partition, self._monotonic()
        if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or (partition, _ALL) in self.batches:
            return error
        header = read_header(records)
        entry = log_.producer_state.entries.get(header.producer_id)
        if entry is None or not _may_have_moved(entry, state, now - since):
            return error
        awaited = _sequence_after(entry.last_sequence, 1) if header.producer_epoch == entry.producer_epoch else 0
        if header.base_sequence < 0 or not _is_behind(header.base_sequence, awaited):
            return error
        key = partition, header.producer_id
        gap = self._gaps.get(key)
        if gap is None or (gap.epoch, gap.awaited) != (header.producer_epoch, awaited):
            gap = self._gaps[key] = _Gap(header.producer_epoch, awaited, now + REMEMBERED_SECONDS)
            if len(self._gaps) > _BATCHES_MAX:
                self._gaps.popitem(last=False)
        if now >= gap.until:
            return error
        why = f"{error.message}: that batch may have been refused by the leader of before, and has to come before this one"
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)

    def _forget(self) -> None:
        """Forget refusals of long ago: with none to remember, no append is looked at."""
        now = self._monotonic()
        while self.batches and now >= next(iter(self.batches.values())).until:
            self.batches.popitem(last=False)

    def _put(self, key: tuple[_Place, int | None], refused: _Refused) -> None:
        self.batches[key] = refused
        self.batches.move_to_end(key)
        if len(self.batches) > _BATCHES_MAX:
            self.batches.popitem(last=False)


def _sequence_after(sequence: int, count: int) -> int:
    return (sequence + count) % _SEQUENCES


def _is_behind(sequence: int, other: int) -> bool:
    """Whether a sequence comes after another one. They wrap, and those of batches under way are close together."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2


def _later(sequence: int, other: int) -> int:
    return sequence if _is_behind(sequence, other) else other


def _may_have_moved(entry: ProducerEntry, state: ReplicaState, led_seconds: float) -> bool:
    """Whether batches that a producer had under way may have gone to the leader of before.

    There are five at most: one of its last five in the log is older than this leader epoch then, or it has begun not long ago.
    """
    batches = entry.batches
    if not batches:
        return False
    if batches[0].first_offset < state.epoch_start_offset:
        return True
    return len(batches) < BATCHES_KEPT and state.leader_epoch > 0 and led_seconds < _MOVING_SECONDS


def _again(partition: TopicPartition, producer_id: int, refused: _Refused) -> KafkaError:
    why = f"a batch of producer {producer_id} for {partition} was refused with {refused.code.name}, and has to come again before this one"
    return KafkaError(refused.code, why)


def _refuse(release: Callable[[], None] | None, waiting: WaitingAppend, error: KafkaError) -> None:
    if release is not None:
        release()
    waiting.acknowledge(error)
