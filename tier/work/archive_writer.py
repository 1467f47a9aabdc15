"""Writes log bytes straight into an archive, without a broker: for imports, and for tests of everything that reads.

.. code-block:: python

    partition = PartitionId("orders", topic_id, 0)
    manifest = archive_log(store, partition, [bytes_of_first_segment, FileRange(path, 0, size)], now_ms=now_ms)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest, writer_version
from stratalog.tier.manifests.spill import spilling
from stratalog.tier.objects.chunk_table import CHUNK_BYTES
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.stores.store import Buffer, FileRange, ObjectStore
from stratalog.wire.batch import BATCH_HEADER, BatchHeader, read_header
from stratalog.wire.errors import Invalid

__all__ = ["archive_log"]


def archive_log(
    store: ObjectStore,
    partition: PartitionId,
    segments: Sequence[Buffer | FileRange],
    *,
    now_ms: int,
    claimant: Claimant | None = None,
    aborted: Sequence[AbortedTransaction] = (),
    compacted: bool = False,
    cluster_id: str = "",
    chunk_bytes: int = CHUNK_BYTES,
) -> Manifest:
    """Append ``segments``, each one object, behind the archive's end, in one commit; returns the manifest.

    Each segment is whole ``.log`` bytes, in offset order; the first one of an empty archive sets where it begins.
    ``aborted`` are the partition's aborted transactions: each object gets those that overlap it. Without a
    ``claimant`` the archive is claimed under the leader epoch of the last batch, or the epoch already claimed if
    that is higher. Raises what `build_segment`, the transitions and the store raise.
    """
    borders = [_borders(segment) for segment in segments]
    if not borders:
        raise Invalid(f"{partition}: there is nothing to archive")
    found = read_manifest(store, partition).manifest
    if claimant is None:
        epoch = max(found.claimant.leader_epoch, borders[-1][2].partition_leader_epoch, 0)
        claimant = _own_claim(partition, max(found.claimant.incarnation, 0), epoch, found.claimant)
    us = claimant
    change_manifest(store, partition, lambda m: claim(m, us, now_ms=now_ms, start_offset=borders[0][0]))
    uploads = []
    for segment, (base, end, _) in zip(segments, borders, strict=True):
        request = SegmentRequest(
            partition=partition,
            uuid=os.urandom(16),
            base=base,
            end=end,
            epoch=us.leader_epoch,
            source=(segment,),
            aborted=tuple(a for a in aborted if a.first_offset < end and a.last_offset >= base),
            compacted=compacted,
            cluster_id=cluster_id,
            writer=writer_version(),
            broker_id=us.broker_id,
            uploaded_ms=now_ms,
            chunk_bytes=chunk_bytes,
        )
        uploads.append(Uploaded(put_segment(store, build_segment(request)), us))
    return change_manifest(
        store, partition, lambda m: commit(m, us, uploads, now_ms=now_ms), spilling(store, len(uploads))
    ).manifest


def _own_claim(partition: PartitionId, incarnation: int, epoch: int, held: Claimant) -> Claimant:
    """A claim by this process; an archive already claimed under the same epoch is continued under its mark."""
    if held.rank == (incarnation, epoch):
        return held
    mark = hashlib.sha256(f"{partition}/{incarnation}/{epoch}".encode()).digest()[:16]
    return Claimant(incarnation, epoch, mark)


def _borders(segment: Buffer | FileRange) -> tuple[int, int, BatchHeader]:
    """``(base, end, last header)`` of a segment, by a walk over its batch headers."""
    if not isinstance(segment, FileRange):
        return _walk(memoryview(segment))
    with open(segment.path, "rb") as file:  # noqa: PTH123 - a position in a file, not a path
        file.seek(segment.position)
        return _walk(memoryview(file.read(segment.length)))


def _walk(view: memoryview) -> tuple[int, int, BatchHeader]:
    first = last = read_header(view)
    at = 0
    while at + BATCH_HEADER.size <= len(view):
        last = read_header(view, at)
        at += max(last.size_bytes, BATCH_HEADER.size)
    return first.base_offset, last.next_offset, last
