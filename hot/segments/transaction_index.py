"""The ``.txnindex`` file: the aborted transactions whose markers stand in one segment.

34 bytes an entry, big-endian: int16 version 0, int64 producer id, int64 first offset, int64 last offset (the
marker's), int64 last stable offset when the marker was written; ascending in last offset. The file appears with
the first abort. Source: Kafka's ``TransactionIndex`` and ``AbortedTxn``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import File, Filesystem, append_all
from stratalog.wire.errors import Corrupt

__all__ = [
    "ABORTED_ENTRY_BYTES",
    "VOID",
    "AbortedTxn",
    "aborted_from_bytes",
    "aborted_to_bytes",
    "overlapping",
    "store_aborted",
]

_ENTRY: Final = Struct(">hqqqq")
ABORTED_ENTRY_BYTES: Final = _ENTRY.size
_VERSION: Final = 0
VOID: Final = -1
"""Instead of the number of entries that a file has: they count for nothing."""


class AbortedTxn(NamedTuple):
    """An aborted transaction: its records in ``[first_offset, last_offset]`` of this producer are void."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_last_offset: Final = attrgetter("last_offset")


def aborted_to_bytes(transactions: Iterable[AbortedTxn]) -> bytes:
    """The entries as the file holds them."""
    return b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in transactions)


def aborted_from_bytes(data: bytes) -> list[AbortedTxn]:
    """Parse a ``.txnindex`` file. Raises `Corrupt`; the index is then rebuilt from the log."""
    if len(data) % ABORTED_ENTRY_BYTES:
        raise Corrupt(f"a transaction index of {len(data)} bytes is not whole entries of {ABORTED_ENTRY_BYTES}")
    transactions = []
    last = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        transaction = AbortedTxn(*fields)
        if version != _VERSION or transaction.last_offset <= last:
            raise Corrupt(f"a transaction index entry of version {version} at offset {transaction.last_offset}")
        last = transaction.last_offset
        transactions.append(transaction)
    return transactions


def overlapping(transactions: Sequence[AbortedTxn], from_offset: int, to_offset: int) -> tuple[list[AbortedTxn], bool]:
    """Those that touch ``[from_offset, to_offset)``, and whether no later one does.

    They ascend by their markers. Behind an entry whose last stable offset is not below ``to_offset`` there is none: nothing
    before that was open any more. So a read looks at few of them, however many a segment has.
    """
    found: list[AbortedTxn] = []
    for number in range(bisect_left(transactions, from_offset, key=_last_offset), len(transactions)):
        transaction = transactions[number]
        if transaction.first_offset < to_offset:
            found.append(transaction)
        if transaction.last_stable_offset >= to_offset:
            return found, True
    return found, False


def store_aborted(files: Filesystem, path: str, transactions: Sequence[AbortedTxn], stored_count: int) -> list[File]:
    """Append the entries behind the first ``stored_count``, which the file has. Returns the open file, if it is to be synced.

    One that is `VOID` is replaced in one step, by a durable one: a start sees damage, but no entry that is not there.
    Without transactions there is no file. Raises `OSError`; then the file is as it was, or has a part of the new entries.
    """
    if not transactions:
        files.unlink(path)
        return []
    if stored_count != VOID:
        file = files.open_append(path)
        if not stored_count:
            file.truncate(0)
        append_all(file, [aborted_to_bytes(transactions[stored_count:])])
        return [file]
    write_durably(files, path, aborted_to_bytes(transactions), sync_directory=False)
    return []
