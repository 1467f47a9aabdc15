"""The small parts of a ``.seg`` object that are Kafka's own file formats: indexes, epochs, aborted transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.wire.errors import Corrupt

__all__ = [
    "ABORTED_BYTES",
    "OFFSET_ENTRY",
    "TIME_ENTRY",
    "AbortedTransaction",
    "aborted_from_bytes",
    "aborted_to_bytes",
    "epochs_from_bytes",
    "epochs_to_bytes",
]

OFFSET_ENTRY: Final = Struct(">ii")
"""Last offset of a batch relative to the range's base, and the batch's position (Kafka's ``OffsetIndex``)."""
TIME_ENTRY: Final = Struct(">qi")
"""Largest timestamp so far, and the last offset of its batch relative to the base (Kafka's ``TimeIndex``)."""
_ABORTED: Final = Struct(">hqqqq")
_ABORTED_VERSION: Final = 0
ABORTED_BYTES: Final = _ABORTED.size
_EPOCHS_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction: a read_committed reader drops its producer's data from the first to the last offset.

    ``last_offset`` is that of the abort marker. Source: Kafka's ``AbortedTxn``, the rows of ``.txnindex``.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def aborted_to_bytes(aborted: Iterable[AbortedTransaction]) -> bytes:
    """Rows of Kafka's transaction index."""
    return b"".join(_ABORTED.pack(_ABORTED_VERSION, *transaction) for transaction in aborted)


def aborted_from_bytes(data: bytes | memoryview) -> tuple[AbortedTransaction, ...]:
    """The inverse of :func:`aborted_to_bytes`. Raises `Corrupt` for another length or a newer version."""
    if len(data) % ABORTED_BYTES:
        raise Corrupt(f"{len(data)} bytes of aborted transactions are not a multiple of {ABORTED_BYTES}")
    rows = []
    for version, *fields in _ABORTED.iter_unpack(data):
        if version > _ABORTED_VERSION:
            raise Corrupt(f"aborted transactions of version {version} are newer than this reader")
        rows.append(AbortedTransaction._make(fields))
    return tuple(rows)


def epochs_to_bytes(epochs: Sequence[LeaderEpoch]) -> bytes:
    """The text of Kafka's ``leader-epoch-checkpoint``: version, count, then ``epoch start_offset`` a line."""
    lines = [str(_EPOCHS_VERSION), str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]
    return ("\n".join(lines) + "\n").encode("ascii")


def epochs_from_bytes(data: bytes) -> tuple[LeaderEpoch, ...]:
    """The inverse of :func:`epochs_to_bytes`. Raises `Corrupt`."""
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        epochs = tuple(LeaderEpoch(*map(int, line.split())) for line in lines)
        if int(version) != _EPOCHS_VERSION or int(count) != len(epochs):
            raise ValueError(f"version {version}, {count} epochs announced, {len(epochs)} there")
    except (ValueError, TypeError) as error:
        raise Corrupt(f"a leader epoch checkpoint is damaged: {error}") from error
    return epochs
