"""Reading a coordinator's log: everything in order, and nothing but what was written."""

import asyncio
import errno

import pytest

from stratalog.broker.coordinators.driver_state import DriverState
from stratalog.broker.coordinators.log_loader import load_log, until_loadable
from stratalog.broker.coordinators.shard_driver import ShardDriver
from stratalog.broker.replicas.partition import Partition
from stratalog.broker.runtime.clock import SystemClock
from stratalog.hot.segments.segment import Segment
from stratalog.metadata.coordination import Producer
from stratalog.metadata.transactions.events import SendMarkers, TransactionSettings
from stratalog.metadata.transactions.shard import TransactionShard
from stratalog.metadata.transactions.transaction import Transaction
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.topic import TopicPartition


async def appended(rig, *batches) -> None:
    """Batches in the log, committed."""
    done = []
    for batch in batches:
        rig.partition.leader.append_as_leader(batch, done.append)
    await rig.until(lambda: len(done) == len(batches))


class Listing:
    """A shard that notes what it is given."""

    def __init__(self) -> None:
        self.seen = []

    def replay(self, key, value, *, offset, producer) -> None:
        self.seen.append((offset, key, value, producer))

    def replay_marker(self, producer, *, commit, offset) -> None:
        self.seen.append((offset, producer, commit))


@pytest.mark.parametrize("codec", list(Codec))
async def test_records_come_in_order_with_offsets_and_transactions(rig, codec):
    """From batches of every codec; tombstones have no value."""
    producer = Producer(5, 1)
    plain = [Record(at, 1, b"k%d" % at, b"v" if at % 2 else None) for at in range(200)]
    await appended(
        rig,
        build_batch(plain, codec=codec),
        build_batch([Record(0, 1, b"t", b"x")], codec=codec, producer_id=5, producer_epoch=1, transactional=True),
    )
    shard = Listing()
    count = await load_log(rig.partition.log, shard, lambda: 0.0)
    assert count == 201
    assert shard.seen == [
        *[(at, b"k%d" % at, b"v" if at % 2 else None, None) for at in range(200)],
        (200, b"t", b"x", producer),
    ]


async def test_the_loop_has_its_turns_while_a_log_is_read(rig):
    """A batch of many records is left again and again for others."""
    await appended(rig, build_batch([Record(at, 1, b"k", b"v") for at in range(1000)]))
    clock = iter(range(1_000_000))
    shard = Listing()
    others = []

    async def other() -> None:
        while True:
            others.append(len(shard.seen))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await load_log(rig.partition.log, shard, lambda: next(clock))
    task.cancel()
    assert len({seen for seen in others if 0 < seen < 1000}) >= 10


async def test_a_record_without_a_key_is_damage(rig):
    """The message says where."""
    await appended(rig, build_batch([Record(0, 1, None, b"v")]))
    with pytest.raises(Corrupt, match="offset 0 has no key"):
        await load_log(rig.partition.log, Listing(), lambda: 0.0)


async def held_follower(rig) -> None:
    """The partition followed another broker: one record is in the file, one is queued and held. It leads again."""
    await appended(rig, build_batch([Record(0, 1, b"k", b"written")]))
    partition = rig.partition
    partition.directory.hold(partition)
    partition.follow(1, 4)
    queued = build_batch([Record(1, 1, b"k", b"queued")], leader_epoch=4)
    partition.log.append_as_follower(memoryview(queued), leader_epoch=4, now_ms=1)
    partition.directory.enqueue(partition)
    partition.lead(0, 5, replicas=[0], in_sync=[0])
    assert (partition.log.written_offset, partition.log.log_end_offset) == (1, 2)


async def test_a_log_whose_writes_are_held_is_no_damage(rig):
    """A move between directories holds what a follower has copied; its load waits for the file."""
    await held_follower(rig)
    rig.driver.load()
    await asyncio.sleep(0.05)
    assert (rig.driver.state, rig.driver.failure) == (DriverState.LOADING, None)
    rig.partition.directory.let_go(rig.partition)
    await rig.until(lambda: rig.driver.active)
    assert rig.driver.shard.values == {b"k": b"queued"}


@pytest.mark.parametrize("ended_by", ["close", "resign"])
async def test_a_load_that_waits_ends_with_the_leadership(rig, ended_by):
    """Its task is over, its partition has no watcher of it left."""
    await held_follower(rig)
    rig.driver.load()
    await asyncio.sleep(0.01)
    assert rig.partition.end_watchers
    if ended_by == "close":
        rig.driver.close()
    else:
        rig.partition.resign()
    await rig.until(rig.driver._loading.done)
    assert not rig.partition.end_watchers
    assert not rig.driver.active


async def test_a_load_ends_where_what_was_queued_found_no_room(rig, monkeypatch):
    """A full disk takes the log back to the end of its file, and the load reads up to there."""
    await held_follower(rig)
    rig.driver.load()
    await asyncio.sleep(0.01)

    def full(_segment) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Segment, "write_pending", full)
    rig.partition.directory.let_go(rig.partition)
    await rig.until(lambda: rig.driver.active)
    assert rig.driver.shard.values == {b"k": b"written"}


async def test_a_load_does_not_wait_for_a_directory_that_has_failed(rig):
    """It writes no more: the failure is said, and the load tried again until the leadership ends."""
    await held_follower(rig)
    rig.driver.load()
    await asyncio.sleep(0.01)
    rig.partition.directory.fail(OSError(errno.EIO, "Input/output error"))
    await rig.until(lambda: rig.driver.failure)
    assert rig.driver.state is DriverState.LOADING
    assert "keys-0 cannot be written from offset 1 on" in rig.driver.failure


async def new_leader(rig, *batches: bytes) -> None:
    """The broker has copied two batches, the first one is committed. It leads now, beside broker 1, which has not the second."""
    await appended(rig, *batches)
    rig.partition.close()
    before = rig.partition
    rig.partition = Partition(
        before.log, directory=before.directory, high_watermark=1, clock=SystemClock(), rework=lambda *_: None
    )
    rig.partition.follow(1, 4)
    rig.partition.lead(0, 5, replicas=[0, 1], in_sync=[0, 1])
    rig.unified.partition = rig.partition
    assert (rig.partition.high_watermark, rig.partition.log.log_end_offset) == (1, 2)


def fetched(rig, offset: int) -> None:
    """Broker 1 has everything below ``offset``."""
    rig.partition.leader.follower_fetched(1, offset, log_start_offset=0, broker_epoch=1)


async def test_a_shard_takes_events_when_what_it_has_loaded_is_committed(rig, events):
    """The next leader may lack what is above the mark: until then requests have to come again, and no answer is given."""
    await new_leader(rig, *[build_batch([Record(0, 1, b"k", value)]) for value in (b"old", b"new")])
    rig.driver.load()
    await asyncio.sleep(0.01)
    fetched(rig, 1)
    await asyncio.sleep(0.01)
    token = events.Token()
    with pytest.raises(KafkaError) as caught:
        rig.driver.ask(events.Get(token, durable=True))
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fetched(rig, 2)
    await rig.until(lambda: rig.driver.active)
    rig.driver.ask(events.Get(token, durable=True))
    assert token.answers == [{b"k": b"new"}]
    assert not rig.partition.end_watchers


async def test_a_smaller_in_sync_set_ends_the_wait_too(rig):
    """A follower that is gone holds the coordinator up no longer than it holds up writes."""
    await new_leader(rig, *[build_batch([Record(0, 1, b"k", value)]) for value in (b"old", b"new")])
    rig.driver.load()
    await asyncio.sleep(0.01)
    assert not rig.driver.active
    rig.partition.leader.in_sync_changed([0], 1)
    await rig.until(lambda: rig.driver.active)
    assert rig.driver.shard.values == {b"k": b"new"}


async def test_a_wait_holds_up_no_other_load(rig):
    """Logs are read one after the other; one that is not committed yet is not read, and lets the others pass."""
    await new_leader(rig, *[build_batch([Record(0, 1, b"k", value)]) for value in (b"old", b"new")])
    rig.driver.load()
    await asyncio.sleep(0.01)
    assert not rig.driver._reading.locked()


async def test_no_turn_is_lost_where_all_is_committed(rig):
    """With one replica a load begins at once."""
    await appended(rig, build_batch([Record(0, 1, b"k", b"v")]))
    waiting = until_loadable(rig.partition, rig.partition.leader)
    with pytest.raises(StopIteration) as ended:
        waiting.send(None)
    assert ended.value.value is True


async def test_no_marker_is_sent_before_the_decision_is_committed(rig):
    """PrepareCommit above the mark: the next leader may not have it, and abort what is committed here and there."""
    one = Transaction(transactional_id="x", producer_id=7, producer_epoch=0, timeout_ms=60_000, last_update_ms=1)
    one.add([TopicPartition("t", 0)], 2, 1)
    one.start_ms = SystemClock().wall_ms()
    ongoing = one.record()
    one.decide(commit=True, client_version=2, fence=False, fresh_id=None, now_ms=2)
    records = [Record(0, 1, record.key, record.value) for record in (ongoing, one.record())]
    await new_leader(rig, *[build_batch([record]) for record in records])
    services = rig.driver._services
    shard = TransactionShard(TransactionSettings())
    rig.driver = ShardDriver(rig.unified, lambda _: shard, services, asyncio.Semaphore(1))
    rig.driver.load()
    await asyncio.sleep(0.05)
    assert rig.performed == []
    fetched(rig, 2)
    await rig.until(lambda: rig.driver.active)
    (sent,) = rig.performed
    assert isinstance(sent, SendMarkers)
    assert sent.commit
