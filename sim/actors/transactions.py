"""Transactional producers, of the classic protocol and of transactions v2: what they end is there whole or not at all."""

from __future__ import annotations

import random
from typing import Any, Final

from sim.actors.codes import GONE, RETRIABLE
from sim.actors.link import LinkLost
from sim.actors.producers import Batch, Producer
from sim.actors.progress import STABLE_SINCE, Progress
from sim.actors.surroundings import Surroundings
from sim.model import Outcome, PartitionModel, Transaction, Violation
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from stratalog.wire.messages.end_txn import EndTxnRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

__all__ = ["TransactionalProducer"]

_PRODUCE, _FETCH_OFFSETS, _FIND_COORDINATOR, _ADD_PARTITIONS, _END, _COMMIT_OFFSETS = 0, 9, 10, 24, 26, 28
_TRANSACTIONS: Final = 1
_WITH_PROGRESS: Final = 0.6
"""This part of the producers commits offsets, too; the same part of their transactions holds one."""
_AGAIN: Final = RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_ENDED: Final = _FENCED | {ErrorCode.INVALID_TXN_STATE}
"""The coordinator has ended it: under v2 a commit after a time-out looks like a repetition of another end."""
_BROKEN: Final = (
    _FENCED
    | GONE
    | {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""After these a producer begins anew, which aborts what it had begun."""


class _Broken(Exception):
    """A transaction cannot go on."""


class TransactionalProducer(Producer):
    """One transaction after the other, to several partitions; some it aborts itself, some are aborted for it."""

    once = True

    def __init__(self, world: Surroundings, name: str, dice: random.Random, rounds: int) -> None:
        super().__init__(world, name, dice, rounds)
        self.transactional_id = f"tx-{name}"
        self.version_floors = {_FIND_COORDINATOR: 1, _FETCH_OFFSETS: STABLE_SINCE}
        self._second = dice.random() < 0.5
        if self._second:
            self.version_floors |= {_PRODUCE: 12, _END: 5, _COMMIT_OFFSETS: 5}
        else:
            self.version_ceilings = {_PRODUCE: 11, _ADD_PARTITIONS: 3, _END: 4, _COMMIT_OFFSETS: 4}
        self._timeout_ms = dice.choice((3000, 60_000, 60_000))
        self.progress = Progress(self) if dice.random() < _WITH_PROGRESS else None
        self._identity: dict[str, Any] = {}
        self._sequences: dict[PartitionModel, int] = {}
        self._count = 0

    async def run(self) -> None:
        """Send everything."""
        while self.has_more():
            if not self._identity:
                await self._begin()
            self._count += 1
            transaction = Transaction(f"transaction {self._count} of {self.name}")
            self.world.model.transactions.append(transaction)
            try:
                await self._write(transaction)
                await self._add_progress()
                await self._end(transaction)
            except _Broken as error:
                self.loop.trace.note(self.name, f"{transaction.name} is broken: {error}")
                await self._begin()
                if transaction.outcome is Outcome.OPEN:
                    self._ended(transaction, Outcome.ABORTED)
                if self.progress is not None:
                    await self.progress.check()
            await self.rest()

    async def _add_progress(self) -> None:
        if self.progress is not None and self.dice.random() < _WITH_PROGRESS:
            await self.progress.add(self._count, self._identity, announced=not self._second)

    def _ended(self, transaction: Transaction, outcome: Outcome) -> None:
        transaction.end(outcome)
        if self.progress is not None:
            self.progress.ended(committed=outcome is Outcome.COMMITTED)

    # -- the coordinator -----------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Get an identity; whatever was open under this name is aborted."""
        self._identity, self._sequences = {}, {}
        while True:
            try:
                await self._find_coordinator()
                answer = await self.call(
                    InitProducerIdRequest(
                        transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
                    )
                )
            except LinkLost:
                await self.rest(0.3)
                continue
            code = ErrorCode(answer.error_code)
            self.loop.trace.note(self.name, f"is {answer.producer_id}/{answer.producer_epoch}: {code.name}")
            if code is ErrorCode.NONE:
                self._identity = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
                return
            if code not in _AGAIN:
                raise Violation(f"{self.name}: InitProducerId answers {code.name}")
            await self.rest(0.2)

    async def _find_coordinator(self) -> None:
        name = self.transactional_id or ""
        await self.call(FindCoordinatorRequest(key=name, key_type=_TRANSACTIONS, coordinator_keys=[name]))

    async def ask(self, what: str, request: Any, broken: frozenset[ErrorCode] = _BROKEN) -> Any:
        """Ask until there is an answer that is no reason to ask again. Raises `_Broken`, `Violation`."""
        while True:
            try:
                answer = await self.call(request)
            except LinkLost:
                await self.rest(0.3)
                continue
            code = ErrorCode(_code_of(answer))
            self.loop.trace.note(self.name, f"{what}: {code.name}")
            if code is ErrorCode.NONE:
                return answer
            if code in broken:
                raise _Broken(code.name)
            if code not in _AGAIN:
                raise Violation(f"{self.name}: {what} answers {code.name}")
            await self.rest(0.1)

    # -- one transaction -----------------------------------------------------------------------------------------------

    async def _write(self, transaction: Transaction) -> None:
        for _ in range(self.dice.randint(1, 4)):
            partition = self.pick()
            if partition is None:
                continue
            if not self._second:
                await self._add(partition)
            sequence = self._sequences.get(partition, 0)
            batch = self.new_batch(partition, sequence, transactional=True, **self._identity)
            for value in batch.values:
                partition.sent[value].transaction = transaction
            self._sequences[partition] = sequence + len(batch.values)
            await self._send(partition, batch)
            transaction.values += [(partition, value) for value in batch.values]
        if not transaction.values:
            raise _Broken("nothing to write")

    async def _add(self, partition: PartitionModel) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self._identity["producer_id"],
            v3_and_below_producer_epoch=self._identity["producer_epoch"],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=partition.topic.name, partitions=[partition.number])],
        )
        await self.ask(f"to add {partition}", request)

    async def _send(self, partition: PartitionModel, batch: Batch) -> None:
        while not batch.done:
            try:
                answer = await self.answer(await self.post(partition, batch))
            except LinkLost:
                await self.rest(0.3)
                continue
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            if code in _BROKEN:
                raise _Broken(f"{partition} {batch.sequence}+{len(batch.values)}: {code.name}")
            if code in _AGAIN:
                await self.rest(0.1)
            else:
                self.took(partition, batch, answer)

    async def _end(self, transaction: Transaction) -> None:
        commit = self.dice.random() < 0.7
        if commit:
            transaction.outcome = Outcome.ENDING
        request = EndTxnRequest(transactional_id=self.transactional_id or "", committed=commit, **self._identity)
        try:
            answer = await self.ask("to commit" if commit else "to abort", request, _ENDED)
        except _Broken:
            self._ended(transaction, Outcome.ABORTED)  # its time was over before it was asked for
            raise
        self._ended(transaction, Outcome.COMMITTED if commit else Outcome.ABORTED)
        if self._second:
            self._identity = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            self._sequences = {}


def _code_of(answer: Any) -> int:
    """The error code of an answer, wherever it is."""
    if isinstance(answer, TxnOffsetCommitResponse):
        return answer.topics[0].partitions[0].error_code
    topics = getattr(answer, "results_by_topic_v3_and_below", None)
    if topics:
        return int(topics[0].results_by_partition[0].partition_error_code)
    return int(answer.error_code)
