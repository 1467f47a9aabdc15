"""The transaction coordinator of one partition of ``__transaction_state``.

Pure (see `stratalog.metadata.coordination`). How an end goes, step by step, with what a reload finds after each::

    EndTransaction ── Write PrepareCommit ── answer ── SendMarkers ── MarkersWritten ── Write CompleteCommit
                    │ Ongoing: as if never   │ PrepareCommit: markers are sent again  │ CompleteCommit
                    │ asked                  │                                        │

A request that meets a transaction that is being ended waits for it for a moment (`TransactionSettings.patience_ms`)
before it is sent away with CONCURRENT_TRANSACTIONS: the end is a few milliseconds away, the client's retry is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from stratalog.metadata.clock_jumps import ClockJumps
from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Producer, Reply, Write
from stratalog.metadata.transactions.ending import check_end, repeated_end
from stratalog.metadata.transactions.events import (
    AddPartitions,
    AllocateProducerId,
    Describe,
    EndTransaction,
    InitProducer,
    ListIds,
    MarkersWritten,
    ProducerIdAllocated,
    Retire,
    SendMarkers,
    TimedOut,
    TransactionSettings,
    VerifyPartitions,
)
from stratalog.metadata.transactions.queries import described, listed, verified
from stratalog.metadata.transactions.status import TransactionStatus
from stratalog.metadata.transactions.transaction import Transaction, epoch_exhausted
from stratalog.metadata.transactions.waiting import Waiting, WaitingEvent
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.messages.end_txn import EndTxnResponse
from stratalog.wire.messages.init_producer_id import InitProducerIdResponse
from stratalog.wire.records.transaction import decode_key, decode_value, encode_key
from stratalog.wire.schema import DecodeError

__all__ = ["TransactionShard"]

_ONGOING: Final = TransactionStatus.ONGOING
_LATE_AT_ONCE: Final = 1_000  # those of a busy hour expire together, and those of a crash are late together


class _Decided(Struct):
    """The record that decides a transaction is committed: its markers may go out."""

    transactional_id: str
    producer: Producer


class TransactionShard:
    """The transactional ids of one partition."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self._abort_at: dict[str, int] = {}
        """When each open transaction has taken too long, in monotonic time: the wall clock may jump."""
        self._waiting = Waiting()
        self._retiring: dict[str, list[Retire]] = {}
        """Requests that wait for the end of a transaction, by its id, before its producer is retired."""
        self._allocating: list[AllocateProducerId] = []
        self._next_abort_ms = 0
        self._next_expiry_ms = 0
        self._jumps = ClockJumps()
        self._steps: Mapping[type[Any], Callable[[Any, Now], list[Action]]] = {
            InitProducer: self._init,
            AddPartitions: self._add,
            VerifyPartitions: self._verify,
            EndTransaction: self._end,
            MarkersWritten: self._marked,
            ProducerIdAllocated: self._allocated,
            Describe: self._describe,
            ListIds: self._list,
            Retire: self._retire,
            _Decided: self._decided,
        }

    # -- loading ----------------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, *, offset: int, producer: Producer | None) -> None:
        """Apply a record of the log. Raises `Corrupt`."""
        try:
            if producer is not None:
                raise Corrupt(f"it belongs to a transaction of {producer}")
            transactional_id = decode_key(key)
            if transactional_id is None:
                return
            if value is None:
                self.transactions.pop(transactional_id, None)
                return
            self.transactions[transactional_id] = Transaction.from_value(transactional_id, decode_value(value))
        except (DecodeError, Corrupt) as error:
            raise Corrupt(f"the transaction state at offset {offset} cannot be read: {error}") from error

    def replay_marker(self, producer: Producer, *, commit: bool, offset: int) -> None:
        """Raises `Corrupt`: no record in this log belongs to a transaction, so no marker ever stands here."""
        end = "commit" if commit else "abort"
        raise Corrupt(f"offset {offset} holds the {end} marker of {producer}, which has no business in this log")

    def loaded(self, now: Now) -> list[Action]:
        """Take half-done ends up again."""
        self._next_abort_ms = now.monotonic_ms + self.settings.abort_timed_out_interval_ms
        self._next_expiry_ms = now.monotonic_ms + self.settings.remove_expired_interval_ms
        self._jumps.believed_ms(now, self.settings.id_expiration_ms)
        actions: list[Action] = []
        for transaction in self.transactions.values():
            if transaction.status is _ONGOING:
                taken_ms = min(max(now.wall_ms - transaction.start_ms, 0), transaction.timeout_ms)
                self._abort_at[transaction.transactional_id] = now.monotonic_ms + transaction.timeout_ms - taken_ms
            elif transaction.status.ending:
                actions += self._markers(transaction, now)
        return actions

    # -- events -----------------------------------------------------------------------------------------------------

    def step(self, event: Any, now: Now) -> list[Action]:
        """Take an event of `stratalog.metadata.transactions.events`."""
        return self._steps[type(event)](event, now)

    def _init(self, event: InitProducer, now: Now, fresh_id: int | None = None) -> list[Action]:
        """A producer starts or goes on: give it an epoch of its own, and end what the one before has left open."""
        longest_ms = self.settings.max_timeout_ms
        if not 0 < event.timeout_ms <= longest_ms:
            return [_refused(event, ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"it must be within 1 and {longest_ms} ms")]
        transaction = self.transactions.get(event.transactional_id)
        if transaction is None:
            if fresh_id is None:
                return self._allocate(event)
            transaction = Transaction(
                transactional_id=event.transactional_id,
                producer_id=fresh_id,
                timeout_ms=event.timeout_ms,
                last_update_ms=now.wall_ms,
            )
        elif event.expected is not None and not transaction.may_go_on(event.expected):
            return [_refused(event, ErrorCode.PRODUCER_FENCED, "another producer uses this transactional id")]
        if transaction.status.ending:
            return self._wait(event, now)
        if transaction.status is _ONGOING:
            return self._take_over(transaction, event, now, fresh_id)
        try:
            if not transaction.begin_producer(
                event.expected, event.timeout_ms, fresh_id, now.wall_ms, ids_from=event.ids_from
            ):
                return self._allocate(event)
        except KafkaError as error:
            return [Reply(event.token, error)]
        self.transactions[event.transactional_id] = transaction
        answer = InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
        return [Write([transaction.record()], [Reply(event.token, answer)])]

    def _take_over(self, transaction: Transaction, event: InitProducer, now: Now, fresh_id: int | None) -> list[Action]:
        """A producer starts while a transaction is open: abort that one first."""
        if event.expected is not None and event.expected.producer_epoch != transaction.producer_epoch:
            return [_refused(event, ErrorCode.PRODUCER_FENCED, "another producer uses this transactional id")]
        if epoch_exhausted(transaction.producer_epoch) and fresh_id is None:
            return self._allocate(event)
        return [*self._abort(transaction, now, fresh_id), *self._wait(event, now)]

    def _add(self, event: AddPartitions, now: Now) -> list[Action]:
        transaction = self.transactions.get(event.transactional_id)
        if transaction is not None and transaction.ends_for(event.producer):
            return self._wait(event, now) if event.waits else [_concurrent(event)]
        refusal = _stranger(transaction, event)
        if refusal is not None:
            return [refusal]
        assert transaction is not None
        if transaction.status is _ONGOING and event.partitions <= transaction.partitions:
            return [Reply(event.token, event.done, durable=True)]
        if transaction.status is not _ONGOING:
            self._abort_at[event.transactional_id] = now.monotonic_ms + transaction.timeout_ms
        transaction.add(event.partitions, event.client_version, now.wall_ms)
        return [Write([transaction.record()], [Reply(event.token, event.done)])]

    def _verify(self, event: VerifyPartitions, _now: Now) -> list[Action]:
        transaction = self.transactions.get(event.transactional_id)
        refusal = _stranger(transaction, event)
        if refusal is not None:
            return [refusal]
        assert transaction is not None
        if transaction.status.ending:
            return [_refused(event, ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is being ended")]
        return [Reply(event.token, verified(transaction, event.partitions), durable=True)]

    def _end(self, event: EndTransaction, now: Now, fresh_id: int | None = None) -> list[Action]:
        transaction = self.transactions.get(event.transactional_id)
        if transaction is None:
            return [_refused(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id is not known")]
        try:
            if repeated_end(transaction, event):
                return [Reply(event.token, _ended(transaction), durable=True)]
            check_end(transaction, event)
        except KafkaError as error:
            return [Reply(event.token, error)]
        actions = self._decide(
            transaction,
            now,
            commit=event.commit,
            client_version=event.client_version,
            fence=False,
            fresh_id=fresh_id,
        )
        if actions is None:
            return self._allocate(event)
        actions[0].replies = [Reply(event.token, _ended(transaction))]
        return actions

    def _timed_out(self, event: TimedOut, now: Now, fresh_id: int | None = None) -> list[Action]:
        transaction = self.transactions.get(event.transactional_id)
        if transaction is None or transaction.producer != event.producer or transaction.status is not _ONGOING:
            return []
        if epoch_exhausted(transaction.producer_epoch) and fresh_id is None:
            return self._allocate(event)
        return self._abort(transaction, now, fresh_id)

    def _abort(self, transaction: Transaction, now: Now, fresh_id: int | None) -> list[Action]:
        """Take the transaction from its producer."""
        actions = self._decide(
            transaction, now, commit=False, client_version=self.settings.version, fence=True, fresh_id=fresh_id
        )
        assert actions is not None, "an id is at hand where one is needed"
        return actions

    def _decide(
        self,
        transaction: Transaction,
        now: Now,
        *,
        commit: bool,
        client_version: int,
        fence: bool,
        fresh_id: int | None,
    ) -> list[Any] | None:
        """The record of the decision, and the markers when it is committed; None if a producer id is needed first."""
        if not transaction.decide(
            commit=commit, client_version=client_version, fence=fence, fresh_id=fresh_id, now_ms=now.wall_ms
        ):
            return None
        self._abort_at.pop(transaction.transactional_id, None)
        decided = _Decided(transaction.transactional_id, transaction.producer)
        return [Write([transaction.record()], on_committed=[decided])]

    def _decided(self, event: _Decided, now: Now) -> list[Action]:
        transaction = self.transactions[event.transactional_id]
        assert transaction.status.ending, "nothing follows a decision but its completion"
        return self._markers(transaction, now)

    def _markers(self, transaction: Transaction, now: Now) -> list[Action]:
        if not transaction.partitions:
            return self._complete(transaction, now)
        return [
            SendMarkers(
                transaction.transactional_id,
                transaction.producer,
                transaction.committing,
                transaction.client_version,
                frozenset(transaction.partitions),
            )
        ]

    def _marked(self, event: MarkersWritten, now: Now) -> list[Action]:
        transaction = self.transactions.get(event.transactional_id)
        if transaction is None or not transaction.status.ending or transaction.producer != event.producer:
            return []  # a report about an end that another one has completed meanwhile
        transaction.partitions -= event.partitions
        return [] if transaction.partitions else self._complete(transaction, now)

    def _complete(self, transaction: Transaction, now: Now) -> list[Action]:
        transaction.complete(now.wall_ms)
        actions: list[Action] = [Write([transaction.record()])]
        for asked in self._retiring.pop(transaction.transactional_id, ()):
            actions += self._retire(asked, now)
        for event in self._waiting.ended(transaction.transactional_id):
            actions += self.step(event, now)
        return actions

    def _retire(self, event: Retire, now: Now) -> list[Action]:
        """Take every transactional id from its producer; one that is being ended goes last."""
        actions: list[Action] = []
        for transaction in self.transactions.values():
            if not transaction.status.ending and not transaction.is_retired:
                self._abort_at.pop(transaction.transactional_id, None)
                transaction.retire(now.wall_ms)
                actions.append(write := Write([transaction.record()]))
                if transaction.status.ending:
                    write.on_committed = (_Decided(transaction.transactional_id, transaction.producer),)
        for transaction in self.transactions.values():
            if transaction.status.ending and not transaction.is_retired:
                self._retiring.setdefault(transaction.transactional_id, []).append(event)
                return actions
        return [*actions, Reply(event.token, event.done, durable=True)]

    # -- requests that wait -----------------------------------------------------------------------------------------

    def _wait(self, event: WaitingEvent, now: Now) -> list[Action]:
        if not self.settings.patience_ms:
            return [_concurrent(event)]
        self._waiting.add(event, now.monotonic_ms + self.settings.patience_ms)
        return []

    def _allocate(self, event: InitProducer | EndTransaction | TimedOut) -> list[Action]:
        asked = AllocateProducerId(event)
        self._allocating.append(asked)
        return [asked]

    def _allocated(self, event: ProducerIdAllocated, now: Now) -> list[Action]:
        """Go on, with whatever has become of the transaction meanwhile; an id that is not needed any more is lost."""
        request = event.request
        if not any(request is asked for asked in self._allocating):
            return []  # asked for before the shard was loaded anew; its token has failed then
        self._allocating = [asked for asked in self._allocating if asked is not request]
        waited = request.event
        if isinstance(waited, InitProducer):
            return self._init(waited, now, event.producer_id)
        if isinstance(waited, EndTransaction):
            return self._end(waited, now, event.producer_id)
        return self._timed_out(waited, now, event.producer_id)

    def allocation_failed(self, request: AllocateProducerId) -> None:
        """No id is to be had; the driver has answered the token."""
        self._allocating = [asked for asked in self._allocating if asked is not request]

    def parked(self) -> list[Any]:
        """The tokens of requests that wait for an end or for a producer id."""
        return [
            *self._waiting.tokens(),
            *(asked.event.token for asked in self._allocating if asked.event.token is not None),
            *(asked.token for waiting in self._retiring.values() for asked in waiting),
        ]

    # -- questions --------------------------------------------------------------------------------------------------

    def _describe(self, event: Describe, _now: Now) -> list[Action]:
        answer = described(event.transactional_id, self.transactions.get(event.transactional_id))
        return [Reply(event.token, answer, durable=True)]

    def _list(self, event: ListIds, now: Now) -> list[Action]:
        return [Reply(event.token, listed(self.transactions.values(), event, now.wall_ms), durable=True)]

    # -- time -------------------------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        """When `due` has something to do, in monotonic milliseconds."""
        waiting_ms = self._waiting.deadline()
        candidates = [] if waiting_ms is None else [waiting_ms]
        if self._abort_at:
            candidates.append(self._next_abort_ms)
        if self.transactions:
            candidates.append(self._next_expiry_ms)
        return min(candidates, default=None)

    def due(self, now: Now) -> list[Action]:
        """Answer requests that have waited too long, abort transactions that take too long, forget unused ids."""
        actions: list[Action] = [_concurrent(event) for event in self._waiting.late(now.monotonic_ms)]
        if self._abort_at and self._next_abort_ms <= now.monotonic_ms:
            self._next_abort_ms = now.monotonic_ms + self.settings.abort_timed_out_interval_ms
            actions += self._abort_late(now)
        if self.transactions and self._next_expiry_ms <= now.monotonic_ms:
            self._next_expiry_ms = now.monotonic_ms + self.settings.remove_expired_interval_ms
            actions += self._expire(now)
        return actions

    def _abort_late(self, now: Now) -> list[Action]:
        late = (one for one, abort_at_ms in self._abort_at.items() if abort_at_ms <= now.monotonic_ms)
        actions: list[Action] = []
        before = len(self._abort_at)
        for transactional_id in list(islice(late, _LATE_AT_ONCE)):
            actions += self._timed_out(TimedOut(transactional_id, self.transactions[transactional_id].producer), now)
        if before - len(self._abort_at) == _LATE_AT_ONCE:
            self._next_abort_ms = now.monotonic_ms  # the others follow in the next turns of the loop
        return actions

    def _expire(self, now: Now) -> list[Action]:
        before_ms = self._jumps.believed_ms(now, self.settings.id_expiration_ms) - self.settings.id_expiration_ms
        old = (one for one in self.transactions.values() if one.status.resting and one.last_update_ms <= before_ms)
        expired = [one.transactional_id for one in islice(old, _LATE_AT_ONCE)]
        if len(expired) == _LATE_AT_ONCE:
            self._next_expiry_ms = now.monotonic_ms  # the others follow in the next turns of the loop
        for transactional_id in expired:
            del self.transactions[transactional_id]
        records = [CoordinatorRecord(encode_key(one), None) for one in expired]
        return [Write(records, divisible=True)] if records else []


def _stranger(transaction: Transaction | None, event: AddPartitions | VerifyPartitions) -> Reply | None:
    """The refusal of a request that does not come from the transaction's producer."""
    if transaction is None or transaction.producer_id != event.producer.producer_id:
        return _refused(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id does not belong to it")
    if transaction.producer_epoch != event.producer.producer_epoch:
        reason = f"its producer has epoch {transaction.producer_epoch}, not {event.producer.producer_epoch}"
        return _refused(event, ErrorCode.PRODUCER_FENCED, reason)
    return None


def _refused(event: Any, code: ErrorCode, reason: str) -> Reply:
    return Reply(event.token, KafkaError(code, f"transactional id {event.transactional_id!r}: {reason}"))


def _concurrent(event: WaitingEvent) -> Reply:
    return _refused(event, ErrorCode.CONCURRENT_TRANSACTIONS, "its transaction before is still being ended")


def _ended(transaction: Transaction) -> EndTxnResponse:
    producer_id, producer_epoch = transaction.promised
    return EndTxnResponse(error_code=0, producer_id=producer_id, producer_epoch=producer_epoch)
