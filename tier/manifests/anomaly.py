"""Kinds of damage in an archive: fifteen, each with its meaning and advice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["Anomaly", "AnomalyKind"]


class AnomalyKind(StrEnum):
    """The kinds; the value is what people and ``--json`` see."""

    MISSING_MANIFEST = "missing-manifest"
    MISSING_PAGE = "missing-page"
    MISSING_OBJECT = "missing-object"
    BROKEN_HISTORY = "broken-history"
    WRONG_BOUNDS = "wrong-bounds"
    OFFSET_GAP = "offset-gap"
    OFFSET_OVERLAP = "offset-overlap"
    EPOCH_ORDER = "epoch-order"
    ORPHAN_OBJECT = "orphan-object"
    FOREIGN_KEY = "foreign-key"
    WRONG_LENGTH = "wrong-length"
    WRONG_CRC = "wrong-crc"
    ENTRY_DIFFERS = "entry-differs"
    BROKEN_BATCHES = "broken-batches"
    UNREADABLE_INDEX = "unreadable-index"

    @property
    def meaning(self) -> str:
        """The meaning, in a sentence."""
        return _TEXTS[self].meaning

    @property
    def advice(self) -> str:
        """The advice, in a sentence."""
        return _TEXTS[self].advice


class _Text(NamedTuple):
    meaning: str
    advice: str


_PLAN: Final = "See what `stratalog tier repair --plan` would do, then apply it."
_OTHER_COPY: Final = (
    "Put the object back from a copy or an older version of the bucket; without one, `tier repair` can take it out."
)

_TEXTS: Final[Mapping[AnomalyKind, _Text]] = MappingProxyType(
    {
        AnomalyKind.MISSING_MANIFEST: _Text(
            "A partition has objects but its manifest is not there or cannot be read: readers cannot find them.", _PLAN
        ),
        AnomalyKind.MISSING_PAGE: _Text(
            "The manifest names a page of older entries that is not there or cannot be read.", _PLAN
        ),
        AnomalyKind.MISSING_OBJECT: _Text(
            "An entry names an object that the store does not have: its offsets cannot be read.", _OTHER_COPY
        ),
        AnomalyKind.BROKEN_HISTORY: _Text(
            "A copy of an earlier manifest is missing, or is not the one whose hash its successor remembers.",
            "Reading is not affected; find out who wrote to the bucket besides its brokers.",
        ),
        AnomalyKind.WRONG_BOUNDS: _Text(
            "Log start, remote end or totals of a manifest are not those of its entries.", _PLAN
        ),
        AnomalyKind.OFFSET_GAP: _Text("Offsets between two neighbouring entries are in no object.", _PLAN),
        AnomalyKind.OFFSET_OVERLAP: _Text("Two neighbouring entries hold the same offsets.", _PLAN),
        AnomalyKind.EPOCH_ORDER: _Text(
            "Leader epochs go back from one offset to a later one, or are not in the manifest's history.",
            "Two leaders wrote at one time: compare the objects with `stratalog dump` before anything is repaired.",
        ),
        AnomalyKind.ORPHAN_OBJECT: _Text(
            "No manifest, page, trash or job names an object that is older than the grace: it only takes room.",
            "`stratalog tier gc` removes it once the partition has a later leader.",
        ),
        AnomalyKind.FOREIGN_KEY: _Text(
            "A key below topics/ is none of the format, or an object or entry belongs to another partition.",
            "Nothing of ours touches it; move it away if it is not wanted, restore the right object if it was replaced.",
        ),
        AnomalyKind.WRONG_LENGTH: _Text(
            "The store holds more or fewer bytes of an object than were uploaded.", _OTHER_COPY
        ),
        AnomalyKind.WRONG_CRC: _Text("Bytes of an object fail the CRC-32C of object, chunk or batch.", _OTHER_COPY),
        AnomalyKind.ENTRY_DIFFERS: _Text(
            "The manifest's entry, the object's footer and its data do not say the same.",
            "The footer travels with the data: `tier repair` takes the entry from it if the data agrees.",
        ),
        AnomalyKind.BROKEN_BATCHES: _Text(
            "Batches of an object do not follow each other, or do not hold the records they say.", _OTHER_COPY
        ),
        AnomalyKind.UNREADABLE_INDEX: _Text(
            "Footer, chunk table, index or another small part of an object cannot be read or points to no batch.",
            _OTHER_COPY,
        ),
    }
)


class Anomaly(NamedTuple):
    """One thing that is wrong. ``offset`` is -1 where no offset is meant; ``partition`` is -1 for a whole topic."""

    kind: AnomalyKind
    topic: str
    partition: int
    key: str
    offset: int
    detail: str

    @property
    def identity(self) -> tuple[str, str, int]:
        """The key by which two findings are the same one."""
        return self.kind, self.key, self.offset
