import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from stratalog.broker.workers import workers as workers_module
from stratalog.broker.workers.channel import WorkerError
from stratalog.broker.workers.main import Start
from stratalog.broker.workers.process import WorkerProcess
from stratalog.broker.workers.workers import GIVEN_UP_MAX, ProcessWorkers, ThreadWorkers, WorkerLost
from stratalog.wire.errors import Invalid, Retriable

TARGET = """
import os, time
from stratalog.wire.errors import Invalid

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")

class Target:
    def __init__(self, greeting="hello"):
        if greeting == "refuse":
            raise Invalid("no such greeting")
        self.greeting = greeting
        self.made_at = os.nice(0)
        self.on_progress = bool

    def execute(self, command):
        verb, value = command
        if verb == "greet":
            return f"{self.greeting} {value} from {os.getpid()}"
        if verb == "sleep":
            time.sleep(value)
            return value
        if verb == "crawl":
            for _ in range(value):
                time.sleep(0.2)
                self.on_progress()
            return value
        if verb == "fail":
            raise Invalid(value)
        if verb == "odd":
            raise Odd(1, 2)
        if verb == "lambda":
            return lambda: value
        if verb == "large":
            return b"x" * value
        if verb == "exit":
            os._exit(value)
        if verb == "nice":
            return os.nice(0)
        if verb == "made at":
            return self.made_at
"""


@pytest.fixture
def target_path(tmp_path, monkeypatch):
    """A module ``worker_target`` that child processes can import."""
    (tmp_path / "worker_target.py").write_text(TARGET)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "worker_target:Target"


@pytest.fixture
async def process(target_path):
    """Workers in a process, not yet started."""
    workers = ProcessWorkers(asyncio.get_running_loop(), "test", Start(target_path, {"greeting": "hi"}, niceness=3))
    yield workers
    await workers.close()


@pytest.fixture
async def threads(target_path):
    """Workers in threads."""
    import worker_target

    workers = ThreadWorkers(asyncio.get_running_loop(), worker_target.Target("hi"))
    yield workers
    await workers.close()


@pytest.fixture(params=["process", "threads"])
def workers(request):
    """Both kinds, one after the other."""
    return request.getfixturevalue(request.param)


async def test_reports_and_errors_come_back_by_future_and_by_callback(workers):
    """Both styles of submit deliver the report, or the exception with its type and text."""
    assert (await workers.submit(("greet", "you"))).startswith("hi you from ")
    with pytest.raises(Invalid, match="not this"):
        await workers.submit(("fail", "not this"))
    results = []
    done = asyncio.Event()

    def on_done(report, error):
        results.append((report, error))
        if len(results) == 2:
            done.set()

    assert workers.submit(("sleep", 0.01), on_done) is None
    workers.submit(("fail", "again"), on_done)
    await done.wait()
    assert sorted(str(error) for _, error in results) == ["None", "again"]
    assert workers.outstanding == 0


async def test_commands_run_side_by_side(workers):
    """A short command is answered while a long one runs."""
    long = workers.submit(("sleep", 0.5))
    await workers.submit(("sleep", 0))
    assert not long.done()
    long.cancel()


async def test_answers_without_a_caller_are_dropped(workers):
    """The answer to a cancelled command changes nothing but a counter."""
    future = workers.submit(("sleep", 0.05))
    await asyncio.sleep(0)
    future.cancel()
    while not workers.late_answers:
        await workers.submit(("sleep", 0.01))
    assert workers.outstanding == 0


async def test_close_fails_outstanding_commands_and_refuses_more(workers):
    """After close, waiting commands have failed with a retriable error, and so does every new one."""
    future = workers.submit(("sleep", 0.2))
    await workers.close()
    with pytest.raises(WorkerLost):
        await future
    with pytest.raises(Retriable):
        workers.submit(("sleep", 0))


async def test_the_process_starts_on_demand_and_is_another_one(process):
    """No process before the first command; then one, with its niceness, for all of them."""
    assert process.pid is None
    report = await process.submit(("greet", "you"))
    assert report == f"hi you from {process.pid}"
    assert process.pid != os.getpid()
    assert await process.submit(("nice", None)) == os.nice(0) + 3
    assert process.starts == 1


async def test_a_target_is_loaded_before_its_process_gives_way(process):
    """Imports at a low priority take a minute beside busy processes: nothing was archived or read from the bucket before."""
    assert await process.submit(("made at", None)) == os.nice(0)


async def test_large_messages_pass_in_both_directions(process):
    """Commands and reports larger than a socket buffer arrive whole."""
    report = await process.submit(("large", 3 << 20))
    assert len(report) == 3 << 20
    assert (await process.submit(("greet", "y" * (3 << 20)))).startswith("hi yyy")


async def test_exceptions_that_do_not_survive_pickling_keep_their_text(process):
    """An exception that cannot be loaded here arrives as a WorkerError; so does a report that cannot be pickled."""
    with pytest.raises(WorkerError, match="Odd: 1 2"):
        await process.submit(("odd", None))
    with pytest.raises(Exception, match="lambda"):
        await process.submit(("lambda", 1))


async def test_a_command_that_cannot_be_pickled_is_the_callers_error(process):
    """Submitting it raises at once, and the worker goes on."""
    with pytest.raises(Exception, match="lambda"):
        process.submit(("greet", lambda: 1))
    assert await process.submit(("sleep", 0)) == 0
    assert process.outstanding == 0


async def test_a_cancelled_command_is_forgotten_with_its_process(process):
    """No answer comes for it any more: its bytes were kept, and the oldest command grew old without end."""
    await process.submit(("sleep", 0))
    cancelled, other = process.submit(("sleep", 5)), process.submit(("sleep", 5))
    cancelled.cancel()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        await other
    assert process.state.oldest_command_seconds == 0


async def test_a_killed_process_fails_its_commands_and_is_replaced(process):
    """Death of the worker is a retriable error for all that was under way; the next command finds a new process."""
    await process.submit(("sleep", 0))
    first = process.pid
    futures = [process.submit(("sleep", 5)) for _ in range(3)]
    os.kill(first, signal.SIGKILL)
    for future in futures:
        with pytest.raises(WorkerLost, match="status -9"):
            await future
    assert (await process.submit(("greet", "you"))).startswith("hi you")
    assert process.pid != first
    assert process.starts == 2


async def test_restarts_back_off(process, monkeypatch):
    """A process that dies again and again is started less and less often; an answer resets the delay."""
    monkeypatch.setattr(workers_module, "BACKOFF_SECONDS_MIN", 0.001)
    delays = []
    loop = process._loop
    call_later = loop.call_later

    def record(delay, callback, *rest):
        if callback == process._may_restart:
            delays.append(round(delay * 1000))
        return call_later(delay, callback, *rest)

    monkeypatch.setattr(loop, "call_later", record)
    for _ in range(3):
        with pytest.raises(WorkerLost):
            await process.submit(("exit", 7))
    assert await process.submit(("sleep", 0)) == 0
    with pytest.raises(WorkerLost, match="status 7"):
        await process.submit(("exit", 7))
    assert delays == [1, 2, 4, 1]


async def test_a_target_that_cannot_be_made_answers_every_command_with_the_reason(target_path):
    """Wrong options are reported to the caller, not only to the log of a child."""
    workers = ProcessWorkers(asyncio.get_running_loop(), "test", Start(target_path, {"greeting": "refuse"}))
    try:
        for _ in range(2):
            with pytest.raises(Invalid, match="no such greeting"):
                await workers.submit(("sleep", 0))
    finally:
        await workers.close()


async def test_a_process_may_be_started_before_its_first_command(process):
    """Once; a closed one stays closed."""
    process.begin()
    pid = process.pid
    process.begin()
    await process.submit(("sleep", 0))
    assert (process.pid, process.starts) == (pid, 1)
    await process.close()
    process.begin()
    assert process.pid is None


async def test_closing_ends_the_process(process):
    """After close no child is left, also when a command is under way."""
    await process.submit(("sleep", 0))
    pid = process.pid
    future = process.submit(("sleep", 30))
    await process.close()
    with pytest.raises(WorkerLost):
        await future
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def stopped(process, monkeypatch):
    """Stop the process while time goes fast, and wait for what becomes of a command."""
    await process.submit(("sleep", 0))
    os.kill(process.pid, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(workers_module, "TICK_SECONDS", 0.01)
        patched.setattr(workers_module, "BACKOFF_SECONDS_MIN", 0.01)
        with pytest.raises(WorkerLost, match="the test worker hung: it has given no sign of life for 30 s"):
            await asyncio.wait_for(process.submit(("greet", "you")), 30)


async def test_a_stopped_process_is_killed_and_replaced(process, monkeypatch, caplog):
    """Commands under way fail as when a worker dies; the next command finds a new process that works."""
    process.begin()
    first = process.pid
    await stopped(process, monkeypatch)
    assert f"the test worker, process {first}, hangs and is killed" in caplog.text
    assert process.state.hangs == 1
    assert "hung and was ended" in process.state.problem
    assert (await process.submit(("greet", "you"))).startswith("hi you")
    assert process.pid != first
    assert process.state.problem == ""


async def test_a_command_that_came_between_two_processes_is_watched(process, monkeypatch, until):
    """An idle process died; the next one hangs with the only command."""
    with monkeypatch.context() as patched:
        patched.setattr(workers_module, "TICK_SECONDS", 0.01)
        patched.setattr(workers_module, "BACKOFF_SECONDS_MIN", 0.1)
        await process.submit(("sleep", 0))
        await asyncio.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: process.pid is None)
        waiting = process.submit(("sleep", 30))  # an answer may not come before the signal
        await until(lambda: process.pid is not None)
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerLost, match="no sign of life"):
            await asyncio.wait_for(waiting, 20)
        await until(lambda: process._given_up == 0)  # the killed process has ended


@pytest.mark.story
async def test_a_command_that_does_not_get_on_ends_the_process(target_path, monkeypatch):
    """Each has its own patience; while the rest of the process works it pulses."""
    monkeypatch.setattr(workers_module, "BACKOFF_SECONDS_MIN", 0.01)
    workers = ProcessWorkers(
        asyncio.get_running_loop(), "test", Start(target_path), patience=lambda command: 1.0 if command[1] == 60 else 60
    )
    try:
        slow, stuck = workers.submit(("sleep", 30)), workers.submit(("sleep", 60))
        for future in (slow, stuck):
            with pytest.raises(WorkerLost, match="tuple has not got on for 2 s"):
                await asyncio.wait_for(future, 30)
        assert await workers.submit(("sleep", 0)) == 0
        assert workers.state.hangs == 1
    finally:
        await workers.close()


@pytest.mark.story
async def test_a_target_says_that_a_command_gets_on(target_path):
    """A long command that gets on all the time is not given up."""
    workers = ProcessWorkers(asyncio.get_running_loop(), "test", Start(target_path), patience=lambda _: 1.5)
    try:
        assert await asyncio.wait_for(workers.submit(("crawl", 12)), 30) == 12
        assert workers.state.hangs == 0
    finally:
        await workers.close()


@pytest.mark.story
async def test_processes_that_cannot_be_killed_are_not_started_without_end(process, monkeypatch):
    """Commands fail at once with the reason, until one of them has ended."""
    left, ended = [], asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(WorkerProcess, "give_up", lambda self, on_end: left.append((self, on_end)))
        patched.setattr(workers_module, "BACKOFF_SECONDS_MIN", 0.01)
        for _ in range(GIVEN_UP_MAX):
            await stopped(process, monkeypatch)
        for _ in range(3):
            with pytest.raises(WorkerLost, match="cannot be interrupted"):
                await process.submit(("sleep", 0))
    assert process.starts == GIVEN_UP_MAX
    for child, on_end in left:
        child.give_up(lambda on_end=on_end: (on_end(), ended.set()))
    await ended.wait()
    assert await asyncio.wait_for(process.submit(("sleep", 0)), 30) == 0


def test_the_worker_ends_with_its_broker(target_path, tmp_path):
    """kill -9 of the parent takes the child with it, also while the child is busy."""
    program = f"""
        import asyncio
        from stratalog.broker.workers.main import Start
        from stratalog.broker.workers.workers import ProcessWorkers

        async def main():
            workers = ProcessWorkers(asyncio.get_running_loop(), "test", Start({target_path!r}))
            await workers.submit(("sleep", 0))
            workers.submit(("sleep", 60))
            print(workers.pid, flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _alive(child):
        time.sleep(0.01)
    assert not _alive(child)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
