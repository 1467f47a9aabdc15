"""Tables that a backfill adds its files to: ``iceberg:catalog.namespace.table`` and ``delta:URL``.

The ledger stays the commit point. Adding a committed run to a table is the last step of publishing it, and may be
tried again after any failure: a table knows the runs it has.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.spark.ledger.lake_table import Table
from stratalog.wire.errors import Invalid

__all__ = ["is_table", "open_table"]

SCHEMES = ("iceberg:", "delta:")


def is_table(target: str) -> bool:
    """Whether ``target`` names a table rather than a directory."""
    return target.startswith(SCHEMES)


def open_table(target: str, partitioning: str, options: Mapping[str, str], *, create: bool = True) -> Table | None:
    """The table that ``target`` names, made if it is not there; None without ``create``.

    ``options`` are those named ``s3.…``. Raises `Invalid` if the package is missing that knows the format, or for a
    table that cannot take our files.
    """
    scheme, _, name = target.partition(":")
    if scheme == "iceberg":
        from stratalog.spark.sinks.iceberg import open_iceberg  # noqa: PLC0415 - needs an extra

        return open_iceberg(name, partitioning, options, create=create)
    if scheme == "delta":
        from stratalog.spark.sinks.delta import open_delta  # noqa: PLC0415 - needs an extra

        return open_delta(name, partitioning, options, create=create)
    raise Invalid(f"{target} names no table: write iceberg:catalog.namespace.table or delta:URL")
