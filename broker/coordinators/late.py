"""Transactions that are open in a partition for longer than any may be (KIP-664).

A coordinator ends each after its time-out, `transaction.max.timeout.ms` at most. One that is open five minutes longer hangs:
an unclean election took its marker, or its coordinator has lost its state. Readers of committed records wait in front of it, and nothing
will end it. The oldest of a partition is looked at, which is the one that holds them up.

Kafka's figure goes by the times of the records. They are of producers' clocks, and a producer that copies old records writes
old ones, so a line in the log has to be surer: this broker has led the partition for all that time, with the transaction open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Final

from msgspec import Struct

from stratalog.broker.replicas.partition_table import PartitionTable
from stratalog.broker.runtime.clock import Clock
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP, FreshFigures
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import Steps
from stratalog.hot.state.producer_snapshot import ProducerEntry
from stratalog.wire.topic import TopicPartition

__all__ = ["LOOK_SECONDS", "LateTransactions", "add_late_figures"]

LOOK_SECONDS: Final = 60.0
"""How often `LateTransactions.look` is to be called."""
_LATE_MS: Final = 300_000
"""A transaction is late so long after the longest time-out, as in Kafka."""

log = logging.getLogger(__name__)


class _Watched(Struct):
    """The oldest open transaction of a partition."""

    producer_id: int
    first_offset: int
    since: float
    """When it was first seen open here, in monotonic seconds."""
    is_late: bool = False


class LateTransactions:
    """Those of one broker, in the partitions that it leads."""

    def __init__(
        self, partitions: Callable[[], PartitionTable], timeout_max_ms: Callable[[], int], clock: Clock
    ) -> None:
        """``timeout_max_ms``: the longest time-out of a transaction, as it is set now."""
        self._partitions = partitions
        self._timeout_max_ms = timeout_max_ms
        self._clock = clock
        self._watched: dict[TopicPartition, _Watched] = {}

    def _oldest(self) -> Generator[tuple[TopicPartition, ProducerEntry] | None, None, None]:
        """The producer of the oldest open transaction in each led partition; None where a caller may pause."""
        for number, unified in enumerate(list(self._partitions())):
            if number % LOOKS_A_STEP == 0:
                yield None
            producers = unified.log.producer_state
            if producers.first_unstable_offset is not None and unified.partition.leader is not None:
                for _, entry in producers.open_transactions():
                    yield unified.topic_partition, entry
                    break

    def look(self) -> Steps[None]:
        """Watch what is open, and log each transaction once that has become late; in steps."""
        watched: dict[TopicPartition, _Watched] = {}
        late_seconds = (self._timeout_max_ms() + _LATE_MS) / 1000
        for found in self._oldest():
            if found is None:
                yield None
                continue
            partition, entry = found
            now, one = self._clock.monotonic(), self._watched.get(partition)
            place = entry.producer_id, entry.transaction_first_offset
            if one is None or place != (one.producer_id, one.first_offset):
                one = _Watched(*place, now)
            watched[partition] = one
            if not one.is_late and now - one.since > late_seconds:
                one.is_late = True
                _tell(partition, one, late_seconds)
        self._watched = watched

    def is_late(self, partition: TopicPartition, producer_id: int, first_offset: int) -> bool:
        """Whether the log has named this transaction."""
        one = self._watched.get(partition)
        return one is not None and one.is_late and (producer_id, first_offset) == (one.producer_id, one.first_offset)

    def partition_count(self) -> Generator[None, None, int]:
        """The led partitions with a late transaction, by the time of its producer's last batch, as Kafka counts them; in steps."""
        count, late_ms = 0, self._timeout_max_ms() + _LATE_MS
        for found in self._oldest():
            if found is None:
                yield
            else:
                last_ms = found[1].last_timestamp_ms
                count += last_ms > 0 and self._clock.wall_ms() - last_ms > late_ms
        return count


def _tell(partition: TopicPartition, one: _Watched, seconds: float) -> None:
    producer_id, offset = one.producer_id, one.first_offset
    log.warning(
        "%s: the transaction of producer %d from offset %d on is open for more than %d s, longer than its coordinator lets any be, "
        "and readers of committed records wait in front of it. Only if `stratalog transaction list --producer-id %d` names none that "
        "is open, abort it: stratalog transaction abort %s --partition %d --start-offset %d",
        partition, producer_id, offset, seconds, producer_id, partition.topic, partition.partition, offset,
    )  # fmt: skip


def add_late_figures(metrics: Metrics, late: LateTransactions, clock: Clock) -> None:
    """Show Kafka's figure."""
    count = FreshFigures(metrics, late.partition_count, clock).get
    metrics.add_gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount.",
        lambda: [({}, float(count()))],
    )
