"""Rewriting jobs: listed first, then swapped in, each by compare-and-swap (rule 9). Pure.

A job reads live entries, writes one object whose uuid is the job's own, and replaces the entries by it. From the
moment it is listed, its inputs and its object are protected from removal; only a change of the manifest ends that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.manifest import Manifest, check_claim, successor, trashed_entry
from stratalog.tier.manifests.parts import Claimant, Job, PageRef, TrashEntry, totals_of
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import uuid_text

__all__ = [
    "JOBS_MAX",
    "MERGE_KIND",
    "QUARANTINE_KIND",
    "JobRefused",
    "PageRewrite",
    "affected_pages",
    "end_job",
    "list_job",
    "page_rewrite",
    "swap",
]

JOBS_MAX = 16
"""Jobs that one partition may have listed at a time."""

MERGE_KIND: Final = "merge"
"""The kind of a leader's own job: it is swapped in under the leader's claim, and only while it is listed."""


QUARANTINE_KIND: Final = "quarantine"
"""The kind of the job that protects what a repair has left out. It never runs out: an operator strikes it off."""


class JobRefused(Invalid):
    """The job may not go on: it is not listed, or something that it needs has changed. Strike it off and start anew."""


class PageRewrite(Struct, frozen=True):
    """How a swap changes pages: ``replaced`` go, one page with ``entries`` comes, ``inline`` is what stays inline.

    The newest entry is always inline: a restart of the log behind it reads no page. ``entries`` may be none.
    """

    replaced: tuple[PageRef, ...]
    entries: tuple[Entry, ...]
    inline: tuple[Entry, ...]


def list_job(manifest: Manifest, job: Job, *, now_ms: int, claimant: Claimant | None = None) -> Manifest:
    """Add ``job``; nothing to do if it is listed. A leader gives its claim, a maintainer's job goes by the list alone.

    Raises `ManifestFenced`, `NotClaimed`, and `JobRefused` for an input of another listed job, too many jobs, or an
    archive whose topic was deleted.
    """
    if claimant is not None:
        check_claim(manifest, claimant)
    if any(known.uuid == job.uuid for known in manifest.jobs):
        return manifest
    if manifest.deleted_ms >= 0:
        raise _refused(manifest, job.uuid, "its topic was deleted")
    if len(manifest.jobs) >= JOBS_MAX:
        raise _refused(manifest, job.uuid, f"{JOBS_MAX} jobs are listed already")
    taken = {uuid for known in manifest.jobs for uuid in known.inputs}
    if taken & set(job.inputs):
        raise _refused(manifest, job.uuid, "another job has one of its inputs")
    return successor(replace(manifest, jobs=(*manifest.jobs, job)), f"list {job.kind}", now_ms)


def end_job(manifest: Manifest, uuid: bytes, *, now_ms: int) -> Manifest:
    """Strike a job off, done or given up; nothing to do if it is not listed. Its object, if any, is garbage then."""
    kept = tuple(known for known in manifest.jobs if known.uuid != uuid)
    if len(kept) == len(manifest.jobs):
        return manifest
    return successor(replace(manifest, jobs=kept), "end job", now_ms)


def affected_pages(manifest: Manifest, base: int, end: int) -> tuple[PageRef, ...]:
    """The pages whose entries a swap of the offsets ``[base, end)`` changes: their entries are needed."""
    return tuple(page for page in manifest.pages if page.live_first < end and page.end > base)


def page_rewrite(
    manifest: Manifest, inputs: Sequence[Entry], output: Entry, page_entries: Mapping[str, Sequence[Entry]]
) -> PageRewrite | None:
    """Objects to write before `swap` when some inputs are in pages; None if all are inline.

    ``page_entries`` are all entries of each of the `affected_pages`, by the page's key. Raises `JobRefused` for an
    input that is no longer live.
    """
    pages = affected_pages(manifest, output.base, output.end)
    if not pages:
        return None
    live = [entry for page in pages for entry in page_entries[page.key][page.dead_count :]]
    live += [entry for entry in manifest.entries if entry.base < output.end]
    inline = tuple(entry for entry in manifest.entries if entry.base >= output.end)
    whole = _replaced(manifest, live, inputs, output)
    return PageRewrite(pages, whole, inline) if inline else PageRewrite(pages, whole[:-1], whole[-1:])


def swap(
    manifest: Manifest,
    uuid: bytes,
    inputs: Sequence[Entry],
    output: Entry,
    *,
    now_ms: int,
    rewrite: PageRewrite | None = None,
    page: PageRef | None = None,
    claimant: Claimant | None = None,
) -> Manifest:
    """Replace live entries by the job's object, and strike the job off (rule 9); nothing to do if that was done.

    The inputs, and pages that were rewritten, go to the trash. If `page_rewrite` gives something, it and the reference
    of the ``page`` written from it, if it has entries, must be given. Raises `ManifestFenced`, `NotClaimed`, and `JobRefused` if the job
    is not listed, an input is no longer a live entry, or the object is not made of them.
    """
    if claimant is not None:
        check_claim(manifest, claimant)
    job = next((known for known in manifest.jobs if known.uuid == uuid), None)
    if job is None:
        if any(entry.uuid == uuid for entry in manifest.entries):
            return manifest
        raise _refused(manifest, uuid, "it is not listed")
    if output.uuid != uuid or tuple(entry.uuid for entry in inputs) != job.inputs:
        raise _refused(manifest, uuid, "it swaps something else than it has listed")
    pages, entries = manifest.pages, manifest.entries
    if affected_pages(manifest, output.base, output.end):
        if (
            rewrite is None
            or (page is None and rewrite.entries)
            or rewrite.replaced != affected_pages(manifest, output.base, output.end)
        ):
            raise _refused(manifest, uuid, "its pages have changed")
        at = pages.index(rewrite.replaced[0])
        pages = (*pages[:at], *([page] if page else []), *pages[at + len(rewrite.replaced) :])
        entries = rewrite.inline
    else:
        entries = _replaced(manifest, entries, inputs, output)
    seq = manifest.seq + 1
    trashed = [trashed_entry(one, seq, job.kind) for one in inputs]
    trashed += [
        TrashEntry(old.key, old.size_bytes, old.epoch_max, seq, "page rewritten")
        for old in (rewrite.replaced if rewrite else ())
    ]
    swapped = successor(
        replace(
            manifest,
            pages=pages,
            entries=entries,
            jobs=tuple(known for known in manifest.jobs if known is not job),
            totals=manifest.totals.minus(totals_of(inputs)).plus(totals_of([output])),
            rewritten_seq=seq,
        ),
        job.kind,
        now_ms,
    )
    return replace(swapped, trash=swapped.trash + tuple(trashed))


def _replaced(manifest: Manifest, live: Sequence[Entry], inputs: Sequence[Entry], output: Entry) -> tuple[Entry, ...]:
    """``live`` with ``inputs``, which must follow each other in it, replaced by ``output``."""
    at = next((number for number, entry in enumerate(live) if entry.uuid == inputs[0].uuid), len(live))
    found = live[at : at + len(inputs)]
    if [entry.uuid for entry in found] != [entry.uuid for entry in inputs]:
        raise _refused(manifest, output.uuid, "an input is no longer a live entry")
    if (found[0].base, found[-1].end) != (output.base, output.end):
        raise _refused(
            manifest,
            output.uuid,
            f"its object holds offsets [{output.base}, {output.end}), its inputs [{found[0].base}, {found[-1].end})",
        )
    return (*live[:at], output, *live[at + len(inputs) :])


def _refused(manifest: Manifest, uuid: bytes, reason: str) -> JobRefused:
    return JobRefused(f"{manifest.partition}: the job {uuid_text(uuid)} cannot go on: {reason}")
