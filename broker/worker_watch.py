"""Whether a worker process still works: a pure machine that is told of commands, answers, pulses and ticks.

While a worker executes anything it sends a pulse a second: for each command under way, how long ago that last got on. A
worker that is stopped sends none; one whose call never returns, on a dead network file system for example, sends pulses in
which a command's age grows. Ticks are counted instead of times compared: a broker that itself was stopped, or starved, has
missed ticks and not its worker's pulses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

__all__ = [
    "SILENT_TICKS_MAX",
    "START_ID",
    "START_SECONDS_MAX",
    "TICK_SECONDS",
    "Patience",
    "WorkerState",
    "WorkerWatch",
]

TICK_SECONDS: Final = 1.0
SILENT_TICKS_MAX: Final = 30
"""Ticks without a pulse or an answer after which a worker hangs. On a starved machine a sound worker, which is nice, may
be silent for seconds."""
WORRYING_TICKS: Final = 5
"""... and after which it is told of."""
START_ID: Final = 0
"""Stands for the start of the process in its pulses."""
START_SECONDS_MAX: Final = 120.0

Patience = Callable[[object], float]
"""How many seconds a command may go without getting on; `math.inf` for no limit."""


class WorkerState(NamedTuple):
    """What can be told of a worker: ``problem`` is empty while nothing is wrong."""

    role: str
    oldest_command_seconds: float
    hangs: int
    problem: str
    idle: tuple[tuple[object, float], ...] = ()
    """Commands under way, as far as the worker has told, and for how many seconds each has not got on.

    All that wait, once the worker has been silent for long.
    """


class _Sent(NamedTuple):
    command: object
    at: float


class WorkerWatch:
    """Times are seconds of a clock that does not jump."""

    def __init__(self, role: str, patience: Patience | None = None) -> None:
        self.role = role
        self.hangs = 0
        """Processes that were given up."""
        self._patience = patience or (lambda _: math.inf)
        self._sent: dict[int, _Sent] = {}
        self._silent_ticks = 0
        self._idle_seconds: Mapping[int, float] = {}
        self._hung = ""
        """Why the last process was given up; until a command has been answered since."""

    @property
    def outstanding(self) -> int:
        """Commands without an answer."""
        return len(self._sent)

    # -- events ---------------------------------------------------------------------------------------------------

    def started(self) -> None:
        """Another process begins."""
        self._silent_ticks = 0
        self._idle_seconds = {}

    def sent(self, request_id: int, command: object, now: float) -> None:
        """A command was handed over, or waits for a process."""
        if not self._sent:
            self._silent_ticks = 0
        self._sent[request_id] = _Sent(command, now)

    def pulse(self, idle_seconds: Mapping[int, float]) -> None:
        """The worker says how long ago each command under way last got on."""
        self._silent_ticks = 0
        self._idle_seconds = idle_seconds

    def answered(self, request_id: int) -> None:
        """The worker has answered a command."""
        self._silent_ticks = 0
        self._hung = ""
        self._sent.pop(request_id, None)

    def forgotten(self, request_id: int) -> None:
        """A command failed without the worker's doing."""
        self._sent.pop(request_id, None)

    def tick(self, *, running: bool) -> str:
        """A tick has passed. Why the process, which is ``running``, is to be given up; empty if it is not."""
        if not running or not self._sent:
            self._silent_ticks = 0
            return ""
        self._silent_ticks += 1
        why = self._why_given_up()
        if why:
            self.hangs += 1
            self._hung = why
            self._silent_ticks = 0
        return why

    # -- what can be told -----------------------------------------------------------------------------------------

    def state(self, now: float) -> WorkerState:
        """How the worker does."""
        oldest = next(iter(self._sent.values()), None)
        age_seconds = 0.0 if oldest is None else max(0.0, now - oldest.at)
        silent = self._silent_ticks * TICK_SECONDS
        told = {each: seconds + silent for each, seconds in self._idle_seconds.items() if each in self._sent}
        if self._silent_ticks >= WORRYING_TICKS:  # whatever waits gets on no more than what is under way
            told = dict.fromkeys(self._sent, silent) | told
        idle = tuple((self._sent[each].command, seconds) for each, seconds in told.items())
        return WorkerState(self.role, age_seconds, self.hangs, self._problem(), idle)

    def _problem(self) -> str:
        if self._silent_ticks >= WORRYING_TICKS:
            return (
                f"the {self.role} worker has given no sign of life for {self._silent_ticks} s, {len(self._sent)} commands "
                f"wait; it is replaced after {SILENT_TICKS_MAX} s"
            )
        if self._hung:
            return f"the {self.role} worker hung and was ended: {self._hung}; no command has been answered since"
        return ""

    def _why_given_up(self) -> str:
        if self._silent_ticks >= SILENT_TICKS_MAX:
            return f"it has given no sign of life for {self._silent_ticks} s"
        for request_id, idle_seconds in self._idle_seconds.items():
            if request_id == START_ID:
                if idle_seconds > START_SECONDS_MAX:
                    return f"it has been starting for {idle_seconds:.0f} s"
                continue
            sent = self._sent.get(request_id)
            if sent is not None and idle_seconds > self._patience(sent.command):
                return f"{_named(sent.command)} has not got on for {idle_seconds:.0f} s"
        return ""


def _named(command: object) -> str:
    """The command's kind and what it is about."""
    inner = getattr(command, "upload", command)
    about = getattr(inner, "partition", None) or getattr(getattr(inner, "request", None), "partition", None)
    return type(inner).__name__ + (f" of {about}" if about is not None else "")
