"""``stratalog tier plan``: what brokers would upload, evict and delete now, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final
from urllib.parse import quote

import click

from stratalog.cli.command import broker_options, command
from stratalog.cli.http import http_json, http_option, http_text_of
from stratalog.cli.output import ExitCode, HttpUnanswered, bytes_text, json_option, note, reports_errors, write_rows
from stratalog.cli.prices import find_prices, price_options, tell_prices
from stratalog.client.client import BrokerAway, Client
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
@broker_options
@reports_errors
def plan(
    *,
    topics: Sequence[str],
    http: str | None,
    price_file: str | None,
    store_name: str | None,
    as_json: bool,
    bootstrap: str,
    timeout_seconds: float,
) -> None:
    """Show what brokers would upload, evict and delete now, what waits, and why; nothing is changed.

    Each broker is asked for what it leads. It decides by the functions that it works by, from what it knows at this moment. COST is that of the
    requests, PER MONTH what is paid more or less for the bytes in the bucket. Work that is under way is shown too. Brokers
    that do not answer are named, and the exit code is 4 then.
    """
    steps: list[dict[str, Any]] = []
    url, silent = "", []
    asked, unreached = ([http], []) if http else _brokers(bootstrap, timeout_seconds)
    for address, topic in product(asked, dict.fromkeys(topics) or (None,)):
        try:
            answer = http_json(address, "GET", "/v1/tier/plan" + (f"?topic={quote(topic, safe='')}" if topic else ""))
        except HttpUnanswered as error:
            silent.append(str(error))
            continue
        steps += answer["steps"]
        url = str(answer["bucket"])
    steps.sort(key=lambda step: (step["topic"], step["partition"]))
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
    for sentence in dict.fromkeys([*unreached, *silent]):
        note(f"Not shown: {sentence}")
    if unreached or silent:
        raise SystemExit(int(ExitCode.UNHEALTHY))


def _brokers(bootstrap: str, timeout_seconds: float) -> tuple[list[str], list[str]]:
    """The HTTP addresses of brokers that answer, each once, and a sentence about each broker that is not asked there."""
    found: dict[str, list[int]] = {}
    unreached = []
    with Client(bootstrap, timeout_seconds) as client:
        client.refresh([])
        for node_id in sorted(client.brokers):
            try:
                client.reach(node_id)
                found.setdefault(http_text_of(client, node_id), []).append(node_id)
            except BrokerAway as error:
                unreached.append(f"node {node_id} does not answer ({error}).")
    for address, nodes in found.items():
        if len(nodes) > 1:
            named = ", ".join(map(str, nodes))
            unreached.append(
                f"all but one of the nodes {named}: each has {address} for its HTTP address, and one of them answers there. "
                f"Ask on the machine of each, or give them addresses of their own (stratalog.http.listener)."
            )
    return list(found), unreached


def _row(step: dict[str, Any], prices: PriceTable | None) -> dict[str, Any]:
    usage = Usage(**step.pop("usage"))
    row = {**step, "requests": usage.reads + usage.writes + usage.lists + usage.deletes}
    sign = _SIGNS.get(step["action"], 0)
    row["cost"] = None if prices is None else prices.cost(usage)
    row["per_month"] = None if prices is None else sign * prices.cost_of_month(step["size_bytes"])
    row["currency"] = None if prices is None else prices.currency
    return row
