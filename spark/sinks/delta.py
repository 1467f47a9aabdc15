"""Delta by the package deltalake: files are added as they lie, and each commit carries the number of its run.

No Spark is needed to write. Every reader of Delta reads the table: Spark with delta-spark, DuckDB, polars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa

from stratalog.spark.ledger.folders import folder_columns
from stratalog.spark.ledger.layout import NO_VALUE
from stratalog.spark.ledger.ledger import Head, OutputFile, Run
from stratalog.spark.rows.schema import COLUMNS, arrow_schema
from stratalog.tier.stores.store import StoreUnavailable
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from deltalake import DeltaTable as NativeTable
    from deltalake.transaction import AddAction, RemoveAction

__all__ = ["DeltaTable", "open_delta"]

_FOLDER: Final = re.compile(r"([^/=]+)=([^/]*)/")


def open_delta(url: str, partitioning: str, options: Mapping[str, str], *, create: bool = True) -> DeltaTable | None:
    """The table at ``url``: a path, ``file:///path`` or ``s3://bucket/prefix``.

    A table that is made has the columns of the Spark source and one for each folder. Raises `Invalid` without
    deltalake, for what is no table, and for a table of other columns or other partitions; `StoreUnavailable`.
    """
    try:
        from deltalake import DeltaTable as Native  # noqa: PLC0415 - an extra
        from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415
    except ImportError as error:
        raise Invalid("delta: needs deltalake: pip install 'stratalog[delta]'") from error
    columns = folder_columns(partitioning)
    storage = _storage_options(options) if url.startswith("s3") else None
    if not url:
        raise Invalid("delta: names no table: write delta:DIR or delta:s3://bucket/prefix")
    try:
        try:
            found = Native(url, storage_options=storage)
        except TableNotFoundError:
            if not create:
                return None
            found = Native.create(url, _schema(columns), "ignore", list(columns), storage_options=storage)
    except DeltaError as error:
        raise Invalid(f"delta:{url} is no table that can be opened or made: {error}") from error
    except OSError as error:
        raise StoreUnavailable("open", "", f"delta:{url}", f"{type(error).__name__}: {error}") from error
    metadata = found.metadata()
    names = tuple(field.name for field in found.schema().fields)
    if names != (*COLUMNS, *columns) or tuple(metadata.partition_columns) != columns:
        raise Invalid(
            f"delta:{url} has the columns {', '.join(names)}, partitioned by "
            f"{', '.join(metadata.partition_columns) or 'nothing'}: choose another --partition-by, or another place"
        )
    return DeltaTable(url, found, partitioning, options)


def _schema(folders: tuple[str, ...]) -> pa.Schema:
    types = {"date": pa.date32(), "hour": pa.int32()}
    return pa.schema([*arrow_schema(COLUMNS), *(pa.field(name, types.get(name, pa.string())) for name in folders)])


def _storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Our options under the names of the object store that deltalake brings; credentials else by the environment."""
    names = {
        "s3.endpoint": "AWS_ENDPOINT_URL",
        "s3.region": "AWS_REGION",
        "s3.access-key": "AWS_ACCESS_KEY_ID",
        "s3.secret-key": "AWS_SECRET_ACCESS_KEY",
        "s3.session-token": "AWS_SESSION_TOKEN",
    }
    found = {names[name]: value for name, value in options.items() if name in names}
    if options.get("s3.endpoint", "").startswith("http:"):
        found["AWS_ALLOW_HTTP"] = "true"
    return {"aws_conditional_put": "etag", **found}


class DeltaTable:
    """One table; see `open_delta`."""

    one_period_a_file = False  # the folder says it

    def __init__(self, url: str, table: NativeTable, partitioning: str, options: Mapping[str, str]) -> None:
        self._table = table
        self._folders = folder_columns(partitioning)
        self.files_url = url
        self.files_options = dict(options) if url.startswith("s3") else {}

    def last_run(self, head: Head) -> int:
        """By the number that Delta keeps for this topic."""
        self._table.update_incremental()
        return self._table.transaction_version(_application(head)) or 0

    def add(self, head: Head, run: Run) -> None:
        """One commit; Delta itself keeps the number of the last run of this topic, so that none is added twice."""
        from deltalake import CommitProperties, Transaction  # noqa: PLC0415 - an extra

        last = self.last_run(head)
        actions: list[AddAction | RemoveAction] = [
            self._action(file, run.created_ms) for span in run.spans for file in span.files
        ]
        if not actions or last >= run.seq:
            return  # above it, another process has added this run and gone on: `LedgerStore.publish` sees that
        offsets = {str(partition): spans[-1][1] for partition, spans in sorted(head.coverage.items()) if spans}
        self._table.create_write_transaction(
            actions,
            "append",
            _schema(self._folders),
            list(self._folders),
            commit_properties=CommitProperties(
                custom_metadata={"stratalog.run": run.name, "stratalog.offsets": json.dumps(offsets)},
                app_transactions=[Transaction(_application(head), run.seq)],
            ),
        )

    def _action(self, file: OutputFile, created_ms: int) -> AddAction:
        from deltalake.transaction import AddAction as Add  # noqa: PLC0415 - an extra

        values = {name: None if value == NO_VALUE else unquote(value) for name, value in _FOLDER.findall(file.path)}
        stats = {
            "numRecords": file.rows,
            "minValues": {"offset": file.first},
            "maxValues": {"offset": file.last},
            "nullCount": {"offset": 0},
        }
        return Add(file.path, file.size_bytes, values, created_ms, data_change=True, stats=json.dumps(stats))


def _application(head: Head) -> str:
    return f"stratalog-backfill-{head.topic}-{head.topic_id}"
