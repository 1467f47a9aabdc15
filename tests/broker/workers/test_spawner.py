"""Threads and processes beside an event loop: those of the system, and those of a spawner that the loop has."""

import asyncio
from types import SimpleNamespace

from stratalog.broker.workers.main import Start
from stratalog.broker.workers.spawner import SystemSpawner, spawner_of
from stratalog.broker.workers.workers import ProcessWorkers, ThreadWorkers

ECHO = Start("types:SimpleNamespace", {"execute": abs})


async def test_a_loop_without_a_spawner_has_that_of_the_system():
    """Its threads are threads: what they are given runs elsewhere and comes back."""
    spawner = spawner_of(asyncio.get_running_loop())
    assert isinstance(spawner, SystemSpawner)
    with spawner.threads(2, "test") as pool:
        assert pool.submit(abs, -3).result(10) == 3


def test_a_spawner_of_the_loop_is_used():
    """Virtual time needs threads that live in it."""
    spawner = object()
    assert spawner_of(SimpleNamespace(spawner=spawner)) is spawner


async def test_commands_go_to_a_process():
    """Workers are processes, started with the first command."""
    workers = spawner_of(asyncio.get_running_loop()).workers("test", ECHO)
    try:
        assert isinstance(workers, ProcessWorkers)
        assert workers.pid is None
    finally:
        await workers.close()


async def test_commands_for_a_store_in_memory_go_to_threads():
    """Another process would not see it."""
    start = Start("types:SimpleNamespace", {"execute": abs, "url": "memory:spawner"})
    workers = spawner_of(asyncio.get_running_loop()).workers("test", start)
    try:
        assert isinstance(workers, ThreadWorkers)
        assert await workers.submit(-4) == 4
    finally:
        await workers.close()


async def test_the_kernel_is_asked_where_it_can(tmp_path):
    """A queue of syncs that the caller closes, or None."""
    queue = spawner_of(asyncio.get_running_loop()).kernel_sync(str(tmp_path))
    if queue is not None:
        queue.close()
