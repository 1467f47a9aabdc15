"""The batches of a produce request that belong to a transaction.

While the transaction is open in the partition, its log knows the producer and its epoch, and the batch goes straight
there, unless an earlier one still waits. Otherwise the coordinator is asked first: up to version 11 whether the partition was added to the transaction
(``transaction.partition.verification.enable``), from version 12 on to add it (KIP-890).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from struct import Struct
from typing import Final

from stratalog.broker.api.broker_view import Context
from stratalog.broker.replicas.leader import Leader
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.replicas.waiting_append import WaitingAppend
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.errors import for_produce
from stratalog.metadata.transactions.transaction import EPOCH_BUMP_SINCE
from stratalog.wire.batch import HEADER_BYTES
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["PRODUCER_AT", "PRODUCER_FIELDS", "TransactionalBatch", "enlist", "must_ask"]

PRODUCER_FIELDS: Final = Struct(">qh")
"""Producer id and epoch in the header of a batch."""
PRODUCER_AT: Final = 43

_API_KEY: Final = 0
_ADDS_SINCE: Final = 12


class TransactionalBatch:
    """A batch that waits for its transaction (`Enlisted`)."""

    __slots__ = ("_acks", "_context", "_records", "_release", "_waiting", "leader", "partition", "producer")

    def __init__(
        self,
        context: Context,
        leader: Leader,
        records: memoryview | bytearray,
        acks: int,
        release: Callable[[], None] | None,
        waiting: WaitingAppend,
    ) -> None:
        """``leader`` is the role that took the batch: in no other epoch is it appended."""
        self.partition = leader.topic_partition
        self.producer = Producer(*PRODUCER_FIELDS.unpack_from(records, PRODUCER_AT))
        self._context = context
        self.leader = leader
        self._records = records
        self._acks = acks
        self._release = release
        self._waiting = waiting

    def go_on(self) -> None:
        """The partition is in the transaction."""
        version = EPOCH_BUMP_SINCE if self._context.api_version >= _ADDS_SINCE else 0
        self.leader.append(self._records, self._acks, self._release, self._waiting, transaction_version=version)

    def refuse(self, error: KafkaError) -> None:
        """Refuse the batch: its partition is not in the transaction, or that cannot be found out now.

        Those behind it may be asked about a moment later, and be let in before it (Kafka: ``VerificationStateEntry``).
        """
        refusal = for_produce(error, _API_KEY, self._context.api_version)
        self.leader.refused.turn_away(self.partition, self._records, self._release, self._waiting, refusal)


def must_ask(context: Context, unified: UnifiedLog, records: memoryview) -> bool:
    """Whether the coordinator has to be asked before a transactional batch is appended, or the batch waits behind one that asks.

    The batch that opens the transaction may be let in, and wait for a worker, while the one behind it is asked about.
    """
    if len(records) < HEADER_BYTES:
        return False  # no batch: the log refuses it
    producer = Producer(*PRODUCER_FIELDS.unpack_from(records, PRODUCER_AT))
    if unified.log.producer_state.has_open_transaction(*producer):
        return context.broker.transactions.enlistment.is_asking(unified.topic_partition, producer)
    return context.api_version >= _ADDS_SINCE or context.broker.config.boolean(
        "transaction.partition.verification.enable"
    )


def enlist(context: Context, transactional_id: str, batches: list[TransactionalBatch]) -> None:
    """Ask for all of them at once; a request of several producers is none of a transaction."""
    by_producer: defaultdict[Producer, list[TransactionalBatch]] = defaultdict(list)
    for batch in batches:
        by_producer[batch.producer].append(batch)
    if len(by_producer) > 1:
        error = KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the batches for transactional id {transactional_id} have several producer ids or epochs, one is allowed",
        )
        for batch in batches:
            batch.refuse(error)
        return
    adds = context.api_version >= _ADDS_SINCE
    context.broker.transactions.enlistment.enlist(transactional_id, batches[0].producer, batches, adds=adds)
