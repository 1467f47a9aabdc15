"""Limits the lines that strangers cause: each place in the code logs a few lines at once, and then some a minute.

Anyone who reaches a port can make the broker complain without end: about a frame, a name, a request that fails. The first
lines say the problem. Thousands more would fill the disk and hide everything else, so they are counted, and the next line
from the same place says how many are missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stratalog.broker.runtime.metrics import Metrics

__all__ = ["STRANGERS", "LineBudget", "LogLimits"]

STRANGERS: Final = (
    "aiohttp.server",
    "aiohttp.web",
    "asyncio",
    "stratalog.broker.network.accepting",
    "stratalog.broker.shortcuts.fetch_route",
    "stratalog.broker.api.join_group",
    "stratalog.broker.control.broker_sessions",
    "stratalog.broker.api.leave_group",
    "stratalog.broker.views.archived_log",
    "stratalog.broker.network.connection",
    "stratalog.broker.requests.context",
    "stratalog.broker.coordinators.hanging",
    "stratalog.broker.coordinators.late",
    "stratalog.broker.coordinators.log_loader",
    "stratalog.broker.coordinators.marker_writer",
    "stratalog.broker.coordinators.pattern_library",
    "stratalog.broker.coordinators.remote_enlistment",
    "stratalog.broker.coordinators.remote_markers",
    "stratalog.broker.coordinators.shard_driver",
    "stratalog.broker.coordinators.transactions",
    "stratalog.broker.requests.dispatch",
    "stratalog.broker.requests.envelope_source",
    "stratalog.broker.http.server",
    "stratalog.broker.replicas.waiting_append",
    "stratalog.broker.runtime.purgatory",
    "stratalog.broker.cold.remembered_errors",
    "stratalog.broker.network.server",
    "stratalog.broker.runtime.tick",
    "stratalog.broker.http.tier_watch",
)
"""Loggers whose lines requests cause. The broker's own work, such as recovery, is logged in full."""

LINES_AT_ONCE: Final = 20
"""Lines that a place saves up for while it is quiet."""
LINE_SECONDS: Final = 3.0
"""The time in which a place earns one more line."""

CHARACTERS_MAX: Final = 4_000
"""A line is cut there: names that clients choose may be long."""

TRACEBACK_CHARACTERS_MAX: Final = 20_000
"""The text of an error is cut there: an error may quote what a client sent."""


_FORMATTER: Final = logging.Formatter()


class LineBudget:
    """The lines of one place in the code. A pure state machine; times are monotonic seconds."""

    __slots__ = ("_at", "_lines", "left_out")

    def __init__(self, now: float) -> None:
        self._at = now
        self._lines = float(LINES_AT_ONCE)
        self.left_out = 0
        """Lines that were not logged since the last one that was."""

    def take(self, now: float) -> bool:
        """Whether a line may be logged now."""
        self._lines = min(self._lines + (now - self._at) / LINE_SECONDS, float(LINES_AT_ONCE))
        self._at = now
        if self._lines < 1.0:
            self.left_out += 1
            return False
        self._lines -= 1.0
        return True


class LogLimits(logging.Filter):
    """A filter of the loggers in `STRANGERS`. ``left_out`` counts the lines that were not logged."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._budgets: dict[tuple[str, int], LineBudget] = {}
        self.left_out = 0

    def install(self, metrics: Metrics) -> None:
        """Begin to limit lines, and add the count of missing ones to ``metrics``."""
        for name in STRANGERS:
            logging.getLogger(name).addFilter(self)
        metrics.add_counter(
            "stratalog_log_lines_left_out",
            "Lines that were not logged because requests caused too many from the same place in the code.",
            lambda: [({}, self.left_out)],
        )

    def remove(self) -> None:
        """Let every line pass again."""
        for name in STRANGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged; the first after a gap says how many are missing."""
        now = self._monotonic()
        place = (record.pathname, record.lineno)
        budget = self._budgets.get(place)
        if budget is None:
            budget = self._budgets[place] = LineBudget(now)
        if not budget.take(now):
            self.left_out += 1
            return False
        message = record.getMessage()
        if len(message) > CHARACTERS_MAX:
            message = f"{message[:CHARACTERS_MAX]}… ({len(message)} characters)"
        if budget.left_out:
            message = f"{message} ({budget.left_out} more lines like this were not logged)"
            budget.left_out = 0
        record.msg, record.args = message, None
        if record.exc_info and not record.exc_text:
            record.exc_text = _cut_traceback(_FORMATTER.formatException(record.exc_info))
        return True


def _cut_traceback(text: str) -> str:
    """Both ends of a traceback, without its middle if it is long: the first error stands at the top, the last below."""
    if len(text) <= TRACEBACK_CHARACTERS_MAX:
        return text
    half = TRACEBACK_CHARACTERS_MAX // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"
