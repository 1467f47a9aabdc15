"""Tests of broker/coordinators/late.py: which transactions are late, and what is said of them."""

from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators.late import LateTransactions, add_late_figures
from stratalog.broker.runtime.fresh_figures import LOOKS_A_STEP
from stratalog.broker.runtime.metrics import Metrics
from stratalog.broker.runtime.slices import to_the_end
from stratalog.hot.state.producer_state import EndMarker, ProducerStateManager
from stratalog.wire.topic import TopicPartition

AT_MS = 1_700_000_000_000
FIGURE = "kafka_server_replicamanager_partitionswithlatetransactionscount"


class Bench:
    """Partitions ``t-0`` and ``t-1`` that are led here, a longest time-out of 15 min, and a clock."""

    def __init__(self):
        self.minutes = 0.0
        self.clock = SimpleNamespace(
            monotonic=lambda: self.minutes * 60, wall_ms=lambda: AT_MS + int(self.minutes * 60_000)
        )
        self.parts = [self.part(0), self.part(1)]
        self.late = LateTransactions(lambda: self.parts, lambda: 900_000, self.clock)

    @staticmethod
    def part(number):
        log = SimpleNamespace(producer_state=ProducerStateManager())
        return SimpleNamespace(
            topic_partition=TopicPartition("t", number), log=log, partition=SimpleNamespace(leader="led")
        )

    def write(self, number, producer_id, first=0, timestamp_ms=AT_MS):
        """A transaction begins, or goes on."""
        self.parts[number].log.producer_state.apply_batch(
            producer_id, 3, first, base_offset=first, last_offset=first, timestamp_ms=timestamp_ms, transactional=True
        )

    def end(self, number, producer_id, offset):
        state = self.parts[number].log.producer_state
        state.apply_marker(EndMarker(producer_id, 3, 0, AT_MS, True), offset)
        state.on_high_watermark(offset + 1)

    def look(self, minutes):
        """Look again, so many minutes later."""
        self.minutes += minutes
        to_the_end(self.late.look())


@pytest.fixture
def bench():
    return Bench()


def test_a_transaction_that_is_open_for_too_long_is_named_once(bench, caplog):
    """With its place and the way out; the next one of the partition is another matter."""
    bench.write(0, 7, first=9)
    bench.write(0, 8, first=10)
    for minutes in (0, 20, 0.1, 5):
        bench.look(minutes)
    (line,) = caplog.messages
    assert line.startswith("t-0: the transaction of producer 7 from offset 9 on is open for more than 1200 s")
    assert "`stratalog transaction list --producer-id 7`" in line
    assert line.endswith("stratalog transaction abort t --partition 0 --start-offset 9")
    assert bench.late.is_late(TopicPartition("t", 0), 7, 9)
    bench.end(0, 7, 11)
    bench.look(1)
    assert not bench.late.is_late(TopicPartition("t", 0), 7, 9)
    assert not bench.late.is_late(TopicPartition("t", 0), 8, 10)
    bench.look(20.1)
    assert "producer 8 from offset 10" in caplog.messages[-1]
    assert len(caplog.messages) == 2


def test_transactions_one_after_the_other_are_not_late(bench, caplog):
    """One producer has one open at each look, in the same partition."""
    for first in range(0, 40, 2):
        bench.write(0, 7, first=first)
        bench.look(5)
        bench.end(0, 7, first + 1)
    assert caplog.messages == []


def test_a_transaction_that_another_broker_leads_is_not_named(bench, caplog):
    """Its leader names it; one that leads again watches anew, for it may have missed an end."""
    bench.write(0, 7)
    bench.look(0)
    bench.parts[0].partition.leader = None
    bench.look(21)
    bench.parts[0].partition.leader = "led"
    bench.look(1)
    assert caplog.messages == []
    bench.look(20.1)
    assert len(caplog.messages) == 1


def test_partitions_with_late_transactions_are_counted_by_the_times_of_their_records(bench):
    """As in Kafka: at once, by the oldest transaction of each partition that is led."""
    metrics = Metrics()
    add_late_figures(metrics, bench.late, bench.clock)

    def scrape(minutes):
        bench.minutes = minutes
        lines = metrics.render().decode().splitlines()
        return [float(line.split()[1]) for line in lines if line.startswith(FIGURE)]

    bench.write(0, 7)
    bench.write(0, 8, first=1)
    bench.write(1, 9, timestamp_ms=AT_MS + 60_000)
    assert [scrape(minutes) for minutes in (20, 20.1, 21.1)] == [[0], [1], [2]]
    bench.parts[0].partition.leader = None
    assert scrape(22) == [1]


def test_a_look_at_many_partitions_pauses(bench):
    """It would hold the loop."""
    bench.parts = [bench.part(number) for number in range(3 * LOOKS_A_STEP)]
    assert sum(1 for _ in bench.late.look()) == 3
    assert sum(1 for _ in bench.late.partition_count()) == 3
