"""Carries out commands against a store: the part of the archive that runs in a worker process.

Only what saves work is kept between two commands (buffers, manifests that a compare-and-swap checks), and nothing
depends on being another process: a ``memory:`` store is served by a `Worker` on a thread of the broker itself. Every expected failure becomes a report; only a defect of ours raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stratalog.tier.bucket.catalogue import read_catalogue
from stratalog.tier.manifests.manifest import ArchiveDeleted, NotAtRemoteEnd, NotClaimed
from stratalog.tier.manifests.second_timeline import SecondTimeline
from stratalog.tier.messages.commands import (
    BeginAgain,
    CatalogueRead,
    Claim,
    Command,
    Commit,
    CorruptReport,
    DeletedReport,
    EmptyTrash,
    FailedReport,
    FencedReport,
    FillChunks,
    FindLargestTimestamp,
    FindTimestamp,
    LookAtBucket,
    LostReport,
    MergeObjects,
    MissingReport,
    MovedReport,
    ReadAborted,
    ReadBack,
    ReadBoundedView,
    ReadCatalogue,
    ReadCut,
    ReadFooter,
    ReadLastBatch,
    ReadManifest,
    ReadRestartState,
    RemoveArchive,
    RemoveTopicDocument,
    Report,
    ScanCache,
    SecondTimelineReport,
    SetLogStart,
    SignBucket,
    TrashArchive,
    Upload,
    WriteProjection,
)
from stratalog.tier.messages.projection import write_projection
from stratalog.tier.objects.segment_object import CorruptSource
from stratalog.tier.objects.segment_reader import CorruptObject
from stratalog.tier.reading.bounded_view import read_bounded_view
from stratalog.tier.reading.cache_files import scan_cache
from stratalog.tier.reading.fill import (
    fill_chunks,
    find_largest_timestamp,
    find_timestamp,
    read_aborted,
    read_footer_of,
    read_last_batch,
    read_restart_state,
)
from stratalog.tier.stores.remembering_store import RememberingStore
from stratalog.tier.stores.store import FileRange, NotFound, ObjectStore
from stratalog.tier.work.archive_commands import (
    claim_archive,
    commit_uploads,
    move_log_start,
    read_back,
    read_view,
    upload,
)
from stratalog.tier.work.bucket_identity import look_at_bucket, sign_bucket
from stratalog.tier.work.cut_commands import read_cut_of
from stratalog.tier.work.merge_commands import merge_objects
from stratalog.tier.work.removal_commands import (
    archive_again,
    empty_trash,
    remove_archive,
    remove_topic_document,
    trash_partition,
)
from stratalog.wire.errors import Corrupt, Fenced, Retriable, StratalogError

__all__ = ["Worker"]

_EXECUTORS: Final[dict[type, Callable[[ObjectStore, Any], Report]]] = {
    Claim: claim_archive,
    Upload: upload,
    Commit: commit_uploads,
    ReadBack: read_back,
    ReadManifest: read_view,
    SetLogStart: move_log_start,
    EmptyTrash: empty_trash,
    TrashArchive: trash_partition,
    BeginAgain: archive_again,
    RemoveArchive: remove_archive,
    RemoveTopicDocument: remove_topic_document,
    FillChunks: fill_chunks,
    ScanCache: scan_cache,
    MergeObjects: merge_objects,
    FindTimestamp: find_timestamp,
    FindLargestTimestamp: find_largest_timestamp,
    ReadFooter: read_footer_of,
    ReadAborted: read_aborted,
    ReadRestartState: read_restart_state,
    ReadBoundedView: read_bounded_view,
    ReadCatalogue: lambda store, command: CatalogueRead(read_catalogue(store, command.key)),
    ReadCut: read_cut_of,
    WriteProjection: write_projection,
    ReadLastBatch: read_last_batch,
    LookAtBucket: look_at_bucket,
    SignBucket: sign_bucket,
}


class Worker:
    """Executes commands; thread-safe, because it holds nothing but stores. Keep one for each store.

    ``uploads`` is the store that `Upload` writes through, when that is to obey a byte rate (rule 7); everything else
    goes through ``store``, so that a full budget never delays a claim, a commit or a read.
    """

    def __init__(self, store: ObjectStore, *, uploads: ObjectStore | None = None) -> None:
        self._store = RememberingStore(store)
        self._uploads = self._store if uploads is None else uploads

    def execute(self, command: Command) -> Report:
        """Carry ``command`` out and report."""
        store = self._uploads if isinstance(command, Upload | MergeObjects) else self._store
        try:
            return _EXECUTORS[type(command)](store, command)
        except (StratalogError, OSError) as error:
            return _report(command, error)


def _report(command: Command, error: StratalogError | OSError) -> Report:
    uploading = isinstance(command, Upload)  # its source was checked: other damage is the store's, or of the way
    match error:
        case Fenced():
            return FencedReport(str(error))
        case SecondTimeline():
            return SecondTimelineReport(str(error), error.leader_epoch)
        case NotClaimed():  # what carried our claim a moment ago is gone, or was replaced by something older
            return LostReport(str(error))
        case ArchiveDeleted():
            return DeletedReport(str(error))
        case NotAtRemoteEnd():
            return MovedReport(error.remote_end, str(error))
        case CorruptSource():
            return CorruptReport(error.partition, error.path, error.position, error.offset, str(error))
        case CorruptObject() if not uploading:
            partition = getattr(command, "partition", None)
            return CorruptReport(partition, error.key, error.position, error.offset, f"{partition}: {error}")
        case Corrupt() if not uploading:
            return CorruptReport(getattr(command, "partition", None), getattr(error, "key", ""), -1, -1, str(error))
        case NotFound():
            return MissingReport(error.key, str(error))
        case _:
            local = isinstance(error, OSError) and error.filename in _local_paths(command)
            retriable = isinstance(error, Retriable | OSError | Corrupt)
            return FailedReport(str(error), retriable=retriable, local=local)


def _local_paths(command: Command) -> set[str]:
    """Files of the broker's own disks that a command works with."""
    match command:
        case Upload():
            return {part.path for part in command.request.source if isinstance(part, FileRange)}
        case FillChunks():
            return {fill.path for fill in command.chunks}
        case ScanCache():
            return {command.directory}
    return set()
