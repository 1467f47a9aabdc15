"""Answers of the archive's workers (`tier.messages.commands` has the commands). All can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from stratalog.tier.bucket.catalogue import Catalogue
from stratalog.tier.bucket.cuts import Cut
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.parts import Uploaded
from stratalog.tier.manifests.second_timeline import BatchMark
from stratalog.tier.manifests.view import ManifestView
from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.store import Version

__all__ = [
    "AbortedRead",
    "ArchiveRemoved",
    "BoundedViewRead",
    "BucketSeen",
    "CacheScanned",
    "CatalogueRead",
    "ChunksFilled",
    "CorruptReport",
    "CutRead",
    "DeletedReport",
    "FailedReport",
    "FencedReport",
    "FilledChunk",
    "FooterRead",
    "LastBatchRead",
    "LostReport",
    "ManifestRead",
    "ManifestUnchanged",
    "MissingReport",
    "MovedReport",
    "ObjectsMerged",
    "Report",
    "RestartStateRead",
    "SecondTimelineReport",
    "Tail",
    "TimestampFound",
    "TrashEmptied",
    "UploadDone",
    "VerifiedUpTo",
    "Written",
]


class ManifestRead(Struct, frozen=True):
    """The manifest after the command."""

    view: ManifestView


class ObjectsMerged(Struct, frozen=True):
    """``object_count`` small objects are one of ``data_bytes`` now; none, if there were too few of them."""

    view: ManifestView
    object_count: int = 0
    data_bytes: int = 0


class ManifestUnchanged(Struct, frozen=True):
    """The manifest still has this version."""

    version: Version


class UploadDone(Struct, frozen=True):
    """The object is complete and was checked; nothing names it yet."""

    uploaded: Uploaded


class VerifiedUpTo(Struct, frozen=True):
    """Everything of the asked range below ``offset`` is in the manifest, and HEAD agreed with it."""

    offset: int


class FilledChunk(Struct, frozen=True):
    """One chunk is on the disk, checked: from byte ``start`` of the file ``path`` on.

    That is a file of its own in the cache, or, if ``shared``, the archived object itself, which must not be removed.

    ``offsets`` (little-endian int64) and ``positions`` (little-endian int32, from the chunk's start) are the sparse
    index: base offset and position of about one batch in 4 KiB, the first batch always. ``next_offset`` follows the
    last batch.
    """

    path: str
    length: int
    offsets: bytes
    positions: bytes
    next_offset: int
    start: int = 0
    shared: bool = False


class ChunksFilled(Struct, frozen=True):
    """All chunks asked for, in order; none if the cache's disk is full.

    ``free_bytes`` are free on that disk; -1 if nothing was written.
    """

    key: str
    chunks: tuple[FilledChunk, ...]
    free_bytes: int = -1


class CacheScanned(Struct, frozen=True):
    """Names and lengths of the regular files in the cache's directory, written longest ago first."""

    files: tuple[tuple[str, int], ...]
    free_bytes: int


class TimestampFound(Struct, frozen=True):
    """The record; ``offset`` is -1 if the object has none."""

    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class FooterRead(Struct, frozen=True):
    """``chunks`` are the rows of the chunk table, as `ChunkTable.from_bytes` takes them.

    ``filled`` is the ``number``-th of them, if it was asked for and could be had.
    """

    key: str
    chunks: bytes
    blobs: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    number: int = -1
    filled: FilledChunk | None = None


class AbortedRead(Struct, frozen=True):
    """All aborted transactions that overlap the object."""

    key: str
    aborted: AbortedRanges


class RestartStateRead(Struct, frozen=True):
    """Leader epochs and Kafka producer snapshot as of the object's end."""

    key: str
    leader_epochs: tuple[LeaderEpoch, ...]
    producer_snapshot: bytes


class Tail(Struct, frozen=True):
    """The last part of a view that ends inside a chunk: batches of the offsets ``[base, end)``, ready to be served.

    They come from the chunk numbered ``chunk_count`` of the object ``key``; those before it belong to the view as they
    are. ``aborted`` are the transactions that overlap, the last three fields the first record with the largest time.
    ``ends`` has the next offset behind each batch, ``positions`` where each begins in ``data``, and the end: 8 bytes a number.
    """

    key: str
    chunk_count: int
    base: int
    end: int
    data: bytes
    ends: bytes
    positions: bytes
    aborted: tuple[AbortedTransaction, ...] = ()
    latest_ms: int = -1
    latest_offset: int = -1
    latest_epoch: int = -1


class BoundedViewRead(Struct, frozen=True):
    """A manifest cut off at ``end_offset``, or where the tail begins.

    ``covered`` is False where the archive does not reach as far as was asked for: more may belong to the view.
    """

    view: ManifestView
    end_offset: int
    covered: bool
    tail: Tail | None = None


class BucketSeen(Struct, frozen=True):
    """The bucket's identity, whether the cluster has archived there, and the last start that its broker noted.

    Texts are empty where the bucket says nothing.
    """

    bucket_id: str
    cluster_known: bool
    start_id: str


class CatalogueRead(Struct, frozen=True):
    """The topics of the bucket."""

    catalogue: Catalogue


class CutRead(Struct, frozen=True):
    """The part of the topic that was asked for in a complete cut, which may have a hundred thousand partitions."""

    cut: Cut


class Written(Struct, frozen=True):
    """The store holds the document as asked."""

    key: str


class TrashEmptied(Struct, frozen=True):
    """Objects removed from the trash, and those left in it.

    ``next_ms`` is when the grace of the next item ends, None if none is dated. ``claim_needed``: there is something
    to do, but the manifest does not carry the claim yet. ``problem`` is why something cannot go. ``seq`` is
    the manifest's number after it, -1 if it was not looked at to the end. ``leased_count`` items could have gone if no
    lease held them; ``job_count`` are the jobs that are listed.
    """

    removed_count: int = 0
    removed_bytes: int = 0
    left_count: int = 0
    next_ms: int | None = None
    claim_needed: bool = False
    problem: str = ""
    seq: int = -1
    left_bytes: int = 0
    leased_count: int = 0
    job_count: int = 0


class ArchiveRemoved(Struct, frozen=True):
    """``left_count`` objects of the archive, the manifest among them, have to wait; 0: nothing is left of it.

    ``problem`` is why something cannot go.
    """

    left_count: int
    problem: str = ""


class FencedReport(Struct, frozen=True):
    """A higher claim exists: stand down."""

    message: str


class LastBatchRead(Struct, frozen=True):
    """The last batch of an object; None if a compaction or an erasure has written it anew."""

    key: str
    batch: BatchMark | None


class SecondTimelineReport(Struct, frozen=True):
    """The manifest was claimed, under ``leader_epoch``, by a run that this data directory does not know."""

    message: str
    leader_epoch: int


class LostReport(Struct, frozen=True):
    """The bucket does not hold the archive that is known to exist: change nothing until it does."""

    message: str


class DeletedReport(Struct, frozen=True):
    """The archive was moved to the trash under this very claim: begin it again, or leave it."""

    message: str


class MovedReport(Struct, frozen=True):
    """The archive ends at ``remote_end``, not where the command assumed."""

    remote_end: int
    message: str


class MissingReport(Struct, frozen=True):
    """The object is gone: read the manifest again, it may have been replaced or removed by retention."""

    key: str
    message: str


class CorruptReport(Struct, frozen=True):
    """Bytes fail their check. ``place`` is a local path or an object's key; ``offset`` -1 means unknown."""

    partition: PartitionId | None
    place: str
    position: int
    offset: int
    message: str


class FailedReport(Struct, frozen=True):
    """The command failed. When ``retriable``, it may have been carried out all the same: send it again.

    ``local``: it was the broker's own disk that failed, the bucket is not in question.
    """

    message: str
    retriable: bool
    local: bool = False


Report: TypeAlias = (
    ManifestRead
    | ManifestUnchanged
    | ObjectsMerged
    | UploadDone
    | VerifiedUpTo
    | ChunksFilled
    | CacheScanned
    | TimestampFound
    | FooterRead
    | AbortedRead
    | RestartStateRead
    | BoundedViewRead
    | BucketSeen
    | CatalogueRead
    | CutRead
    | Written
    | TrashEmptied
    | ArchiveRemoved
    | FencedReport
    | LastBatchRead
    | LostReport
    | DeletedReport
    | SecondTimelineReport
    | MovedReport
    | MissingReport
    | CorruptReport
    | FailedReport
)
