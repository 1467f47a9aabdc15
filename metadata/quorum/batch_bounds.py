"""How much a batch of the metadata log, or of a snapshot of it, may hold.

A batch is encoded, sent and applied as one. A leader with one that no follower gets in time is deposed, and the next leader
is asked for the same records. Source: Kafka's ``BatchAccumulator``, whose batches have 8 MiB at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stratalog.wire.batch import HEADER_BYTES

__all__ = ["BATCH_BYTES_MAX", "RECORD_OVERHEAD_BYTES", "TEXT_BYTES_MAX", "parts"]

BATCH_BYTES_MAX: Final = 8 << 20
"""The bytes of a batch, with its header (Kafka's ``MAX_BATCH_SIZE_BYTES``)."""
RECORD_OVERHEAD_BYTES: Final = 32
"""More than the bytes that a record of a batch has beside its value: six varints, attributes, and no key."""
TEXT_BYTES_MAX: Final = 32_767
"""The bytes of a text in a record: Kafka's nodes cannot read a longer one, and end."""


def parts(sizes: Sequence[int], records_max: int) -> Iterator[slice]:
    """The batches of records whose values have these sizes in bytes: as few as can be, in their order.

    A record that fits no batch has one of its own.
    """
    first, size = 0, HEADER_BYTES
    for index, value_bytes in enumerate(sizes):
        record_bytes = value_bytes + RECORD_OVERHEAD_BYTES
        if index - first == records_max or (index > first and size + record_bytes > BATCH_BYTES_MAX):
            yield slice(first, index)
            first, size = index, HEADER_BYTES
        size += record_bytes
    if first < len(sizes):
        yield slice(first, len(sizes))
