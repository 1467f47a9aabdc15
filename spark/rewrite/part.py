"""The protocol of one task of a rewriting run: its job is listed, its object written, and swapped in (rule 9)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from stratalog.tier.bucket.swap_in import swapped_in
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import JobRefused, end_job
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import ManifestContended, StoredManifest, change_manifest
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.runs import JobsFull, list_part, swap_part
from stratalog.tier.objects.segment_object import SegmentRequest, build_segment
from stratalog.tier.objects.segment_upload import put_segment
from stratalog.tier.stores.backoff import BackoffSettings
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.topic import Uuid

__all__ = ["RewritePart", "changed", "live_range", "part_uuid"]

_PART_MS: Final = 6 * 3600 * 1000
"""After this time an unfinished part may be struck off."""
_PAUSES: Final = BackoffSettings(100, 5_000)
_ATTEMPTS: Final = 120
"""With these pauses some eight minutes: as long as others may keep the list of jobs full."""


def part_uuid(run_uuid: Uuid, partition: PartitionId, base: int) -> Uuid:
    """The uuid of the job and of the object of a run's range that begins at ``base``: the same in every attempt."""
    return hashlib.sha256(run_uuid + f"{partition.prefix}{base}".encode()).digest()[:16]


def live_range(store: ObjectStore, manifest: Manifest, base: int, end: int) -> tuple[Entry, ...]:
    """The live entries that together hold exactly the offsets ``[base, end)``. Raises `JobRefused` if there are none."""
    found: list[Entry] = []
    for entry in iter_entries(store, manifest, base):
        if entry.base >= end:
            break
        found.append(entry)
    if not found or (found[0].base, found[-1].end) != (base, end):
        raise JobRefused(
            f"{manifest.partition}: the offsets [{base}, {end}) are no longer those of some objects: retention or "
            "another job has changed them. Run it again"
        )
    return tuple(found)


def changed(
    store: ObjectStore, partition: PartitionId, transition: Callable[[Manifest], Manifest], spread: Uuid
) -> StoredManifest:
    """`change_manifest`, with patience for others who change it too, or have filled the list of jobs.

    ``spread`` is another one for each writer: its bytes spread their attempts.
    """
    for attempt in range(1, _ATTEMPTS):
        try:
            return change_manifest(store, partition, transition)
        except (JobsFull, ManifestContended):
            time.sleep(_PAUSES.wait_ms(attempt, spread[attempt % len(spread)] / 256) / 1000)
    return change_manifest(store, partition, transition)


class RewritePart:
    """One job of a run."""

    __slots__ = ("_kind", "_run_uuid", "_store", "partition", "uuid")

    def __init__(self, store: ObjectStore, partition: PartitionId, run_uuid: Uuid, uuid: Uuid, kind: str) -> None:
        self._store = store
        self._run_uuid = run_uuid
        self._kind = kind
        self.partition = partition
        self.uuid = uuid

    def replace(self, inputs: Sequence[Entry], request: SegmentRequest, *, storage_class: str = "") -> Entry:
        """List the job, write the object, put it in the place of ``inputs``; returns its entry.

        Raises `JobRefused` if the run is not listed or an input is not live any more, `CorruptSource`, and what the store
        raises.
        """
        uuids = tuple(entry.uuid for entry in inputs)
        listed_ms = _now_ms()
        job = Job(self.uuid, self._kind, listed_ms, listed_ms + _PART_MS, uuids)
        changed(
            self._store,
            self.partition,
            lambda manifest: list_part(manifest, self._run_uuid, job, now_ms=_now_ms()),
            self.uuid,
        )
        output = put_segment(self._store, build_segment(request), storage_class=storage_class)
        swap = partial(swap_part, run_uuid=self._run_uuid, now_ms=_now_ms())
        changed(
            self._store,
            self.partition,
            lambda manifest: swapped_in(self._store, manifest, inputs, output, swap),
            self.uuid,
        )
        return output

    def end(self) -> None:
        """Strike the job off, if it is listed."""
        changed(self._store, self.partition, lambda manifest: end_job(manifest, self.uuid, now_ms=_now_ms()), self.uuid)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
