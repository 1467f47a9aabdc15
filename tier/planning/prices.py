"""Prices of requests and bytes at a store, by a table in a file. Pure.

The tables of some well-known stores are in ``prices.toml`` beside this module, each number with its source and date.
A user's own file has the same form and comes first.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from stratalog.wire.errors import Invalid

__all__ = ["NOTHING_USED", "PriceTable", "Usage", "price_table", "read_price_tables"]

_GIB: Final = 1 << 30
_PER: Final = 1000
FREE_SCHEMES: Final = ("file", "memory")


class Usage(Struct, frozen=True):
    """Requests and bytes as a store bills them. A ``read`` is a GET or a HEAD, a ``write`` a PUT, POST or part."""

    reads: int = 0
    writes: int = 0
    lists: int = 0
    deletes: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __bool__(self) -> bool:
        return self != NOTHING_USED


NOTHING_USED: Final = Usage()


class PriceTable(Struct, frozen=True):
    """The prices of one store; requests per 1000, bytes per GB of ``gb_bytes``."""

    name: str
    title: str = ""
    currency: str = "USD"
    schemes: tuple[str, ...] = ()
    storage_classes: tuple[str, ...] = ("",)
    write_per_1000: float = 0.0
    read_per_1000: float = 0.0
    delete_per_1000: float = 0.0
    stored_per_gb_month: float = 0.0
    read_per_gb: float = 0.0
    written_per_gb: float = 0.0
    gb_bytes: int = _GIB

    def cost(self, usage: Usage) -> float:
        """Price of the requests and their bytes, in ``currency``."""
        requests = (
            (usage.writes + usage.lists) * self.write_per_1000
            + usage.reads * self.read_per_1000
            + usage.deletes * self.delete_per_1000
        )
        moved = usage.received_bytes * self.read_per_gb + usage.sent_bytes * self.written_per_gb
        return requests / _PER + moved / self.gb_bytes

    def cost_of_month(self, size_bytes: int) -> float:
        """Price of keeping these bytes for a month."""
        return size_bytes * self.stored_per_gb_month / self.gb_bytes


def read_price_tables(own: str = "", where: str = "the price file") -> dict[str, PriceTable]:
    """The tables by name: those of ``own``, TOML text of a user's file, before the ones that come with us.

    Raises `Invalid` with the table and the field for anything that is not of the known form.
    """
    tables = _parsed(own, where)
    for name, table in _parsed(
        (files("stratalog.tier.planning") / "prices.toml").read_text("utf-8"), "prices.toml"
    ).items():
        tables.setdefault(name, table)
    return tables


def price_table(
    tables: Mapping[str, PriceTable], url: str, storage_class: str = "", name: str | None = None
) -> PriceTable | None:
    """The table for a bucket: the one of ``name``, else the first for the URL's scheme and the storage class.

    None for a store that asks for nothing, and where no table fits. Raises `Invalid` for a name that is not there.
    """
    if name is not None:
        if name not in tables:
            raise Invalid(
                f"no price table is called {name!r}; there are {', '.join(tables)}: give one by --prices FILE"
            )
        return tables[name]
    scheme = url.partition(":")[0]
    if scheme in FREE_SCHEMES:
        return None
    fitting = [one for one in tables.values() if scheme in one.schemes and storage_class in one.storage_classes]
    return fitting[0] if fitting else None


def _parsed(text: str, where: str) -> dict[str, PriceTable]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{where} is not TOML: {error}") from error
    return {name: _table(name, rows, where) for name, rows in document.items()}


def _table(name: str, rows: Any, where: str) -> PriceTable:
    if not isinstance(rows, dict):
        raise Invalid(f"{where}: {name} is no table; write [{name}] and its prices below it")
    known = {one.name: one for one in fields(PriceTable) if one.name != "name"}
    given: dict[str, Any] = {}
    for field_name, value in rows.items():
        if field_name not in known:
            raise Invalid(f"{where}: [{name}] has no field {field_name!r}; known are {', '.join(known)}")
        given[field_name] = _value(f"{where}: {field_name} of [{name}]", known[field_name].default, value)
    return PriceTable(name, **given)


def _value(what: str, default: Any, value: Any) -> Any:
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise Invalid(f"{what} must be a list of words, got {value!r}")
        return tuple(value)
    if isinstance(default, str):
        if not isinstance(value, str):
            raise Invalid(f"{what} must be a word, got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or (value == 0 and default):
        raise Invalid(f"{what} is a number that is not negative, not {value!r}")
    return value
