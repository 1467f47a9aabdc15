"""The last step of every rewriting job: its object takes the place of its inputs, whether they stand in pages or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stratalog.tier.manifests.entries import iter_entries, read_page
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import PageRewrite, affected_pages, page_rewrite
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import PageRef
from stratalog.tier.manifests.spill import write_page
from stratalog.tier.stores.store import ObjectStore
from stratalog.wire.topic import Uuid

__all__ = ["Swap", "swapped_in"]


class Swap(Protocol):
    """`tier.manifests.jobs.swap`, its time and its claim given."""

    def __call__(
        self,
        manifest: Manifest,
        uuid: Uuid,
        inputs: Sequence[Entry],
        output: Entry,
        *,
        rewrite: PageRewrite | None,
        page: PageRef | None,
    ) -> Manifest:
        """The manifest with ``output`` in the place of ``inputs``."""


def swapped_in(store: ObjectStore, manifest: Manifest, inputs: Sequence[Entry], output: Entry, swap: Swap) -> Manifest:
    """A transition: the swap, after the page that it needs has been written; nothing to do if it was made already.

    Raises what ``swap`` raises, `JobRefused` for an input that is no longer live, and what reading pages raises.
    """
    if all(job.uuid != output.uuid for job in manifest.jobs):
        there = next(iter_entries(store, manifest, output.base), None)
        if there is not None and there.uuid == output.uuid:
            return manifest  # an earlier attempt, whose reply was lost
    pages = {page.key: read_page(store, manifest, page) for page in affected_pages(manifest, output.base, output.end)}
    rewrite = page_rewrite(manifest, inputs, output, pages) if pages else None
    page = write_page(store, manifest, rewrite.entries, manifest.seq + 1) if rewrite and rewrite.entries else None
    return swap(manifest, output.uuid, inputs, output, rewrite=rewrite, page=page)
