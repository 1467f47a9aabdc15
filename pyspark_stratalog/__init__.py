"""Lets PySpark find ``format("stratalog")`` by itself.

PySpark imports every installed top-level module whose name begins with ``pyspark_`` and takes its ``DefaultSource``.
If one such module raises, every source found this way is lost, so this one imports nothing until asked, and a source
that cannot be loaded is missing, with a warning that says why.
"""

from __future__ import annotations

import logging

__all__: list[str] = []


def __getattr__(name: str) -> object:
    """Load ``DefaultSource`` on first use (PEP 562)."""
    if name == "DefaultSource":
        try:
            from stratalog.spark.source.source import StratalogSource  # noqa: PLC0415 - the point of this module
        except Exception as error:  # noqa: BLE001 - any failure would take all other sources with it
            logging.getLogger("stratalog.spark").warning("format 'stratalog' is not available: %r", error)
        else:
            return StratalogSource
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
