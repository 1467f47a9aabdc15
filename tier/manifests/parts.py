"""The values that a manifest is made of: who claims it, its sums, its trash, references to its pages, jobs and pins.

Pure and immutable. They are changed in `tier.manifests.manifest`, `tier.manifests.pages`, `tier.manifests.jobs` and
`tier.manifests.pins`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.tier.documents.unknown_fields import UnknownFields
from stratalog.tier.manifests.entry import Entry
from stratalog.wire.topic import ZERO_UUID, Uuid, uuid_text

__all__ = [
    "HISTORY_KIND",
    "LOG_START_MOVED",
    "NOBODY",
    "PAGE_KIND",
    "Claimant",
    "CommitNote",
    "HistoryRef",
    "Job",
    "PageRef",
    "Pin",
    "Totals",
    "TrashEntry",
    "Uploaded",
    "totals_of",
    "totals_of_pages",
    "trashed_entry",
]

PAGE_KIND: Final = "page"
"""The kind of a `TrashEntry` that stands for a page and for the objects of its entries."""

HISTORY_KIND: Final = "history"
"""The kind of a `TrashEntry` that stands for a history copy and for all that sort before it."""

LOG_START_MOVED: Final = "log start moved"
"""The reason of what lies below a log start that retention or a client may have moved: judged, because it may have been
retention.
"""


class Claimant(NamedTuple):
    """A writer: one leadership of one broker in one incarnation of the cluster. ``uuid`` is its own mark."""

    incarnation: int
    leader_epoch: int
    uuid: Uuid
    broker_id: int = -1

    @property
    def rank(self) -> tuple[int, int]:
        """The key by which claims are compared."""
        return self.incarnation, self.leader_epoch

    @property
    def words(self) -> str:
        """For messages."""
        return (
            f"incarnation {self.incarnation}, leader epoch {self.leader_epoch}, broker {self.broker_id}, "
            f"claim {uuid_text(self.uuid)}"
        )


NOBODY: Final = Claimant(-1, -1, ZERO_UUID)
"""The claimant of a manifest that was never claimed."""


class Uploaded(NamedTuple):
    """An object that is complete in the store, and the claim under which it was uploaded."""

    entry: Entry
    claimant: Claimant


class Totals(NamedTuple):
    """Sums over all live entries, pages included."""

    segments: int = 0
    size_bytes: int = 0
    records: int = 0

    def plus(self, other: Totals) -> Totals:
        """Both together."""
        return Totals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: Totals) -> Totals:
        """The remainder without ``other``."""
        return Totals(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def totals_of(entries: Iterable[Entry]) -> Totals:
    """The sums over ``entries``."""
    segments = size_bytes = records = 0
    for entry in entries:
        segments += 1
        size_bytes += entry.size_bytes
        records += entry.record_count
    return Totals(segments, size_bytes, records)


class CommitNote(NamedTuple):
    """One of the latest changes: which manifest number, what, by which leader epoch, remote end after it, when."""

    seq: int
    kind: str
    leader_epoch: int
    remote_end: int
    at_ms: int


class TrashEntry(Struct, frozen=True):
    """An object that is no longer served. ``since_ms`` is -1 until a later change has dated it (rule 9).

    For `PAGE_KIND`, ``key`` is a page without live entries: it stands for the page and for the objects of
    its entries from number ``dead_count`` on; the objects of those before have trash entries of their own.
    ``size_bytes`` then counts page and objects, ``epoch`` is the highest of the leader epochs. For `HISTORY_KIND`, it
    stands for the history copy ``key`` and for all that sort before it. ``max_timestamp_ms`` is the newest record
    time in it, -1 if unknown: retention is judged by it once more before the object goes (rule 6).
    """

    key: str
    size_bytes: int
    epoch: int
    seq: int
    reason: str
    since_ms: int = -1
    kind: str = ""
    dead_count: int = 0
    max_timestamp_ms: int = -1
    unknown: UnknownFields = ()


class PageRef(Struct, frozen=True):
    """An immutable object with older entries, those of offsets ``[first, end)``, written by the change ``seq``.

    ``dead_count`` leading entries of its ``entry_count`` are no longer live; ``live_first`` is the base of the first
    one that is. Totals, timestamps and ``aborted_count`` (entries that aborted transactions overlap) are those of all
    that was live when the reference was made, except that ``totals`` always follows ``dead_count``. ``size_bytes``
    and ``crc32c`` are those of the stored, compressed bytes; ``epoch_max`` is the highest leader epoch of an uploader;
    ``front_timestamp_ms`` is the largest timestamp of the first live entry, by which retention by time decides.
    """

    key: str
    first: int
    end: int
    seq: int
    entry_count: int
    size_bytes: int
    crc32c: int
    totals: Totals
    min_timestamp_ms: int
    max_timestamp_ms: int
    aborted_count: int
    epoch_max: int
    live_first: int
    front_timestamp_ms: int
    dead_count: int = 0
    unknown: UnknownFields = ()


def totals_of_pages(pages: Iterable[PageRef]) -> Totals:
    """The sums over the live entries of ``pages``."""
    total = Totals()
    for page in pages:
        total = total.plus(page.totals)
    return total


def trashed_entry(entry: Entry, seq: int, reason: str) -> TrashEntry:
    """An entry's object in the trash of the change ``seq``."""
    return TrashEntry(entry.key, entry.size_bytes, entry.epoch, seq, reason, max_timestamp_ms=entry.max_timestamp_ms)


class Job(Struct, frozen=True):
    """A rewriting job in progress (rule 9): the entries ``inputs`` are to be replaced by an object with its uuid.

    While it is listed, its inputs and its own object are protected, whatever the clock says: ``expires_ms`` only says
    when another writer may strike it off, by compare-and-swap.
    """

    uuid: Uuid
    kind: str
    listed_ms: int
    expires_ms: int
    inputs: tuple[Uuid, ...] = ()
    unknown: UnknownFields = ()


class Pin(Struct, frozen=True):
    """A cut that needs the offsets ``[log_start_offset, remote_end)`` as they were when it was made (rule 9).

    ``seq`` is the number of the change that pinned: trash of later changes is what it may need.
    """

    cut_id: str
    created_ms: int
    remote_end: int
    log_start_offset: int
    seq: int = -1
    unknown: UnknownFields = ()


class HistoryRef(Struct, frozen=True):
    """A full copy of the manifest numbered ``seq``; ``sha256`` (hex) is that of its bytes before compression.

    The copy names its own predecessor: together they are a chain back to the first page, or to the copy numbered
    ``start``: those below were removed on purpose, one from there on that is missing was lost.
    """

    seq: int
    key: str
    sha256: str
    start: int = 0
    unknown: UnknownFields = ()
