"""``stratalog tier plan``: what a broker would upload, evict and delete now, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import click

from stratalog.cli.command import command
from stratalog.cli.http import http_json, http_option
from stratalog.cli.output import bytes_text, json_option, note, reports_errors, write_rows
from stratalog.cli.prices import find_prices, price_options, tell_prices
from stratalog.tier.planning.prices import PriceTable, Usage

__all__ = ["plan"]

COLUMNS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "action": "ACTION",
    "start": "START",
    "end": "END",
    "count": "COUNT",
    "size_bytes": "BYTES",
    "requests": "REQUESTS",
    "cost": "COST",
    "per_month": "PER MONTH",
    "why": "WHY",
}
_SIGNS: Final = {"upload": 1, "delete": -1}
"""The sign of an action: whether it adds to or takes from the bytes that are paid for by the month."""


@command(
    "plan",
    """
    stratalog tier plan
    stratalog tier plan orders --json
    stratalog tier plan orders --store aws-s3-standard
    """,
)
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@http_option
@price_options
@json_option
@reports_errors
def plan(*, topics: Sequence[str], http: str, price_file: str | None, store_name: str | None, as_json: bool) -> None:
    """Show what the broker would upload, evict and delete now, what waits, and why; nothing is changed.

    Decided by the functions that the broker itself works by, from what it knows at this moment. COST is that of the
    requests, PER MONTH what is paid more or less for the bytes in the bucket. Work that is under way is shown too.
    """
    steps: list[dict[str, Any]] = []
    url = ""
    for topic in topics or (None,):
        answer = http_json(http, "GET", "/v1/tier/plan" + (f"?topic={quote(topic, safe='')}" if topic else ""))
        steps += answer["steps"]
        url = str(answer["bucket"])
    prices = find_prices(price_file, store_name, url)
    rows = [_row(step, prices) for step in steps]
    if not as_json:
        for row in rows:
            row["size_bytes"] = bytes_text(row["size_bytes"])
            for name in ("cost", "per_month"):
                row[name] = None if row[name] is None else f"{row[name]:.4g} {row['currency']}"
    write_rows(rows, COLUMNS, as_json=as_json)
    tell_prices(prices, url)
    counts = {
        action: sum(step["action"] == action for step in steps)
        for action in ("upload", "wait", "evict", "delete", "trash")
    }
    note(", ".join(f"{number} {action}" for action, number in counts.items()) + ".")


def _row(step: dict[str, Any], prices: PriceTable | None) -> dict[str, Any]:
    usage = Usage(**step.pop("usage"))
    row = {**step, "requests": usage.reads + usage.writes + usage.lists + usage.deletes}
    sign = _SIGNS.get(step["action"], 0)
    row["cost"] = None if prices is None else prices.cost(usage)
    row["per_month"] = None if prices is None else sign * prices.cost_of_month(step["size_bytes"])
    row["currency"] = None if prices is None else prices.currency
    return row
