import asyncio

from stratalog.broker.runtime.tick import Tick


async def turn():
    """Let the loop run what is due."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_deferred_calls_run_once_in_order_after_the_present_events():
    """Everything deferred in one turn runs together, later, and not again."""
    tick = Tick(asyncio.get_running_loop())
    calls = []
    tick.defer(lambda: calls.append("a"))
    tick.defer(lambda: calls.append("b"))
    assert calls == []
    await turn()
    assert calls == ["a", "b"]
    await turn()
    assert calls == ["a", "b"]


async def test_work_deferred_by_a_tick_runs_in_the_same_tick():
    """An append that answers and an answer that flushes need one tick, before any further event."""
    loop = asyncio.get_running_loop()
    tick = Tick(loop)
    calls = []

    def append():
        calls.append("append")
        loop.call_soon(calls.append, "next event")
        tick.defer(lambda: calls.append("flush"))

    tick.defer(append)
    await turn()
    await turn()
    assert calls == ["append", "flush", "next event"]


async def test_endless_deferring_does_not_stop_the_loop():
    """A callable that defers itself for ever shares the loop with everybody else."""
    loop = asyncio.get_running_loop()
    tick = Tick(loop)
    rounds = 0
    stop = False

    def again():
        nonlocal rounds
        rounds += 1
        if not stop:
            tick.defer(again)

    tick.defer(again)
    for _ in range(10):
        await asyncio.sleep(0)
    assert 10 < rounds < 1000
    stop = True
    await turn()


async def test_one_failure_does_not_take_the_others_with_it(caplog):
    """An exception is logged; the calls behind it run."""
    tick = Tick(asyncio.get_running_loop())
    calls = []
    tick.defer(lambda: 1 / 0)
    tick.defer(lambda: calls.append("b"))
    await turn()
    assert calls == ["b"]
    assert "ZeroDivisionError" in caplog.text
