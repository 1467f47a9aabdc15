"""Runs: one rewriting of a partition that takes many jobs, listed itself for as long as it lasts (rule 9). Pure.

A run is a job without inputs: nothing leaves the trash and no object is garbage while it is listed, so the readers it works
with may read what the manifest named when it was listed. Its parts are jobs of their own with inputs
(`tier.manifests.jobs`). There is one run at a time, objects are not merged meanwhile, and a part whose run was struck off
swaps nothing in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import JOBS_MAX, JobRefused, PageRewrite, list_job, swap
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Manifest, successor
from stratalog.tier.manifests.parts import Job, PageRef
from stratalog.wire.topic import Uuid, uuid_text

__all__ = [
    "COMPACT_KIND",
    "ERASE_KIND",
    "RUN_KINDS",
    "JobsFull",
    "RunStruckOff",
    "RunUnderWay",
    "begin_run",
    "end_run",
    "is_run_listed",
    "list_part",
    "renew_run",
    "swap_part",
]

COMPACT_KIND: Final = "compact"
ERASE_KIND: Final = "erase"
RUN_KINDS: Final = frozenset({COMPACT_KIND, ERASE_KIND})


class RunUnderWay(JobRefused):
    """Another run is listed, and has not run out."""


class RunStruckOff(JobRefused):
    """The run is not listed any more: another run took it for dead. Objects that it has not swapped in stay as they were."""


class JobsFull(JobRefused):
    """As many jobs are listed as may be: try again when one has ended."""


def is_run_listed(manifest: Manifest) -> bool:
    """Whether a run is listed, running out or not."""
    return any(_is_run(job) for job in manifest.jobs)


def begin_run(manifest: Manifest, run: Job, *, now_ms: int, take_over: bool = False) -> Manifest:
    """List ``run``, a job without inputs; nothing to do if it is listed.

    Runs that ran out, clocks allowed for, are struck off with their parts; with ``take_over`` also one that has not.
    Raises `RunUnderWay` for such a one otherwise, `JobRefused` for an archive whose topic was deleted.
    """
    if any(known.uuid == run.uuid for known in manifest.jobs):
        return manifest
    if manifest.deleted_ms >= 0:
        raise JobRefused(f"{manifest.partition}: its topic was deleted: it is not rewritten")
    others = [job for job in manifest.jobs if job.kind in RUN_KINDS]
    alive = [job for job in others if job.expires_ms + SKEW_MS >= now_ms]
    if alive and not take_over:
        raise RunUnderWay(_under_way(manifest, alive, now_ms))
    kept = tuple(job for job in manifest.jobs if job.kind not in RUN_KINDS)
    if len(kept) >= JOBS_MAX - 1:
        raise JobsFull(f"{manifest.partition}: {len(kept)} jobs are listed: try again when they have ended")
    return successor(replace(manifest, jobs=(*kept, run)), f"begin {run.kind}", now_ms)


def renew_run(manifest: Manifest, uuid: Uuid, expires_ms: int, *, now_ms: int) -> Manifest:
    """Move the end of a run on, never back. Raises `RunStruckOff`."""
    run = _listed(manifest, uuid)
    if run.expires_ms >= expires_ms:
        return manifest
    jobs = tuple(replace(job, expires_ms=expires_ms) if job is run else job for job in manifest.jobs)
    return successor(replace(manifest, jobs=jobs), f"renew {run.kind}", now_ms)


def list_part(manifest: Manifest, run_uuid: Uuid, part: Job, *, now_ms: int) -> Manifest:
    """List a job of a run. Raises `RunStruckOff`, `JobsFull`, and what `list_job` raises."""
    _listed(manifest, run_uuid)
    if len(manifest.jobs) >= JOBS_MAX and all(job.uuid != part.uuid for job in manifest.jobs):
        raise JobsFull(f"{manifest.partition}: {len(manifest.jobs)} jobs are listed: try again when one has ended")
    return list_job(manifest, part, now_ms=now_ms)


def swap_part(
    manifest: Manifest,
    uuid: Uuid,
    inputs: Sequence[Entry],
    output: Entry,
    *,
    run_uuid: Uuid,
    now_ms: int,
    rewrite: PageRewrite | None = None,
    page: PageRef | None = None,
) -> Manifest:
    """`swap` for the job ``uuid`` of a run. Raises `RunStruckOff`, and what `swap` raises."""
    _listed(manifest, run_uuid)
    return swap(manifest, uuid, inputs, output, now_ms=now_ms, rewrite=rewrite, page=page)


def end_run(
    manifest: Manifest,
    uuid: Uuid,
    *,
    now_ms: int,
    clean_offset: int = 0,
    live: Iterable[Entry] = (),
    clean: Collection[Uuid] = (),
) -> Manifest:
    """Strike a run and its parts off, and raise ``archive_clean_offset`` to ``clean_offset`` if it is higher.

    ``live`` are all live entries, ``clean`` the uuids of those that the run has cleaned up to ``clean_offset`` or found
    to be clean. Raises `RunStruckOff` for a run that is not listed, and `JobRefused` if the archive ends before
    ``clean_offset`` or an entry below that is not among the clean ones; nothing to do for a run that ended like this already.
    """
    if all(job.uuid != uuid for job in manifest.jobs) and manifest.archive_clean_offset >= clean_offset:
        return manifest
    run = _listed(manifest, uuid)
    jobs = tuple(job for job in manifest.jobs if job.kind not in RUN_KINDS)
    if clean_offset > manifest.archive_clean_offset:
        if clean_offset > manifest.remote_end:
            raise JobRefused(
                f"{manifest.partition}: the archive ends at offset {manifest.remote_end} by now, this run has looked at it "
                f"up to {clean_offset}: it counts as compacted only up to where it did before. Run it again"
            )
        strange = next((one for one in live if one.base < clean_offset and one.uuid not in clean), None)
        if strange is not None:
            raise JobRefused(
                f"{manifest.partition}: the object of offsets [{strange.base}, {strange.end}) is not one that this run "
                "has looked at: the archive counts as compacted only up to where it did before. Run it again"
            )
        manifest = replace(manifest, archive_clean_offset=clean_offset)
    return successor(replace(manifest, jobs=jobs), f"end {run.kind}", now_ms)


def _is_run(job: Job) -> bool:
    return job.kind in RUN_KINDS and not job.inputs


def _listed(manifest: Manifest, uuid: Uuid) -> Job:
    run = next((job for job in manifest.jobs if job.uuid == uuid), None)
    if run is None:
        raise RunStruckOff(
            f"{manifest.partition}: the run {uuid_text(uuid)} is not listed any more: it ran out, or another one took "
            "over. Objects that it has not swapped in stay as they were; run it again"
        )
    return run


def _under_way(manifest: Manifest, alive: Sequence[Job], now_ms: int) -> str:
    run = next((job for job in alive if not job.inputs), alive[0])
    return (
        f"{manifest.partition}: {run.kind} is under way here, listed {max(0, now_ms - run.listed_ms) // 1000} s ago, "
        f"and counts as dead from {max(0, run.expires_ms + SKEW_MS - now_ms) // 1000} s from now on. If you know that it "
        "is dead, take over: what it has swapped in stays, the rest is done again"
    )
