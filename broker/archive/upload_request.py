"""Builds the input of one upload, a range of a local log and all that its object holds besides records, and of a commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from stratalog import __version__
from stratalog.broker.cold.reader import RemotePartition
from stratalog.broker.replicas.unified_log import UnifiedLog
from stratalog.hot.recovery.missing import MissingRange
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.history import KeptHistory
from stratalog.tier.manifests.manifest import Claimant, Uploaded
from stratalog.tier.messages.commands import Commit, Upload
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.planning.plan_events import RangeRef, UploadCorrupt, UploadFailed
from stratalog.tier.stores.store import FileRange

__all__ = ["commit_command", "not_uploaded", "upload_command", "upload_request"]

_UUID_BYTES: Final = 16


def upload_request(
    unified: UnifiedLog, partition: PartitionId, ref: RangeRef, *, claimant: Claimant, cluster_id: str, now_ms: int
) -> SegmentRequest:
    """The request for the offsets of ``ref``, under a key of its own (rule 2).

    Raises `OSError`, `Corrupt`, `KafkaError` if the local log cannot give the range.
    """
    log_ = unified.log
    try:
        read = log_.read_range(ref.base, ref.end)
    except UnreadableBatch as damage:
        raise unified.missing_after(damage) from damage
    return SegmentRequest(
        partition=partition,
        uuid=os.urandom(_UUID_BYTES),
        base=ref.base,
        end=ref.end,
        epoch=claimant.leader_epoch,
        source=[FileRange(_path(part.file), part.position, part.length) for part in read.parts],
        leader_epochs=tuple(LeaderEpoch(*entry) for entry in log_.leader_epochs.until(ref.end)),
        producer_snapshot=log_.producer_snapshot_at(ref.end),
        aborted=tuple(AbortedTransaction(*entry) for entry in log_.aborted_transactions(ref.base, ref.end)),
        compacted=log_.may_have_gaps,
        cluster_id=cluster_id,
        writer=f"stratalog {__version__}",
        broker_id=claimant.broker_id,
        uploaded_ms=now_ms,
    )


def upload_command(
    unified: UnifiedLog, partition: PartitionId, ref: RangeRef, claimant: Claimant, cluster_id: str, now_ms: int
) -> Upload:
    """The upload of the offsets of ``ref``, in parts and of the class that the topic's settings say; raises the same."""
    request = upload_request(unified, partition, ref, claimant=claimant, cluster_id=cluster_id, now_ms=now_ms)
    return Upload(request, claimant, unified.log.config.upload_part_bytes, unified.log.config.storage_class)


def commit_command(
    unified: UnifiedLog,
    remote: RemotePartition,
    partition: PartitionId,
    claimant: Claimant,
    uploads: Sequence[Uploaded],
    now_ms: int,
    kept_history: KeptHistory,
) -> Commit:
    """The commit of uploads, in order, with the bounds as they are now (rule 3)."""
    return Commit(
        partition,
        claimant,
        tuple(uploads),
        now_ms,
        high_watermark=unified.partition.high_watermark,
        last_stable_offset=unified.partition.last_stable_offset,
        known_end=remote.known_end,
        kept_history=kept_history,
    )


def not_uploaded(ref: RangeRef, error: Exception, jitter: float) -> UploadCorrupt | UploadFailed:
    """The plan's event for a failure of `upload_request`; the missing bytes do not come back by trying again."""
    return UploadCorrupt(ref, str(error)) if isinstance(error, MissingRange) else UploadFailed(ref, jitter)


def _path(file: Any) -> str:
    path: str = file.path
    return path
