"""Tests of broker/coordinators/hanging.py: when producers are retired, in which order logs are judged, what is reported."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators import hanging
from stratalog.broker.coordinators.hanging import HangingTransactions
from stratalog.broker.runtime.slices import to_the_end
from stratalog.hot.state.producer_state import EndMarker, ProducerStateManager
from stratalog.metadata.transactions.events import Retire, TransactionSettings
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.status import TransactionStatus as Status
from stratalog.metadata.transactions.transaction import Transaction
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition

TOPIC = "__transaction_state"
AT_MS = 1_700_000_000_000


class Partition(SimpleNamespace):
    """A partition with producers, as far as it is looked at."""

    __hash__ = object.__hash__


class Bench:
    """A coordinator of two shards, partitions ``t-0`` and ``t-1``, and markers that are written when the test says."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(hanging, "_LOOK_SECONDS", 0)
        self.asked, self.writes = [], []
        self.shards = [self.shard(0), self.shard(1)]
        self.parts = [self.part(0), self.part(1)]
        by_name = {TOPIC: SimpleNamespace(partitions={0: None, 1: None})}
        self.image = SimpleNamespace(topics=SimpleNamespace(by_name=by_name))
        self.coordinator = SimpleNamespace(
            host=SimpleNamespace(topic=TOPIC),
            drivers=lambda: self.shards,
            markers=SimpleNamespace(write=lambda *one: self.writes.append(one)),
        )
        self.made = HangingTransactions(self.coordinator, lambda: self.parts, lambda: self.image)
        self.judged = []

    def shard(self, number):
        return SimpleNamespace(
            partition_number=number,
            shard=TransactionShard(TransactionSettings()),
            ask=lambda event: self.asked.append((number, event)),
        )

    @staticmethod
    def part(number):
        log = SimpleNamespace(log_end_offset=100, producer_state=ProducerStateManager())
        return Partition(topic_partition=TopicPartition("t", number), log=log)

    def write(self, number, producer_id, first=0, epoch=3):
        """A transaction begins."""
        self.parts[number].log.producer_state.apply_batch(
            producer_id, epoch, 0, base_offset=first, last_offset=first, timestamp_ms=AT_MS, transactional=True
        )

    def mark(self, index=0, error=None):
        """The marker is written, or refused."""
        partition, marker, done = self.writes.pop(index)
        if error is None:
            end = EndMarker(*marker.producer, max(marker.coordinator_epoch, 0), 0, marker.commit)
            self.parts[partition.partition].log.producer_state.apply_marker(end, 50)
        done(error)

    def know(self, producer_id, status, epoch=3, partitions=()):
        made = Transaction(
            transactional_id=f"x{producer_id}",
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=1,
            status=status,
            partitions={TopicPartition("t", number) for number in partitions},
            last_update_ms=0,
            client_version=2,
        )
        self.shards[0].shard.transactions[made.transactional_id] = made
        return made

    async def judge(self, *numbers):
        for number in numbers:
            self.made.judge(self.parts[number], lambda number=number: self.judged.append(number))
        await self.pause()

    async def pause(self):
        for _ in range(10):
            await asyncio.sleep(0.001)


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


async def test_a_transaction_of_an_unknown_producer_is_aborted(bench):
    """Under the next epoch, so that the producer cannot begin it again; then the log has been judged."""
    bench.write(0, 7, first=9)
    await bench.judge(0)
    ((partition, marker, _),) = bench.writes
    assert (partition, marker.commit, marker.producer) == (TopicPartition("t", 0), False, (7, 4))
    assert bench.judged == []
    bench.mark()
    await bench.pause()
    assert (bench.judged, bench.made.ended) == ([0], {"aborted": 1})


async def test_a_transaction_that_its_coordinator_committed_is_committed(bench):
    """The marker is lost here only."""
    bench.know(7, Status.COMPLETE_COMMIT, epoch=4)
    bench.write(0, 7)
    await bench.judge(0)
    bench.mark()
    assert bench.made.ended == {"committed": 1}


async def test_a_transaction_in_two_logs_is_aborted_in_both(bench):
    """The marker in the first one is no sign of another end, also for a log that is judged later."""
    for number in (0, 1):
        bench.write(number, 7)
    await bench.judge(0)
    bench.mark()
    await bench.judge(1)
    bench.mark()
    await bench.pause()
    assert (bench.judged, bench.made.ended) == ([0, 1], {"aborted": 2})


async def test_a_transaction_that_another_log_shows_as_ended_stays_open_and_is_reported(bench):
    """The report has the command that ends it."""
    bench.write(0, 7, first=9)
    bench.write(1, 7)
    bench.parts[1].log.producer_state.apply_marker(EndMarker(7, 4, 0, 0, True), 50)
    await bench.judge(0)
    assert (bench.writes, bench.judged) == ([], [0])
    (sentence,) = to_the_end(bench.made.problems())
    assert "stratalog transaction abort t --partition 0 --start-offset 9" in sentence


async def test_a_transaction_that_the_coordinator_ends_is_waited_for(bench):
    """It is no problem either."""
    bench.know(7, Status.ONGOING, partitions=[0])
    bench.write(0, 7)
    await bench.judge(0)
    assert (bench.writes, bench.judged, to_the_end(bench.made.problems())) == ([], [], [])
    bench.parts[0].log.producer_state.apply_marker(EndMarker(7, 3, 0, 0, False), 50)
    await bench.pause()
    assert bench.judged == [0]


async def test_a_transaction_that_began_after_the_comparison_is_not_judged(bench):
    """It is of the present time."""
    bench.write(0, 7, first=100)
    await bench.judge(0)
    assert (bench.writes, bench.judged) == ([], [0])


async def test_a_marker_that_is_refused_is_tried_again(bench):
    """A directory may be full; a newer epoch is the end of another marker."""
    bench.write(0, 7)
    await bench.judge(0)
    bench.mark(error=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert bench.made.ended == {}
    await bench.pause()
    bench.mark()
    await bench.pause()
    assert (bench.judged, bench.made.ended) == ([0], {"aborted": 1})


async def test_judging_waits_while_part_of_the_coordinators_log_is_not_read(bench):
    """It may know the producer."""
    missing = bench.shards.pop()
    bench.write(0, 7)
    await bench.judge(0)
    assert (bench.writes, bench.judged, to_the_end(bench.made.problems())) == ([], [], [])
    bench.shards.append(missing)
    await bench.pause()
    assert len(bench.writes) == 1


async def test_judging_waits_until_producers_are_retired(bench):
    """One that goes on would change what is known; a shard that was loaded anew is asked again."""
    bench.made.retire_producers()
    assert [(number, type(event)) for number, event in bench.asked] == [(0, Retire), (1, Retire)]
    bench.write(0, 7)
    await bench.judge(0)
    assert bench.writes == []
    for _, event in bench.asked[:1]:
        event.token.respond(event.done)
    bench.asked[1][1].token.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    await bench.pause()
    assert bench.writes == []
    bench.coordinator.on_active(bench.shards[0])
    bench.coordinator.on_active(bench.shards[1])
    (number, event) = bench.asked[-1]
    assert (number, len(bench.asked)) == (1, 3)
    event.token.respond(event.done)
    await bench.pause()
    assert len(bench.writes) == 1


async def test_a_log_that_is_led_no_longer_is_forgotten(bench):
    """Another broker judges it."""
    bench.write(0, 7)
    one = bench.parts.pop(0)
    bench.made.judge(one, lambda: bench.judged.append(one))
    await bench.pause()
    assert (bench.writes, bench.judged) == ([], [])


async def test_an_unknown_producer_of_a_time_that_the_coordinators_log_covers_is_reported(bench):
    """As it was found at the start: what it learns later says nothing of that time."""
    known = bench.know(8, Status.COMPLETE_COMMIT)
    known.last_update_ms = AT_MS
    for shard in bench.shards:
        bench.coordinator.on_active(shard)
    bench.write(0, 7)
    await bench.judge(0)
    assert (bench.writes, bench.judged) == ([], [0])
    assert len(to_the_end(bench.made.hanging())) == 1


async def test_reports_come_by_partition_and_offset_also_if_logs_were_opened_in_another_order(bench):
    """Two logs, opened last first, with an open transaction each."""
    known = bench.know(8, Status.COMPLETE_COMMIT)
    known.last_update_ms = AT_MS
    for shard in bench.shards:
        bench.coordinator.on_active(shard)
    bench.parts.reverse()
    for part in (0, 1):
        bench.write(part, 7 + 2 * part)
    assert [one.partition for one in to_the_end(bench.made.hanging())] == [
        TopicPartition("t", 0),
        TopicPartition("t", 1),
    ]


@pytest.fixture
def several(bench):
    """Another broker leads partition 1 of the coordinator's topic."""
    del bench.shards[1]
    bench.coordinator.host = type("Host", (list,), {"topic": TOPIC})(bench.shards)
    bench.made = HangingTransactions(bench.coordinator, lambda: bench.parts, lambda: bench.image, alone=False)
    return bench


async def test_a_transaction_that_another_broker_may_coordinate_is_not_ended(several, caplog):
    """Not even where nothing here knows of an end; it is reported until it ends."""
    several.write(0, 7)
    several.write(1, 8)
    await several.judge(0)
    assert (several.writes, several.judged) == ([], [0])
    assert "this broker's coordinator does not know the open transaction of producer 7" in caplog.text
    assert "Only if `stratalog transaction list --producer-id 7` names none that is open, abort it" in caplog.text
    assert [one.producer_id for one in to_the_end(several.made.hanging())] == [7]


async def test_a_late_transaction_is_reported_whichever_broker_coordinates_it(several):
    """No other one has ended it in time: an unclean election may have dropped its marker."""
    late = set()
    several.made._is_late = lambda *place: place in late
    several.write(0, 7, first=9)
    assert to_the_end(several.made.problems()) == []
    late.add((TopicPartition("t", 0), 7, 9))
    (sentence,) = to_the_end(several.made.problems())
    assert "stratalog transaction abort t --partition 0 --start-offset 9" in sentence


async def test_the_word_of_the_coordinator_here_holds_in_a_cluster_too(several):
    """A committed transaction is committed; one that it does not end may have ended before, in another broker's partition."""
    several.know(7, Status.COMPLETE_COMMIT, epoch=4)
    several.know(8, Status.EMPTY, epoch=3)
    several.write(0, 7)
    several.write(1, 8)
    await several.judge(0, 1)
    ((partition, marker, _),) = several.writes
    assert (partition, marker.commit) == (TopicPartition("t", 0), True)
    assert several.judged == [1]


async def test_a_broker_of_several_retires_the_producers_that_it_coordinates(several):
    """The logs of others did not go back."""
    several.made.retire_producers()
    assert [number for number, _ in several.asked] == [0]
    several.asked[0][1].token.respond(None)
    several.write(0, 7)
    await several.judge(0)
    assert several.judged == [0]
