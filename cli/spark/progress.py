"""How far a backfill is, on a terminal: a bar, rows a second, the time left. Prints nothing in a pipe."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from stratalog.spark.backfill.plan import BackfillPlan

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shown on ``console``, if that is a terminal. Bytes are those read from the archive, rows follow from them."""

    def __init__(self, topic: str, console: Console | None = None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
            transient=True,
        )
        self._bar.disable = not self._bar.console.is_terminal
        self._task = self._bar.add_task(topic, total=None, rate="")
        self._offsets_per_byte = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def planned(self, plan: BackfillPlan) -> None:
        """The whole length of the bar."""
        self._offsets_per_byte = plan.offsets / max(1, plan.source_bytes)
        self._bar.update(self._task, total=plan.source_bytes)

    def converted(self, source_bytes: int, rows: int) -> None:
        """Move on; rows a second are those of the last half minute."""
        del rows  # known when a run ends, which is too late for a rate
        self._bar.advance(self._task, source_bytes)
        speed = self._bar.tasks[self._task].speed
        rate = f"{speed * self._offsets_per_byte:,.0f} rows/s" if speed else ""
        self._bar.update(self._task, rate=rate)
