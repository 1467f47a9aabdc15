"""What one upload is made of: a range of a local log with all that its object carries besides records."""

from __future__ import annotations

import os
from typing import Any, Final

from stratalog import __version__
from stratalog.broker.unified_log import UnifiedLog
from stratalog.tier.entry import LeaderEpoch
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Claimant
from stratalog.tier.plan_events import RangeRef
from stratalog.tier.segment_blobs import AbortedTransaction
from stratalog.tier.segment_object import SegmentRequest
from stratalog.tier.store import FileRange

__all__ = ["upload_request"]

_UUID_BYTES: Final = 16


def upload_request(
    unified: UnifiedLog, partition: PartitionId, ref: RangeRef, *, claimant: Claimant, cluster_id: str, now_ms: int
) -> SegmentRequest:
    """The request for the offsets of ``ref``, under a key of its own (rule 2).

    Raises `OSError`, `Corrupt`, `KafkaError` if the local log cannot give the range.
    """
    log_ = unified.log
    read = log_.read_range(ref.base, ref.end)
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


def _path(file: Any) -> str:
    path: str = file.path
    return path
