"""`stratalog.broker.replicas.background_removal`: files go in a thread, failures come back to the loop."""

import asyncio
import threading
import time

import pytest

from stratalog.broker.replicas.background_removal import BackgroundRemoval


class Writer:
    """The part of a directory's writer that a removal needs."""

    def __init__(self) -> None:
        self.offline = None
        self.reported = []

    def report(self, error) -> None:
        self.reported.append(error)


class Job:
    """A removal that waits for ``go`` and may fail."""

    def __init__(self, error=None) -> None:
        self.error = error
        self.begun, self.go = threading.Event(), threading.Event()
        self.thread = None

    def run(self) -> None:
        self.begun.set()
        self.go.wait(10)
        self.thread = threading.current_thread()
        if self.error is not None:
            raise self.error


async def until_idle(removals) -> None:
    """Behind everything submitted so far, and what it has told the loop."""
    await asyncio.wrap_future(removals._thread.submit(int))
    await asyncio.sleep(0)
    assert removals.idle


def test_the_loop_goes_on_meanwhile():
    """Removals run one after the other, elsewhere."""

    async def main() -> None:
        removals = BackgroundRemoval(asyncio.get_running_loop())
        writer, jobs = Writer(), [Job(), Job()]
        for job in jobs:
            removals.submit(job, writer)
        await asyncio.sleep(0)
        assert not removals.idle
        for job in jobs:
            job.go.set()
        await until_idle(removals)
        assert jobs[0].thread is jobs[1].thread is not threading.current_thread()
        assert writer.reported == []
        removals.close()

    asyncio.run(main())


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("a mistake")])
@pytest.mark.parametrize("offline", [None, OSError(5, "before")])
def test_a_failure_is_reported_to_the_directory(error, offline):
    """Unless it is offline already; what was to be removed is given back in any case."""

    async def main() -> None:
        removals = BackgroundRemoval(asyncio.get_running_loop())
        writer, job, back = Writer(), Job(error), []
        writer.offline = offline
        job.go.set()
        removals.submit(job, writer, lambda: back.append(job))
        await until_idle(removals)
        assert back == [job]
        if offline is None:
            assert [str(one) for one in writer.reported] == [str(writer.reported[0])]
            assert str(error) in str(writer.reported[0])
        else:
            assert writer.reported == []
        removals.close()

    asyncio.run(main())


def test_closing_waits_for_one_and_leaves_the_others():
    """The rest is removed after the next start."""

    async def main() -> None:
        removals = BackgroundRemoval(asyncio.get_running_loop())
        writer, jobs = Writer(), [Job(), Job(OSError("never"))]
        for job in jobs:
            removals.submit(job, writer)
        await asyncio.to_thread(jobs[0].begun.wait, 10)
        asyncio.get_running_loop().run_in_executor(None, lambda: time.sleep(0.05) or jobs[0].go.set())
        removals.close()
        assert jobs[0].thread is not None
        assert not jobs[1].begun.is_set()

    asyncio.run(main())
