"""Tasks beside the quorum's events."""

import asyncio

from stratalog.broker.quorum.beside import Beside


async def test_a_fault_is_heard_and_a_cancellation_is_none():
    """Each once; the others go on."""
    faults = []
    beside = Beside(faults.append)

    async def fails():
        raise ValueError("x")

    ended = asyncio.Event()

    async def goes_on():
        await asyncio.sleep(0.01)
        ended.set()

    beside(fails())
    beside(goes_on())
    await beside.wait()
    assert ended.is_set()
    assert [str(fault) for fault in faults] == ["x"]
    beside(asyncio.sleep(60))
    await asyncio.sleep(0)
    beside.cancel()
    await beside.wait()
    assert len(faults) == 1
