"""Where a read collects what it had to leave out: one small JSON document for each damaged range of offsets.

A document's name is made from what it says, so a task that runs twice, or two queries over the same damage, leave one.
It tells topic, partition, offsets, object, position and reason; the bytes stay where they are, in the object.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from stratalog.tier.documents.json import parse_json
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.errors import Corrupt

__all__ = ["BAD_RECORDS_DDL", "BadRange", "Quarantine"]

BAD_RECORDS_DDL: Final = (
    "topic string, partition int, startOffset bigint, endOffset bigint, archive string, object string, "
    "position bigint, length bigint, reason string"
)
_PREFIX: Final = "bad-"

_logger = logging.getLogger("stratalog.spark")


class BadRange(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` that were left out; ``position`` and ``length`` are the damaged bytes of
    the object, None where it is not known which they are.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    archive: str
    key: str
    position: int | None
    length: int | None
    reason: str

    def to_bytes(self) -> bytes:
        """The document, one line of JSON."""
        names = (column.split()[0] for column in BAD_RECORDS_DDL.split(", "))
        return json.dumps(dict(zip(names, self, strict=True)), sort_keys=True).encode() + b"\n"

    @classmethod
    def from_bytes(cls, raw: bytes, name: str) -> BadRange:
        """The inverse of :meth:`to_bytes`. Raises `Corrupt`."""
        names = (column.split()[0] for column in BAD_RECORDS_DDL.split(", "))
        try:
            fields: dict[str, Any] = parse_json(raw, name)
            return cls(*(fields[column] for column in names))
        except (Corrupt, LookupError, TypeError) as error:
            raise Corrupt(f"{name} does not tell of bad records: {error}") from error


class Quarantine:
    """A place for `BadRange` documents; safe for many threads and many tasks at once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def add(self, found: BadRange) -> None:
        """Keep it, and log a warning. Raises what the store raises: nothing is left out without being told."""
        document = found.to_bytes()
        self._store.put(f"{_PREFIX}{hashlib.sha256(document).hexdigest()[:32]}.json", document)
        _logger.warning(
            "%s-%d: offsets %d to %d are left out, because badRecords is quarantine: object %s: %s",
            found.topic, found.partition, found.start_offset, found.end_offset - 1, found.key, found.reason,
        )  # fmt: skip

    def ranges(self) -> Iterator[BadRange]:
        """Omissions so far. Raises `Corrupt` for a foreign document, and what the store raises."""
        for info in self._store.list(_PREFIX):
            yield BadRange.from_bytes(self._store.get(info.key)[0], info.key)
