"""Shared by commands that show costs: the bucket, as given or as the broker reports it, and its prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from stratalog.cli.command import HTTP_DEFAULT
from stratalog.cli.http import http_json
from stratalog.cli.output import HttpUnanswered, note
from stratalog.cli.values import read_text_file
from stratalog.tier.planning.prices import PriceTable, price_table, read_price_tables

__all__ = ["find_bucket", "find_prices", "optional_bucket", "price_options", "tell_prices"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def optional_bucket(function: Decorated) -> Decorated:
    """Add ``--bucket``, ``--endpoint-url`` and ``--region``, and ``--http`` for when the broker is to tell them."""
    function = click.option(
        "--http", envvar="STRATALOG_HTTP", show_envvar=True, default=HTTP_DEFAULT, show_default=True, metavar="HOST:PORT",
        help="Where a broker tells which bucket it works with, if no --bucket is given.",
    )(function)  # fmt: skip
    function = click.option("--region", metavar="NAME", help="The bucket's region.")(function)
    function = click.option("--endpoint-url", metavar="URL", help="Another S3 server than Amazon's.")(function)
    return click.option(
        "--bucket", envvar="STRATALOG_BUCKET", show_envvar=True, metavar="URL",
        help="The bucket to read, without a broker; else the one that the broker at --http works with.",
    )(function)  # fmt: skip


def price_options(function: Decorated) -> Decorated:
    """Add ``--prices`` and ``--store``."""
    function = click.option(
        "--store", "store_name", metavar="NAME",
        help="Price table to use; else the first that fits the bucket's URL.",
    )(function)  # fmt: skip
    return click.option(
        "--prices", "price_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Your own price tables (TOML), before those that come along.",
    )(function)  # fmt: skip


def find_bucket(bucket: str | None, http: str) -> str:
    """The URL given, or the one the broker works with. Raises `HttpUnanswered`."""
    if bucket is not None:
        return bucket
    try:
        return str(http_json(http, "GET", "/tier/status")["bucket"])
    except HttpUnanswered as error:
        raise HttpUnanswered(f"{error} Or give --bucket URL.") from error


def find_prices(price_file: str | None, store_name: str | None, url: str) -> PriceTable | None:
    """The price table for a bucket; None where the bucket costs nothing or
    its prices are unknown. Raises `Invalid`, `OSError`.
    """
    own = read_text_file(price_file) if price_file else ""
    return price_table(read_price_tables(own, price_file or ""), url, name=store_name)


def tell_prices(prices: PriceTable | None, url: str) -> None:
    """Say whose prices these are, or that there are none."""
    if prices is not None:
        note(f"Prices of {prices.name} ({prices.title}); give your own by --prices FILE.")
    elif not url.startswith(("file:", "memory:")):
        note(f"No price table fits {url}: give one by --prices FILE, or choose one by --store NAME.")
