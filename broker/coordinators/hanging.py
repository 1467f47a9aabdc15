"""Ends transactions that their coordinator will not end, in logs that went on from their archives (KIP-664, decision 0054).

The disk of this broker went back in time, and with it the coordinator's log. First every transactional id is taken from its
producer, for a producer that goes on would commit the part of its transaction that is not lost. Then each open transaction
of the logs is judged (`stratalog.metadata.transactions.hanging`), all of them before the first marker is written, because
markers look like ends to those that are judged later. A transaction that cannot be judged stays open and is reported.

Where there are several brokers, another one may coordinate a transaction or know of its end: then it is ended here only as
the coordinator on this broker says that it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Final

from msgspec import Struct

from stratalog.broker.coordinators.partition_markers import TransactionMarker
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.broker.coordinators.transactions import TransactionCoordinator
from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP, FreshFigures
from stratalog.broker.runtime.metrics import Metrics
from stratalog.metadata.coordination import Producer
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import TopicImage
from stratalog.metadata.transactions.events import Retire
from stratalog.metadata.transactions.hanging import OpenTransaction, Seen, Verdict, ended_in, judge, left_open
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.transaction import EPOCH_MAX, Transaction
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.end_txn import EndTxnResponse
from stratalog.wire.schema import Message
from stratalog.wire.topic import TopicPartition

__all__ = ["HangingTransactions", "add_hanging_figures"]

_LOOK_SECONDS: Final = 0.5
_DONE: Final = EndTxnResponse(error_code=0)
"""The shard's answer to `Retire`: nothing but that it is done."""

log = logging.getLogger(__name__)


class _Due(Struct):
    """A log to be judged, up to an offset; ``judged`` is called when that is done."""

    end_offset: int
    judged: Callable[[], object]


class HangingTransactions:
    """One per broker."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        partitions: Callable[[], PartitionTable],
        image: Callable[[], ClusterImage],
        *,
        is_late: Callable[[TopicPartition, int, int], bool] = lambda *_: False,
        alone: bool = True,
    ) -> None:
        """``alone``: this broker coordinates every transaction, and hosts every partition.

        ``is_late``: whether a partition has the transaction of a producer, from an offset on, open for longer than any may be.
        """
        self._alone = alone
        self._is_late = is_late
        self._coordinator = coordinator
        self._partitions = partitions
        self._image = image
        self.ended: Counter[str] = Counter()
        """Transactions that were ended here, by outcome."""
        self._owed: set[int] = set()
        """Partitions of the coordinator's topic whose producers are still to be retired."""
        self._covered_ms: dict[int, int] = {}
        """By partition of the coordinator's topic the latest time that its log told of when it was first loaded."""
        self._retired = False
        self._due: dict[UnifiedLog, _Due] = {}
        self._aborted: set[tuple[int, int]] = set()
        """Producer ids and epochs whose transaction was aborted here; the marker is no sign of another end."""
        self._under_way: set[OpenTransaction] = set()
        self._told: set[OpenTransaction] = set()
        self._timer: asyncio.TimerHandle | None = None
        coordinator.on_active = self._activated

    # -- producers ----------------------------------------------------------------------------------------------------

    def retire_producers(self) -> None:
        """Take every transactional id from its producer: at once where its shard takes events, else when it does."""
        topic = self._image().topics.by_name.get(self._coordinator.host.topic)
        self._owed = set() if topic is None else self._coordinated(topic)
        if self._owed and not self._retired:
            self._retired = True
            log.error(
                "each transactional producer is fenced, and its open transaction aborted: start these producers anew"
            )
        for driver in self._coordinator.drivers():
            self._activated(driver)

    def _coordinated(self, topic: TopicImage) -> set[int]:
        """The partitions of the coordinator's topic that this broker is to read."""
        if self._alone:
            return set(topic.partitions)
        return {driver.partition_number for driver in self._coordinator.host}

    def _activated(self, driver: ShardDriver) -> None:
        assert isinstance(driver.shard, TransactionShard)
        updates = (transaction.last_update_ms for transaction in driver.shard.transactions.values())
        self._covered_ms.setdefault(driver.partition_number, max(updates, default=-1))
        if driver.partition_number in self._owed:
            driver.ask(Retire(_Retirement(partial(self._owed.discard, driver.partition_number)), _DONE))

    # -- verdicts -----------------------------------------------------------------------------------------------------

    def judge(self, unified: UnifiedLog, judged: Callable[[], object]) -> None:
        """End what is open in a log that agrees with its archive now and will not be ended otherwise."""
        self._due[unified] = _Due(unified.log.log_end_offset, judged)
        self._look_later(0.0)

    def _look_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def close(self) -> None:
        """Judge nothing more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        served = set(self._partitions())
        self._due = {unified: due for unified, due in self._due.items() if unified in served}
        known = None if self._owed else self._known()
        if known is not None:
            self._settle(known)
        if self._due:
            self._look_later(_LOOK_SECONDS)

    def _settle(self, known: dict[int, Transaction]) -> None:
        open_still = set()
        rulings = [
            (unified, found, self._verdict(unified, found, known.get(found.producer_id)))
            for unified, due in self._due.items()
            for found in _open_in(unified)
            if found.first_offset < due.end_offset
        ]
        for unified, found, verdict in rulings:
            if verdict is Verdict.UNDECIDED:
                self._tell(found)
                continue
            open_still.add(unified)
            if verdict is not Verdict.WAIT and found not in self._under_way:
                self._end(unified, found, commit=verdict is Verdict.COMMIT)
        for unified in [one for one in self._due if one not in open_still]:
            self._due.pop(unified).judged()

    def _verdict(self, unified: UnifiedLog, found: OpenTransaction, known: Transaction | None) -> Verdict:
        if found[1:3] in self._aborted:
            return Verdict.ABORT
        others = (
            one.log.producer_state.entries.get(found.producer_id) for one in self._partitions() if one is not unified
        )
        seen = [Seen(one.producer_epoch, one.coordinator_epoch >= 0) for one in others if one is not None]
        ended = not self._alone or any(ended_in(found, known, one) for one in seen)
        return judge(found, known, ended_elsewhere=ended, covered_ms=max(self._covered_ms.values(), default=-1))

    def _tell(self, found: OpenTransaction) -> None:
        if found not in self._told:
            self._told.add(found)
            log.error(
                "%s. It may have been committed in other partitions, so it is not ended here", self._sentence(found)
            )

    def _end(self, unified: UnifiedLog, found: OpenTransaction, *, commit: bool) -> None:
        """Write the marker. Its epoch is above the producer's, which writes here no more."""
        if not commit:
            self._aborted.add(found[1:3])
        entry = unified.log.producer_state.entries[found.producer_id]
        producer = Producer(found.producer_id, min(found.producer_epoch + 1, EPOCH_MAX))
        marker = TransactionMarker(producer, commit, entry.coordinator_epoch, transaction_version=0)
        self._under_way.add(found)
        self._coordinator.markers.write(found.partition, marker, partial(self._ended, found, commit))

    def _ended(self, found: OpenTransaction, commit: bool, error: KafkaError | None) -> None:
        self._under_way.discard(found)
        outcome = "committed" if commit else "aborted"
        if error is None:
            self.ended[outcome] += 1
            log.warning(
                "%s: the transaction of producer %d from offset %d on was %s: its marker was lost with the disk",
                found.partition,
                found.producer_id,
                found.first_offset,
                outcome,
            )
        elif error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:  # another marker was faster
            log.warning("%s: the marker of producer %d waits: %s", found.partition, found.producer_id, error)

    # -- reports ------------------------------------------------------------------------------------------------------

    def _known(self) -> dict[int, Transaction] | None:
        """The transactions that this broker coordinates, by producer id; None while part of them is not read."""
        topic = self._image().topics.by_name.get(self._coordinator.host.topic)
        drivers = self._coordinator.drivers()
        if topic is not None and len(drivers) != len(self._coordinated(topic)):
            return None
        shards = [driver.shard for driver in drivers]
        return {
            transaction.producer_id: transaction
            for shard in shards
            if isinstance(shard, TransactionShard)
            for transaction in shard.transactions.values()
        }

    def hanging(self) -> Generator[None, None, list[OpenTransaction]]:
        """The open transactions that will not be ended, by partition and offset; empty while that cannot be known.

        It yields where it may pause.
        """
        found: list[OpenTransaction] = []
        for number, unified in enumerate(list(self._partitions())):
            if number % LOOKS_A_STEP == 0:
                yield
            if unified not in self._due:
                found += _open_in(unified)
        found.sort(key=lambda one: (one.partition, one.first_offset))  # logs are opened in any order
        known = self._known() if found else None
        if known is None:
            return []
        if not self._alone:  # another broker may coordinate the rest
            found = [one for one in found if one.producer_id in known or self._is_named(one)]
        return [one for one in found if left_open(one, known.get(one.producer_id))]

    def _is_named(self, one: OpenTransaction) -> bool:
        """Whether the log has named a transaction whose coordinator may be another broker."""
        return one in self._told or self._is_late(one.partition, one.producer_id, one.first_offset)

    def problems(self) -> Generator[None, None, list[str]]:
        """A sentence for each of them; it yields where it may pause."""
        return [self._sentence(one) for one in (yield from self.hanging())]

    def _sentence(self, one: OpenTransaction) -> str:
        topic, number = one.partition
        coordinator = "the coordinator" if self._alone else "this broker's coordinator"
        said = (
            f"{one.partition}: {coordinator} does not know the open transaction of producer {one.producer_id} from offset "
            f"{one.first_offset} on, and readers of committed records wait in front of it. "
        )
        abort = f"stratalog transaction abort {topic} --partition {number} --start-offset {one.first_offset}"
        if self._alone:
            return f"{said}To abort it: {abort}"
        return (
            f"{said}Another broker may coordinate it, and ends it then. Only if `stratalog transaction list --producer-id "
            f"{one.producer_id}` names none that is open, abort it: {abort}"
        )


class _Retirement:
    """The token of one shard's `Retire`; a shard that fails is asked again when it is loaded anew."""

    def __init__(self, done: Callable[[], object]) -> None:
        self._done = done

    def respond(self, _response: Message) -> None:
        """All of it is durable."""
        self._done()

    def fail(self, error: BaseException) -> None:
        """Log the failure; the shard is asked again when it is loaded anew."""
        log.warning("transactional producers are not fenced yet: %s", error)


def _open_in(unified: UnifiedLog) -> Iterator[OpenTransaction]:
    producers = unified.log.producer_state
    if producers.first_unstable_offset is not None:
        for first_offset, entry in producers.open_transactions():
            yield OpenTransaction(
                unified.topic_partition, entry.producer_id, entry.producer_epoch, first_offset, entry.last_timestamp_ms
            )


def add_hanging_figures(metrics: Metrics, hanging: HangingTransactions, clock: Clock) -> None:
    """Show how many transactions hang, and how many were ended."""
    found = FreshFigures(metrics, hanging.hanging, clock).get
    metrics.add_gauge(
        "stratalog_transactions_hanging",
        "Open transactions that their coordinator does not know and will never end.",
        lambda: [({}, float(len(found())))],
    )
    metrics.add_counter(
        "stratalog_transactions_hanging_ended",
        "Transactions that were ended after the disk went back in time, by outcome.",
        lambda: [({"outcome": name}, hanging.ended[name]) for name in ("aborted", "committed")],
    )
