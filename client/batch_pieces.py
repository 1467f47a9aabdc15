"""Which records of a partition go in one batch: as many as a topic takes by default, and fewer where it takes less.

The limit of a topic is that of a batch, and of each of its records. So a batch that is too large is sent again in halves, as
Java's producer does, and a record alone is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from stratalog.wire.batch import Header

__all__ = ["BatchPieces"]

_BATCH_BYTES_MAX: Final = 900_000
"""The default of ``max.message.bytes`` is 1,048,588."""
_RECORD_BYTES: Final = 32
"""At most what a record has besides keys and values: lengths, and how far time and offset are from the first one's."""


class _Sized(Protocol):
    """The part of a record that takes bytes."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[Header, ...]: ...


class BatchPieces:
    """Records by their indexes, in the order in which each partition gets them; one batch of a partition at a time."""

    def __init__(self, records: Sequence[_Sized], groups: Mapping[int, Sequence[int]]) -> None:
        """``groups`` are the indexes of the records of each partition."""
        self._left = {partition: deque(_cut(records, indexes)) for partition, indexes in groups.items()}

    def heads(self) -> dict[int, Sequence[int]]:
        """The next batch of each partition that has one."""
        return {partition: left[0] for partition, left in self._left.items() if left}

    def taken(self, partition: int) -> None:
        """The next batch of a partition is in its log."""
        self._left[partition].popleft()

    def halve(self, partition: int) -> bool:
        """Have the next batch of a partition go in halves; False for a batch of one record."""
        left = self._left[partition]
        if len(left[0]) == 1:
            return False
        whole = left.popleft()
        middle = len(whole) // 2
        left.extendleft((whole[middle:], whole[:middle]))
        return True


def _cut(records: Sequence[_Sized], indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    start = size_bytes = 0
    for at, index in enumerate(indexes):
        record_bytes = _size_bytes(records[index])
        if at > start and size_bytes + record_bytes > _BATCH_BYTES_MAX:
            yield indexes[start:at]
            start, size_bytes = at, 0
        size_bytes += record_bytes
    if indexes:
        yield indexes[start:]


def _size_bytes(record: _Sized) -> int:
    size_bytes = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    for header in record.headers:
        size_bytes += _RECORD_BYTES + len(header.key_bytes) + len(header.value or b"")
    return size_bytes
