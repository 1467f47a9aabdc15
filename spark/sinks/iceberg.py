"""Iceberg by pyiceberg: files are added as they lie, by ``add_files``; offsets stand in snapshot properties.

No Spark is needed to write. Spark SQL 4.0 and 4.1 read such a table with Iceberg's runtime for that version; there is
none for later ones yet.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from stratalog.spark.ledger.layout import run_seq
from stratalog.spark.ledger.ledger import Head, Run
from stratalog.spark.rows.schema import COLUMNS, arrow_schema
from stratalog.wire.errors import Invalid, StratalogError

if TYPE_CHECKING:
    from pyiceberg.table import Table as PyIcebergTable
    from pyiceberg.table.snapshots import Summary

__all__ = ["IcebergTable", "catalog_properties", "open_iceberg"]

RUN_PROPERTY: Final = "stratalog.run"
_ATTEMPTS: Final = 5
_S3_OPTIONS: Final = {
    "s3.endpoint": "s3.endpoint",
    "s3.region": "s3.region",
    "s3.access-key-id": "s3.access-key",
    "s3.secret-access-key": "s3.secret-key",
    "s3.session-token": "s3.session-token",
}
"""Names of pyiceberg: ours."""


def open_iceberg(
    name: str, partitioning: str, options: Mapping[str, str], *, create: bool = True
) -> IcebergTable | None:
    """The table ``catalog.namespace.table``; the catalog is configured as pyiceberg's are, in its file or environment.

    A table that is made has the columns of the Spark source, and its partitions are days or hours of ``timestamp``, or
    none. Raises `Invalid` without pyiceberg, and for a table of other columns or other partitions.
    """
    try:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415
    except ImportError as error:
        raise Invalid("iceberg: needs pyiceberg: pip install 'stratalog[iceberg]'") from error
    if "value." in partitioning:
        raise Invalid(f"an Iceberg table has no column for --partition-by {partitioning}: use date, hour or none")
    catalog_name, _, table_name = name.partition(".")
    if "." not in table_name:
        raise Invalid(f"iceberg:{name} names no table: write iceberg:catalog.namespace.table")
    catalog = load_catalog(catalog_name)
    try:
        found = catalog.load_table(table_name)
    except (NoSuchTableError, NoSuchNamespaceError):
        if not create:
            return None
        catalog.create_namespace_if_not_exists(table_name.rpartition(".")[0])
        found = catalog.create_table_if_not_exists(table_name, arrow_schema(COLUMNS))
        _partition(found, partitioning)
    _check(found, name, partitioning)
    return IcebergTable(name, found, options)


def catalog_properties(name: str) -> dict[str, str]:
    """The catalog by pyiceberg's file and environment. Raises `Invalid` without pyiceberg."""
    try:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise Invalid("iceberg: needs pyiceberg: pip install 'stratalog[iceberg]'") from error
    return dict(load_catalog(name).properties)


def _transform(partitioning: str) -> Any:
    from pyiceberg.transforms import DayTransform, HourTransform  # noqa: PLC0415 - an extra

    return {"date": DayTransform, "hour": HourTransform}[partitioning]()


def _partition(table: PyIcebergTable, partitioning: str) -> None:
    if partitioning != "none" and not table.spec().fields:
        with table.update_spec() as update:
            update.add_field("timestamp", _transform(partitioning), partitioning)


def _check(table: PyIcebergTable, name: str, partitioning: str) -> None:
    names = tuple(field.name for field in table.schema().fields)
    if names != COLUMNS:
        raise Invalid(f"iceberg:{name} has the columns {', '.join(names)}, not {', '.join(COLUMNS)}: name a new table")
    wanted = [] if partitioning == "none" else [str(_transform(partitioning))]
    found = [str(field.transform) for field in table.spec().fields]
    if found != wanted:
        raise Invalid(
            f"iceberg:{name} is partitioned by {', '.join(found) or 'nothing'}, the files by {partitioning}: choose "
            f"another --partition-by, or name a new table"
        )


def _told_of_statistics(record: logging.LogRecord) -> bool:
    """Our files keep no statistics of keys and values, on purpose; pyiceberg warns of each column of each file."""
    return "statistics missing" not in record.getMessage()


class IcebergTable:
    """One table; see `open_iceberg`."""

    one_period_a_file = True

    def __init__(self, name: str, table: PyIcebergTable, options: Mapping[str, str]) -> None:
        self._name = name
        self._table = table
        logging.getLogger("pyiceberg.io.pyarrow").addFilter(_told_of_statistics)
        known = {_S3_OPTIONS[key]: str(value) for key, value in table.io.properties.items() if key in _S3_OPTIONS}
        self.files_url = f"{table.location().rstrip('/')}/data"
        self.files_options = {**known, **options} if self.files_url.startswith("s3") else {}

    def last_run(self, head: Head) -> int:
        """By its snapshots, as far as they are kept."""
        self._table.refresh()
        names = [
            str(one.get(RUN_PROPERTY, "")) for one in self._summaries() if one.get("stratalog.topic") == head.topic
        ]
        return max((run_seq(name) for name in names), default=0)

    def add(self, head: Head, run: Run) -> None:
        """One snapshot, which says in its summary which run it is and up to where each partition is converted.

        Raises `StratalogError` if others commit to the table again and again, and if it does not take the files.
        """
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

        paths = [f"{self.files_url}/{file.path}" for span in run.spans for file in span.files]
        offsets = {str(partition): spans[-1][1] for partition, spans in sorted(head.coverage.items()) if spans}
        properties = {
            RUN_PROPERTY: run.name,
            "stratalog.topic": head.topic,
            "stratalog.offsets": json.dumps(offsets),
        }
        for _ in range(_ATTEMPTS):
            self._table.refresh()
            if not paths or self._has(run):
                return
            try:
                self._table.add_files(paths, snapshot_properties=properties)
            except CommitFailedException:
                continue  # another writer has committed: look again
            except ValueError as error:
                raise StratalogError(
                    f"iceberg:{self._name} does not take the files of run {run.name} below {self.files_url}: {error}. "
                    f"Convert the topic to a new table, this one is complete up to the run before"
                ) from error
            return
        raise StratalogError(
            f"iceberg:{self._name}: {_ATTEMPTS} attempts to commit were overtaken by others; run the backfill again, "
            f"it begins with this"
        )

    def _has(self, run: Run) -> bool:
        return any(summary.get(RUN_PROPERTY) == run.name for summary in self._summaries())

    def _summaries(self) -> list[Summary]:
        return [each.summary for each in self._table.metadata.snapshots if each.summary is not None]
