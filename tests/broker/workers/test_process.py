"""A worker process that is given up, or that does not end when it is asked to."""

import asyncio
import os
import signal

from stratalog.broker.workers import process as worker_process
from stratalog.broker.workers.process import WorkerProcess


def started(deaths):
    loop = asyncio.get_running_loop()
    return WorkerProcess(loop, "test", lambda _: None, deaths.append)


async def test_one_that_is_given_up_is_killed_and_heard_of_once():
    """Also while it is stopped; its death is not that of a worker in use."""
    deaths, ended = [], asyncio.Event()
    process = started(deaths)
    os.kill(process.pid, signal.SIGSTOP)
    process.give_up(ended.set)
    await asyncio.wait_for(ended.wait(), 10)
    assert deaths == []


async def test_the_end_is_not_waited_for_without_end(monkeypatch, caplog):
    """A process whom the kernel does not let end would hold up a stop of the broker for ever."""
    process = started([])
    with monkeypatch.context() as patched:
        patched.setattr(process._process, "kill", lambda: None)
        os.kill(process.pid, signal.SIGSTOP)
        await process.end(seconds=0.05)
    assert f"worker process {process.pid} was killed and has not ended" in caplog.text
    process._process.kill()
    process._process.wait()


def test_commands_to_a_stopped_process_are_forgotten_with_it():
    """No part of the command is kept."""

    async def run():
        deaths, ended = [], asyncio.Event()
        process = started(deaths)
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(10):
            process.send(1, worker_process.Kind.COMMAND, b"x" * (1 << 20))
        assert process._unsent
        process.give_up(ended.set)
        assert not process._unsent
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(run())
