"""What strangers cause to be logged is limited: by place in the code, a few lines at once and then some a minute.

Whoever reaches a port can make the broker complain as often as it likes: of a frame, a name, a request that fails. The
first lines say what is wrong. The thousands behind them would fill the disk and hide everything else, so they are
counted, and the next line from the same place says how many there were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stratalog.broker.metrics import Metrics

__all__ = ["STRANGERS", "LineBudget", "LogLimits"]

STRANGERS: Final = (
    "aiohttp.server",
    "aiohttp.web",
    "asyncio",
    "stratalog.broker.accepting",
    "stratalog.broker.api.fetch_route",
    "stratalog.broker.api.join_group",
    "stratalog.broker.api.leave_group",
    "stratalog.broker.archived_log",
    "stratalog.broker.connection",
    "stratalog.broker.context",
    "stratalog.broker.coordinators.marker_writer",
    "stratalog.broker.coordinators.pattern_library",
    "stratalog.broker.coordinators.shard_driver",
    "stratalog.broker.coordinators.transactions",
    "stratalog.broker.dispatch",
    "stratalog.broker.http",
    "stratalog.broker.partition",
    "stratalog.broker.purgatory",
    "stratalog.broker.remembered_errors",
    "stratalog.broker.server",
    "stratalog.broker.tick",
    "stratalog.broker.tier_watch",
)
"""Loggers of what requests cause. What the broker does by itself, such as recovery, is logged in full."""

LINES_AT_ONCE: Final = 20
LINE_SECONDS: Final = 3.0
"""A place gets a further line in this time."""

CHARACTERS_MAX: Final = 4_000
"""A line is cut there: names that clients choose may be long."""


class LineBudget:
    """The lines of one place in the code. A pure state machine; times are monotonic seconds."""

    __slots__ = ("_at", "_lines", "left_out")

    def __init__(self, now: float) -> None:
        self._at = now
        self._lines = float(LINES_AT_ONCE)
        self.left_out = 0
        """Lines since the last one that was logged."""

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
    """Limits the lines of the loggers it is installed at. ``left_out`` counts those that were not logged."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._budgets: dict[tuple[str, int], LineBudget] = {}
        self.left_out = 0

    def install(self, metrics: Metrics) -> None:
        """Begin, and show in ``metrics`` what was left out."""
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
        return True
