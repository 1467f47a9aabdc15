"""Producer ids out of blocks."""

import asyncio

import pytest

from stratalog.broker.control.producer_ids import ProducerIds
from stratalog.wire.errors import ErrorCode, KafkaError


class Blocks:
    """Gives out blocks of 100 when the test lets it."""

    def __init__(self):
        self.open = asyncio.Event()
        self.open.set()
        self.asked = 0
        self.error = None
        self.next = 0

    async def allocate(self):
        self.asked += 1
        await self.open.wait()
        if self.error is not None:
            raise self.error
        first, self.next = self.next, self.next + 100
        return first, 100


@pytest.fixture
def blocks():
    return Blocks()


async def take(ids, count):
    """As many ids, for callers at once."""
    return await asyncio.gather(*[ids.next() for _ in range(count)])


async def test_ids_come_in_blocks_one_after_the_other(blocks):
    """A block is asked for when an id is wanted that the one before does not have."""
    ids = ProducerIds(blocks.allocate)
    assert await take(ids, 100) == list(range(100))
    assert blocks.asked == 1
    assert await take(ids, 101) == list(range(100, 201))
    assert blocks.asked == 3


async def test_the_next_block_is_asked_for_before_the_present_one_is_used_up(blocks):
    """With a tenth left: no id waits for the controller then."""
    ids = ProducerIds(blocks.allocate, asks_ahead=True)
    await take(ids, 89)
    await asyncio.sleep(0)
    assert blocks.asked == 1
    blocks.open.clear()
    await take(ids, 1)
    await asyncio.sleep(0)
    assert blocks.asked == 2
    assert await asyncio.wait_for(take(ids, 10), 1) == list(range(90, 100))
    assert blocks.asked == 2
    late = asyncio.ensure_future(ids.next())
    await asyncio.sleep(0)
    assert not late.done()
    blocks.open.set()
    assert await late == 100


async def test_a_block_that_fails_ahead_is_asked_for_again(blocks):
    """The failure belongs to no caller; one that has to wait for a block hears of its failure."""
    ids = ProducerIds(blocks.allocate, asks_ahead=True)
    await take(ids, 89)
    blocks.error = KafkaError(ErrorCode.NOT_CONTROLLER)
    await take(ids, 11)
    await asyncio.sleep(0)
    assert blocks.asked == 2
    with pytest.raises(KafkaError):
        await ids.next()
    blocks.error = None
    assert await ids.next() == 100


async def test_a_cancelled_caller_leaves_its_block_to_the_next(blocks):
    """No block is asked for twice."""
    ids = ProducerIds(blocks.allocate)
    blocks.open.clear()
    first, second = asyncio.ensure_future(ids.next()), asyncio.ensure_future(ids.next())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    blocks.open.set()
    assert await second == 0
    assert blocks.asked == 1


@pytest.mark.parametrize(("first", "expected"), [(3, 90), (140, 140), (500, 500)])
async def test_no_id_below_an_era_is_given_out(blocks, first, expected):
    """Neither of the present block nor of the one that is under way."""
    ids = ProducerIds(blocks.allocate, asks_ahead=True)
    await take(ids, 90)
    await asyncio.sleep(0)
    ids.skip_to(first)
    assert await ids.next() == expected
    ids.skip_to(1)
    assert await ids.next() == expected + 1


async def test_a_new_era_is_a_block_that_is_allocated_just_now(blocks):
    """The rest of the block before is given out no more, and neither is one that was asked for already."""
    ids = ProducerIds(blocks.allocate, asks_ahead=True)
    assert ids.floor == 0
    await take(ids, 95)
    await asyncio.sleep(0)
    blocks.next = 1000
    await ids.renew()
    assert ids.floor == 1000
    assert await take(ids, 101) == [*range(1000, 1101)]


async def test_a_new_era_that_the_controller_refuses_changes_nothing(blocks):
    """It is asked for again."""
    ids = ProducerIds(blocks.allocate)
    await take(ids, 3)
    blocks.error = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with pytest.raises(KafkaError):
        await ids.renew()
    assert (await ids.next(), ids.floor) == (3, 0)
