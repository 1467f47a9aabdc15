"""Commands of the broker to the archive's workers. `tier.messages.reports` has the answers. All can be pickled.

A command names everything it needs: workers keep no state between two of them and may die at any time. Paths and
uuids are chosen by the broker, times are the broker's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from stratalog.tier.bucket.trash import Retention
from stratalog.tier.documents.keys import TOPICS_PREFIX, PartitionId
from stratalog.tier.manifests.history import KeptHistory
from stratalog.tier.manifests.parts import Claimant, Uploaded
from stratalog.tier.manifests.second_timeline import MadeClaims, ReadLastBatch
from stratalog.tier.messages.bucket_commands import LookAtBucket, SignBucket
from stratalog.tier.messages.reports import (
    AbortedRead,
    ArchiveRemoved,
    BoundedViewRead,
    BucketSeen,
    CacheScanned,
    CatalogueRead,
    ChunksFilled,
    CorruptReport,
    CutRead,
    DeletedReport,
    FailedReport,
    FencedReport,
    FilledChunk,
    FooterRead,
    LastBatchRead,
    LostReport,
    ManifestRead,
    ManifestUnchanged,
    MissingReport,
    MovedReport,
    ObjectsMerged,
    Report,
    RestartStateRead,
    SecondTimelineReport,
    TimestampFound,
    TrashEmptied,
    UploadDone,
    VerifiedUpTo,
    Written,
)
from stratalog.tier.objects.chunk_table import Chunk
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.objects.segment_upload import PART_BYTES
from stratalog.tier.stores.store import Version
from stratalog.wire.topic import Uuid

__all__ = [
    "AbortedRead",
    "ArchiveRemoved",
    "BeginAgain",
    "BoundedViewRead",
    "BucketSeen",
    "CacheScanned",
    "CatalogueRead",
    "ChunkFill",
    "ChunksFilled",
    "Claim",
    "Command",
    "Commit",
    "CorruptReport",
    "CutRead",
    "DeletedReport",
    "EmptyTrash",
    "FailedReport",
    "FencedReport",
    "FillChunks",
    "FilledChunk",
    "FindLargestTimestamp",
    "FindTimestamp",
    "FooterRead",
    "LastBatchRead",
    "LookAtBucket",
    "LostReport",
    "ManifestRead",
    "ManifestUnchanged",
    "MergeObjects",
    "MissingReport",
    "MovedReport",
    "ObjectsMerged",
    "ReadAborted",
    "ReadBack",
    "ReadBoundedView",
    "ReadCatalogue",
    "ReadCut",
    "ReadFooter",
    "ReadLastBatch",
    "ReadManifest",
    "ReadRestartState",
    "RemoveArchive",
    "RemoveTopicDocument",
    "Report",
    "RestartStateRead",
    "ScanCache",
    "SecondTimelineReport",
    "SetLogStart",
    "SignBucket",
    "TimestampFound",
    "TrashArchive",
    "TrashEmptied",
    "Upload",
    "UploadDone",
    "VerifiedUpTo",
    "WriteProjection",
    "Written",
]


class Claim(Struct, frozen=True):
    """Raise the manifest's claim (rule 1); answered by `ManifestRead`, `FencedReport`, failures.

    ``start_offset`` is the local log's first batch border, where an archive that does not exist yet begins; below 0 where the log
    begins before its disk: then the archive exists, and `LostReport` is the answer if it is not there.
    ``archived_end`` is the remote end that the broker knows of, from its checkpoint or a manifest that it believed,
    the one numbered ``archived_seq``; above 0 the manifest exists, none is made in its place, and `LostReport` is the answer if it is not there.
    ``made`` are the claims of this data directory: `SecondTimelineReport` is the answer to any other that is its own.
    ``bucket_id`` is the identity of the bucket, empty for any: in another one no manifest is made, `LostReport` is the answer.
    """

    partition: PartitionId
    claimant: Claimant
    now_ms: int
    start_offset: int
    cluster_id: str = ""
    known_end: int = 0
    archived_end: int = 0
    archived_seq: int = 0
    made: MadeClaims | None = None
    bucket_id: str = ""


class Upload(Struct, frozen=True):
    """Build, verify, PUT and HEAD one object; answered by `UploadDone`, `CorruptReport`, failures.

    ``storage_class`` is S3's, empty for the bucket's own.
    """

    request: SegmentRequest
    claimant: Claimant
    part_bytes: int = PART_BYTES
    storage_class: str = ""


class Commit(Struct, frozen=True):
    """Add uploaded ranges by compare-and-swap; answered by `ManifestRead`, `FencedReport`, `MovedReport`, failures.

    ``kept_history`` says which copies of earlier manifests stay; None for all.
    """

    partition: PartitionId
    claimant: Claimant
    uploads: tuple[Uploaded, ...]
    now_ms: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    known_end: int = 0
    kept_history: KeptHistory | None = None


class ReadBack(Struct, frozen=True):
    """Read the manifest and HEAD each object of ``[start, end)`` (rule 4); answered by `VerifiedUpTo`, `FencedReport`.

    A leader gives its ``claimant``, which the manifest must carry; a follower gives ``None``, and the manifest must
    be of its own cluster's ``incarnation``.
    """

    partition: PartitionId
    start: int
    end: int
    incarnation: int
    claimant: Claimant | None = None
    heads_max: int = 64


class ReadManifest(Struct, frozen=True):
    """Read the manifest unless it still has ``known_version``; answered by `ManifestRead` or `ManifestUnchanged`.

    ``lets_go``: local records go by the answer.
    """

    partition: PartitionId
    known_version: Version = ""
    known_end: int = 0
    lets_go: bool = False


class SetLogStart(Struct, frozen=True):
    """Move the archive's log start; answered like `Commit`. See `tier.manifests.manifest.set_log_start`."""

    partition: PartitionId
    claimant: Claimant
    offset: int
    now_ms: int
    reason: str
    resume_at: int | None = None
    known_end: int = 0


class EmptyTrash(Struct, frozen=True):
    """Delete what may leave the trash now, then forget it (rule 9); answered by `TrashEmptied`, `FencedReport`, failures.

    ``retention`` is that of the topic now; None if there is nothing to judge by. Repeated after a lost answer it
    goes on where it was.
    """

    partition: PartitionId
    claimant: Claimant
    now_ms: int
    grace_ms: int
    retention: Retention | None
    items_max: int = 1000


class TrashArchive(Struct, frozen=True):
    """Claim, move the whole archive to the trash and mark it as deleted; answered by `ManifestRead`, `FencedReport`.

    ``bucket_id`` as in `Claim`.
    """

    partition: PartitionId
    claimant: Claimant
    now_ms: int
    reason: str
    cluster_id: str = ""
    bucket_id: str = ""


class BeginAgain(Struct, frozen=True):
    """Archive again from ``offset`` on, after `TrashArchive`; answered by `ManifestRead`, `FencedReport`."""

    partition: PartitionId
    claimant: Claimant
    offset: int
    now_ms: int


class RemoveArchive(Struct, frozen=True):
    """Empty the trash of a deleted topic's archive, then remove all that is left of it, the manifest last.

    Answered by `ArchiveRemoved`, `FencedReport`, failures. Repeat it until it says that nothing is left. ``bucket_id`` as in
    `Claim`: that another bucket has no archive says nothing.
    """

    partition: PartitionId
    claimant: Claimant
    now_ms: int
    grace_ms: int
    bucket_id: str = ""


class RemoveTopicDocument(Struct, frozen=True):
    """Remove a deleted topic's ``topic.json`` if nothing else of the topic is left; answered by `Written`."""

    topic: str
    topic_id: Uuid


class MergeObjects(Struct, frozen=True):
    """Make one object of the oldest small neighbours, if there are enough; answered by `ObjectsMerged`, failures.

    ``uuid`` is the job's and the object's; ``objects_min`` and ``bytes_max`` are those of `tier.planning.merge_plan`.
    """

    partition: PartitionId
    claimant: Claimant
    uuid: Uuid
    objects_min: int
    bytes_max: int
    now_ms: int
    expires_ms: int
    cluster_id: str = ""
    storage_class: str = ""


class ChunkFill(Struct, frozen=True):
    """One chunk to fetch, and the file it goes to."""

    chunk: Chunk
    path: str


class FillChunks(Struct, frozen=True):
    """Fetch neighbouring chunks of one object by one GET into cache files; answered by `ChunksFilled`.

    ``chunks`` are one or a few, in order, without a gap. ``index_interval_bytes`` is the distance of the
    entries of the sparse index that comes back.
    """

    partition: PartitionId
    key: str
    chunks: tuple[ChunkFill, ...]
    index_interval_bytes: int = 4096
    sync: bool = False


class ScanCache(Struct, frozen=True):
    """Look through the cache's directory, which need not exist; answered by `CacheScanned`."""

    directory: str


class FindTimestamp(Struct, frozen=True):
    """Find the first record of one object with at least this timestamp and offset; answered by `TimestampFound`."""

    partition: PartitionId
    key: str
    timestamp_ms: int
    start_offset: int = 0
    end_offset: int = 2**63 - 1


class FindLargestTimestamp(Struct, frozen=True):
    """Find the first of one object's records between two offsets with the largest timestamp; answered by `TimestampFound`.

    A view may end in the middle of the object.
    """

    partition: PartitionId
    key: str
    start_offset: int
    end_offset: int = 2**63 - 1


class ReadFooter(Struct, frozen=True):
    """Read footer and chunk table; answered by `FooterRead`.

    With ``path``, the chunk that holds ``offset`` as well, as `FillChunks` would: its file's path is what stands there
    with the chunk's number in between.
    """

    partition: PartitionId
    key: str
    offset: int = -1
    path: tuple[str, str] | None = None


class ReadAborted(Struct, frozen=True):
    """Read the aborted transactions of one object; answered by `AbortedRead`."""

    partition: PartitionId
    key: str


class ReadRestartState(Struct, frozen=True):
    """Read what a log restarting behind this object needs (rule 8); answered by `RestartStateRead`."""

    partition: PartitionId
    key: str


class ReadBoundedView(Struct, frozen=True):
    """Read the part of a partition that lies below an offset, or below the first record of a time; `BoundedViewRead`.

    It reads the live manifest, or the copy under ``key`` that a cut has pinned, whose hash is ``sha256`` (hex).
    """

    partition: PartitionId
    end_offset: int = -1
    timestamp_ms: int | None = None
    key: str = ""
    sha256: str = ""


class ReadCut(Struct, frozen=True):
    """Read the complete cut called ``key`` that a topic belongs to; answered by `CutRead` or `MissingReport`."""

    key: str
    topic: str


class ReadCatalogue(Struct, frozen=True):
    """Read which topics the bucket holds below ``key``, a prefix; answered by `CatalogueRead`."""

    key: str = TOPICS_PREFIX


class WriteProjection(Struct, frozen=True):
    """Write a small JSON document (``topic.json``, ``cluster.json``, ``format.json``) until it is equal; `Written`."""

    key: str
    fields: Mapping[str, object]


Command: TypeAlias = (
    Claim
    | Upload
    | Commit
    | ReadBack
    | ReadManifest
    | SetLogStart
    | EmptyTrash
    | TrashArchive
    | BeginAgain
    | RemoveArchive
    | RemoveTopicDocument
    | MergeObjects
    | FillChunks
    | ScanCache
    | FindTimestamp
    | FindLargestTimestamp
    | ReadFooter
    | ReadAborted
    | ReadRestartState
    | ReadBoundedView
    | ReadCatalogue
    | ReadCut
    | WriteProjection
    | ReadLastBatch
    | LookAtBucket
    | SignBucket
)
