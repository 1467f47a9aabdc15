"""Names in the target of a backfill: data files, staged files and the ledger. Pure.

``<root>/<topic>/date=2026-11-22/<topic>+<partition>+<first offset>+<last offset>.parquet``. Everything else lies under
``_stratalog/``, which Spark, Hive, pyarrow and DuckDB do not take for data. Offsets have twenty digits, so that a
listing is in their order; a file that a rewrite made says so by ``+r<run>``, since no name is used twice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import accumulate
from typing import Final

__all__ = [
    "LAYOUT_VERSION",
    "checkpoint_key",
    "day_folder",
    "file_name",
    "head_key",
    "hour_folder",
    "run_key",
    "run_name",
    "run_seq",
    "staging_prefix",
    "topic_folder",
    "value_folder",
]

LAYOUT_VERSION: Final = 1
HIDDEN: Final = "_stratalog/backfill/"
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Name that Hive and Spark give to the folder of rows without a value."""

_DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR: Final = timedelta(hours=1)
_FIRST_HOUR: Final = (datetime(1000, 1, 1, tzinfo=UTC) - _EPOCH) // _HOUR
_LAST_HOUR: Final = (datetime(9999, 12, 31, 23, tzinfo=UTC) - _EPOCH) // _HOUR
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_. @,;()~")
_VALUE_BYTES_MAX: Final = 120
_HASH_CHARS: Final = 16
_NAME_CHARS_MAX: Final = 180
"""Bytes of a topic in a file's name: partition, offsets and a run take 75 bytes, and file systems hold 255."""


def topic_folder(topic: str) -> str:
    """The folder of a topic; a leading dot or underscore would hide it and is escaped."""
    return f"%{ord(topic[0]):02X}{topic[1:]}" if topic[:1] in {".", "_"} else topic


def file_name(topic: str, partition: int, first: int, last: int, rewritten_by: int = 0) -> str:
    """The name of the file whose first and last row have these offsets; ``rewritten_by`` is a run's number, or 0.

    Long names of topics are cut: the folder has the whole one.
    """
    rewrite = f"+r{rewritten_by}" if rewritten_by else ""
    return f"{topic_folder(topic)[:_NAME_CHARS_MAX]}+{partition}+{first:020}+{last:020}{rewrite}.parquet"


def day_folder(time_us: int) -> str:
    """``date=2026-11-22`` for a time in microseconds since 1970, in UTC; no calendar has a name for some of them."""
    moment = _moment(time_us // _HOUR_US)
    return f"date={moment:%Y-%m-%d}" if moment else f"date={NO_VALUE}"


def hour_folder(time_us: int) -> str:
    """``date=2026-11-22/hour=07``."""
    moment = _moment(time_us // _HOUR_US)
    return f"date={moment:%Y-%m-%d}/hour={moment:%H}" if moment else f"date={NO_VALUE}/hour={NO_VALUE}"


def _moment(hours: int) -> datetime | None:
    """None outside of the years 1000 to 9999, which text of a fixed length can tell."""
    return _EPOCH + hours * _HOUR if _FIRST_HOUR <= hours <= _LAST_HOUR else None


def value_folder(column: str, value: str | None) -> str:
    """``carrier=AA``, escaped as Hive does it. A value of more than 120 bytes is cut, and ends with a hash of all of it."""
    if value is None or not value:
        return f"{column}={NO_VALUE}"
    escaped = _escaped(value)
    if len(escaped.encode()) <= _VALUE_BYTES_MAX:
        return f"{column}={escaped}"
    room = _VALUE_BYTES_MAX - _HASH_CHARS - 1
    ends = accumulate(len(_escaped(each).encode()) for each in value[:room])
    beginning = "".join(each for each, end in zip(value, ends, strict=False) if end <= room)
    return f"{column}={_escaped(beginning)}~{sha256(value.encode()).hexdigest()[:_HASH_CHARS]}"


def _escaped(value: str) -> str:
    # Spark reads %XX as one character, so only ASCII is written so.
    return "".join(each if each in _PLAIN or not each.isascii() else f"%{ord(each):02X}" for each in value)


def head_key(topic: str) -> str:
    """The commit point of a topic."""
    return f"{HIDDEN}{topic_folder(topic)}/ledger.json"


def run_name(seq: int, uuid: str) -> str:
    """The key that makes a run unique, and sorts it."""
    return f"{seq:012}-{uuid}"


def run_seq(name: str) -> int:
    """The number in a `run_name`; 0 if it is none."""
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def run_key(topic: str, name: str) -> str:
    """The record of one run."""
    return f"{HIDDEN}{topic_folder(topic)}/runs/{name}.json"


def checkpoint_key(topic: str, name: str) -> str:
    """The records of all runs up to this one, joined."""
    return f"{HIDDEN}{topic_folder(topic)}/checkpoints/{name}.json"


def staging_prefix(topic: str, name: str = "") -> str:
    """Where the files of a run wait for its commit; without a name, where those of all runs do."""
    return f"{HIDDEN}{topic_folder(topic)}/staging/" + (f"{name}/" if name else "")
