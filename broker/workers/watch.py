"""Decides whether a worker process still works. A pure state machine over commands, answers, pulses and ticks.

While a worker executes commands it sends a pulse each second, which says for each of them how long ago it last made
progress. A worker that is stopped sends none. One whose call never returns, on a dead network file system for example, sends
pulses in which a command's idle time grows.

Ticks are counted, and times are not compared: a broker that was stopped or starved itself has missed ticks, while the pulses
of its worker wait in the pipe.
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
"""The time between two calls of `WorkerWatch.tick`."""
SILENT_TICKS_MAX: Final = 30
"""Ticks without a pulse or an answer after which a worker counts as hanging. A sound worker, which runs at a low priority,
may be silent for seconds on a starved machine."""
WORRYING_TICKS: Final = 5
"""Ticks without a pulse or an answer after which `WorkerState.problem` names the silence."""
START_ID: Final = 0
"""The request id that stands for the start of the process in its pulses."""
START_SECONDS_MAX: Final = 120.0
"""How long the start of a process may take."""

Patience = Callable[[object], float]
"""Returns how many seconds a command may go without progress; `math.inf` for no limit."""


class WorkerState(NamedTuple):
    """The state of a worker, as metrics and pages show it."""

    role: str
    oldest_command_seconds: float
    """The age of the oldest command without an answer; 0 if there is none."""
    hangs: int
    """Processes that were given up since the broker's start."""
    problem: str
    """A sentence for people; empty while nothing is wrong."""
    idle: tuple[tuple[object, float], ...] = ()
    """The commands under way that the last pulse named, each with the seconds since its last progress.

    Once the worker has been silent for `WORRYING_TICKS`, all commands without an answer.
    """


class _Sent(NamedTuple):
    command: object
    at: float


class WorkerWatch:
    """The state machine of one worker. Times are seconds of a clock that does not jump."""

    def __init__(self, role: str, patience: Patience | None = None) -> None:
        self.role = role
        self.hangs = 0
        """Processes that were given up since the broker's start."""
        self._patience = patience or (lambda _: math.inf)
        self._sent: dict[int, _Sent] = {}
        self._silent_ticks = 0
        self._idle_seconds: Mapping[int, float] = {}
        self._hung = ""
        """Why the last process was given up; empty again once a command has been answered."""

    @property
    def outstanding(self) -> int:
        """Commands without an answer."""
        return len(self._sent)

    # -- events ---------------------------------------------------------------------------------------------------

    def started(self) -> None:
        """Another process has been started."""
        self._silent_ticks = 0
        self._idle_seconds = {}

    def sent(self, request_id: int, command: object, now: float) -> None:
        """A command was handed over, or waits for a process."""
        if not self._sent:
            self._silent_ticks = 0
        self._sent[request_id] = _Sent(command, now)

    def pulse(self, idle_seconds: Mapping[int, float]) -> None:
        """A pulse came: by request id, the seconds since the last progress of each command under way."""
        self._silent_ticks = 0
        self._idle_seconds = idle_seconds

    def answered(self, request_id: int) -> None:
        """The worker has answered a command."""
        self._silent_ticks = 0
        self._hung = ""
        self._sent.pop(request_id, None)

    def forgotten(self, request_id: int) -> None:
        """A command waits no more: it could not be sent, its process has ended, or its answer was handed on."""
        self._sent.pop(request_id, None)

    def lost(self) -> None:
        """The process has ended: no command without an answer gets one."""
        self._sent.clear()

    def tick(self, *, running: bool) -> str:
        """A tick has passed. Returns why the process has to be given up; empty if it goes on, or is not ``running``."""
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

    # -- the state ------------------------------------------------------------------------------------------------

    def state(self, now: float) -> WorkerState:
        """The state at the time ``now``."""
        oldest = next(iter(self._sent.values()), None)
        age_seconds = 0.0 if oldest is None else max(0.0, now - oldest.at)
        silent = self._silent_ticks * TICK_SECONDS
        idle_seconds = {each: seconds + silent for each, seconds in self._idle_seconds.items() if each in self._sent}
        if self._silent_ticks >= WORRYING_TICKS:  # commands that wait make no progress either
            idle_seconds = dict.fromkeys(self._sent, silent) | idle_seconds
        idle = tuple((self._sent[each].command, seconds) for each, seconds in idle_seconds.items())
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
    """The kind of a command, and its partition if it has one."""
    inner = getattr(command, "upload", command)
    about = getattr(inner, "partition", None) or getattr(getattr(inner, "request", None), "partition", None)
    return type(inner).__name__ + (f" of {about}" if about is not None else "")
