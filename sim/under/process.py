"""Simulated processes: everything that runs belongs to one, and a killed one never runs again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

__all__ = ["PROCESS", "Killed", "Process", "current_process"]

T = TypeVar("T")


class Killed(BaseException):
    """Raised inside of code whose process is dead, so that it unwinds without doing anything any more."""


class Process:
    """The process that a callback, task or thread belongs to; its context carries it along.

    ``on_death`` are called once, in order, when it is killed or has ended.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.on_death: list[Callable[[], object]] = []
        self.frozen = False
        """No part of it runs, as while its machine is suspended; what comes meanwhile waits."""
        self.held: list[asyncio.Handle] = []
        self.thread_delay = 1.0
        """So many times longer its threads take: its disk is slow."""
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}, {'alive' if self.alive else 'dead'}>"

    def spawn(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as part of this process."""
        return loop.create_task(work, context=self.context.copy())

    def kill(self) -> None:
        """End it between two steps of the loop: nothing of it runs again, nothing is cleaned up."""
        if not self.alive:
            return
        self.alive = False
        calls, self.on_death = self.on_death, []
        for call in calls:
            call()

    def forget(self, call: Callable[[], object]) -> None:
        """Take back what was to be called on death."""
        if call in self.on_death:
            self.on_death.remove(call)

    def check(self) -> None:
        """Raises `Killed` in what is left of a dead process."""
        if not self.alive:
            raise Killed(self.name)

    def bury(self) -> None:
        """Throw away what a dead process left suspended. Clean-up code that runs now finds nothing to act upon."""
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):  # the dead have nothing to say
                task.get_coro().close()  # type: ignore[union-attr]
        self.tasks.clear()


PROCESS: ContextVar[Process] = ContextVar("PROCESS")


def current_process() -> Process:
    """The process whose code is running. Raises `LookupError` outside of all."""
    return PROCESS.get()
