"""Threads that sync when the test says so."""

import asyncio
import threading
from concurrent.futures import Executor, Future

import pytest


class Threads(Executor):
    """Runs what was submitted when the test says so, in a thread, as the real ones do."""

    def __init__(self) -> None:
        self.waiting = []

    def submit(self, function, /, *args):
        self.waiting.append(lambda: function(*args))
        return Future()

    async def run(self) -> None:
        """Run everything that waits, and let the loop hear of it."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            thread = threading.Thread(target=one)
            thread.start()
            thread.join()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.fixture
def sync_threads():
    """The pool that a directory writer syncs with."""
    return Threads()
