"""Reading a coordinator's log: everything in order, and nothing but what was written."""

import asyncio

import pytest

from stratalog.broker.coordinators.log_loader import load_log
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt


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
