"""The bar of a backfill."""

from __future__ import annotations

import io

from rich.console import Console

from stratalog.cli.spark.progress import ProgressBar
from stratalog.spark.backfill.plan import BackfillPlan
from stratalog.tier.planning.prices import NOTHING_USED

PLAN = BackfillPlan(4, 2, 1, 4, 1000, 4000, NOTHING_USED, NOTHING_USED)


def shown(*, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with ProgressBar("orders", console) as bar:
        bar.planned(PLAN)
        bar.converted(1000, 0)
        bar.converted(3000, 1000)
        bar._bar.refresh()
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_sees_topic_bytes_and_rate() -> None:
    """The whole and what is done."""
    text = shown(terminal=True)
    assert "orders" in text
    assert "3.9/3.9 KiB" in text
    assert "rows/s" in text


def test_a_pipe_sees_nothing() -> None:
    """Progress into a pipe writes no byte."""
    assert shown(terminal=False) == ""
