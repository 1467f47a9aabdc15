"""`stratalog.open`: an archive for Python programs, without Spark and without a broker.

.. code-block:: python

    import stratalog

    with stratalog.open("s3://archive/prod") as archive:
        flights = archive.topic("flights").to_arrow(columns=["offset", "value"])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from stratalog.spark.archive_store import open_archive
from stratalog.spark.frames.row_set import Archived, RowSet
from stratalog.spark.frames.segment_list import list_folder, segments_table
from stratalog.spark.frames.selection import Bound, select
from stratalog.spark.source.archive import load_partitions
from stratalog.spark.source.options import Subscription, parse_options
from stratalog.tier.planning.slices import PartitionArchive
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["OpenedArchive", "Topic"]

_OF_THE_ARCHIVE: Final = frozenset({"archive", "path", "lease", "leaseseconds"})
_TOPICS: Final = frozenset({"assign", "subscribe", "subscribepattern"})
_ALL: Final = Subscription(pattern=re.compile(".*", re.DOTALL))


class OpenedArchive:
    """An archive that is being read. As a context manager it gives its lease back at the end.

    ``options`` are those of the Spark source that say how to reach the bucket (``s3.…``) and how long the lease is
    (``lease``, ``leaseSeconds``); ``s3_access_key`` may stand for ``s3.access-key``, and one that is None was not given.
    Raises `Invalid` for a wrong one, and what the store raises when it is opened.
    """

    def __init__(self, url: str | PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        self._options = _texts(options or {}) | {"archive": fspath(url)}
        parsed = parse_options({**self._options, "subscribe": "any"})
        self._archived = Archived(open_archive(parsed.archive, parsed.store_options), parsed.lease_ms)

    @property
    def url(self) -> str:
        """Where the archive lies."""
        return self._archived.store.url

    def topics(self) -> list[str]:
        """The names of its topics, sorted. Raises what the store raises."""
        return sorted({each.partition.topic for each in self._partitions(_ALL)})

    def topic(self, name: str, **options: str | int | bool | None) -> Topic:
        """One topic; ``options`` are those of the Spark source, under their own names. No object is read yet.

        Raises `Invalid` for an option that only the whole archive can have, or that names another topic.
        """
        for each in options:
            if each.lower() in _OF_THE_ARCHIVE:
                raise Invalid(f"option '{each}' holds for the whole archive: give it to stratalog.open")
            if each.lower() in _TOPICS:
                raise Invalid(
                    f"option '{each}' has no meaning for topic '{name}': the name of the topic alone chooses the records"
                )
        return Topic(self._archived, name, self._options | _texts(options))

    def segments(self) -> pa.Table:
        """One row for each object of every topic: offsets, times, records, bytes and key. Raises what the store raises."""
        return segments_table(self._partitions(_ALL))

    def ls(self, path: str = "", *, detail: bool = False) -> list[Any]:
        """Entries under ``path``, as fsspec lists them: topics, their partitions, and the objects of those.

        With ``detail`` dictionaries with ``name``, ``size`` and ``type`` (objects also with ``key`` and ``records``).
        Raises `Invalid` for a path that is not there, and what the store raises.
        """
        topic = path.strip("/").partition("/")[0]
        listed = list_folder(self._partitions(Subscription(topics=(topic,)) if topic else _ALL), path)
        return listed if detail else [each["name"] for each in listed]

    def close(self) -> None:
        """Give the lease back; what was opened from here cannot be read any more."""
        self._archived.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _partitions(self, subscription: Subscription) -> list[PartitionArchive]:
        self._archived.check_open()
        return load_partitions(self._archived.store, subscription)


class Topic:
    """One topic of an archive.

    Every method that reads rows takes ``columns`` (default: all but ``headers``), ``start`` and ``end`` (offsets,
    datetimes with a time zone, or a mapping of partitions to them; ``end`` is not read itself), ``partitions`` and
    ``isolation`` (``read_committed`` or ``read_uncommitted``; else what the options of the topic say). Rows come by partition and offset.
    """

    def __init__(self, archived: Archived, name: str, options: Mapping[str, str]) -> None:
        self._archived = archived
        self._options = options
        self.name = name

    def dataset(
        self,
        *,
        columns: Iterable[str] | None = None,
        start: Bound = None,
        end: Bound = None,
        partitions: Iterable[int] | None = None,
        isolation: str | None = None,
    ) -> RowSet:
        """Rows that can be read many times, by anything that takes Arrow streams. Raises `Invalid`."""
        asked = select(
            self.name,
            self._options,
            columns=columns,
            start=start,
            end=end,
            partitions=partitions,
            isolation=isolation,
        )
        return RowSet(self._archived, asked)

    def scan(self, **selection: Any) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches in bounded memory; see `RowSet.scan` for what it raises."""
        return self.dataset(**selection).scan()

    def to_arrow(self, **selection: Any) -> pa.Table:
        """The rows in memory. Raises what `scan` and its reader raise."""
        return self.dataset(**selection).to_arrow()

    def to_pandas(self, **selection: Any) -> pd.DataFrame:
        """The rows in memory, as pandas has them. Raises what `scan` and its reader raise."""
        return self.dataset(**selection).to_pandas()

    def to_polars(self, **selection: Any) -> pl.DataFrame:
        """The rows in memory, as polars has them. Raises what `scan` and its reader raise."""
        return self.dataset(**selection).to_polars()

    def partitions(self) -> dict[int, tuple[int, int]]:
        """Partition -> its offsets ``(start, end)``; ``end`` is where the archive ends. Raises what the store raises."""
        return {each.partition.partition: (each.log_start_offset, each.end_offset) for each in self._archives()}

    def segments(self) -> pa.Table:
        """One row for each object: offsets, times, records, bytes and key. Raises what the store raises."""
        return segments_table(self._archives())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.dataset().__arrow_c_stream__(requested_schema)

    def _archives(self) -> list[PartitionArchive]:
        self._archived.check_open()
        return load_partitions(self._archived.store, Subscription(topics=(self.name,)))


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {_name(name): _text(value) for name, value in options.items() if value is not None}


def _name(keyword: str) -> str:
    """``s3_access_key`` may stand for ``s3.access-key``, which is no Python name."""
    return "s3." + keyword[3:].replace("_", "-") if keyword.startswith("s3_") else keyword


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
