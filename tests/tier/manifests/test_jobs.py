from __future__ import annotations

import pytest
from msgspec import structs

from stratalog.tier.manifests.jobs import JOBS_MAX, JobRefused, affected_pages, end_job, list_job, page_rewrite, swap
from stratalog.tier.manifests.manifest import (
    Claimant,
    Manifest,
    ManifestFenced,
    Uploaded,
    claim,
    commit,
    mark_deleted,
    set_log_start,
)
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.manifests.parts import Job, totals_of

US = Claimant(0, 1, bytes(16))
JOB = bytes([9] * 16)


@pytest.fixture
def manifest(log_bytes, make_entry):
    """Six entries of 100 offsets each."""
    found = claim(Manifest(log_bytes.partition), US, now_ms=1)
    return commit(found, US, [Uploaded(make_entry(a, a + 100, epoch=1), US) for a in range(0, 600, 100)], now_ms=2)


@pytest.fixture
def output(make_entry):
    """An object that replaces the entries of these offsets."""
    return lambda base, end: structs.replace(make_entry(base, end, epoch=1), uuid=JOB)


def listed(manifest, inputs):
    """The manifest with the job of these inputs."""
    return list_job(manifest, Job(JOB, "merge", 3, 9, tuple(entry.uuid for entry in inputs)), now_ms=3)


def paged(manifest, *cuts):
    """The manifest with its entries below each of the numbers in pages, and the entries of each page."""
    pages, entries, start = [], {}, 0
    for cut in cuts:
        inside = manifest.entries[start:cut]
        ref = page_ref(manifest.partition, inside, page_to_bytes(manifest.partition, inside), cut)
        pages.append(ref)
        entries[ref.key] = inside
        start = cut
    return structs.replace(manifest, pages=tuple(pages), entries=manifest.entries[start:]), entries


def test_entries_are_replaced_by_the_jobs_object(manifest, output):
    """The inputs go to the trash, undated; the job leaves the list; who knew the entries must read them again."""
    inputs = manifest.entries[1:4]
    swapped = swap(listed(manifest, inputs), JOB, inputs, output(100, 400), now_ms=5)
    assert [(e.base, e.end) for e in swapped.entries] == [(0, 100), (100, 400), (400, 500), (500, 600)]
    assert [(t.key, t.since_ms, t.reason) for t in swapped.trash] == [(e.key, -1, "merge") for e in inputs]
    assert (swapped.jobs, swapped.rewritten_seq) == ((), swapped.seq)
    assert swapped.totals == totals_of(swapped.entries)
    assert swap(swapped, JOB, inputs, output(100, 400), now_ms=6) is swapped


def test_a_job_that_is_not_listed_swaps_nothing(manifest, output):
    """Struck off by another writer, its inputs are no longer protected."""
    inputs = manifest.entries[:2]
    with pytest.raises(JobRefused, match="not listed"):
        swap(manifest, JOB, inputs, output(0, 200), now_ms=5)
    struck = end_job(listed(manifest, inputs), JOB, now_ms=4)
    with pytest.raises(JobRefused, match="not listed"):
        swap(struck, JOB, inputs, output(0, 200), now_ms=5)
    assert end_job(struck, JOB, now_ms=5) is struck


def test_inputs_must_still_be_live(manifest, output):
    """Entries that retention dropped meanwhile do not come back."""
    inputs = manifest.entries[:2]
    moved = set_log_start(listed(manifest, inputs), US, 100, now_ms=4, reason="retention")
    with pytest.raises(JobRefused, match="no longer a live entry"):
        swap(moved, JOB, inputs, output(0, 200), now_ms=5)


def test_a_job_swaps_what_it_has_listed(manifest, output):
    """Other inputs, another object, other offsets: refused."""
    with_job = listed(manifest, manifest.entries[:2])
    with pytest.raises(JobRefused, match="something else"):
        swap(with_job, JOB, manifest.entries[:3], output(0, 300), now_ms=5)
    with pytest.raises(JobRefused, match="something else"):
        swap(with_job, JOB, manifest.entries[:2], manifest.entries[0], now_ms=5)
    with pytest.raises(JobRefused, match="holds offsets"):
        swap(with_job, JOB, manifest.entries[:2], output(0, 199), now_ms=5)


def test_two_jobs_share_no_input(manifest):
    """Each would replace what the other has."""
    first = listed(manifest, manifest.entries[:2])
    assert listed(first, manifest.entries[:2]) is first
    with pytest.raises(JobRefused, match="one of its inputs"):
        list_job(first, Job(bytes(16), "merge", 3, 9, (manifest.entries[1].uuid,)), now_ms=3)


def test_jobs_are_limited_and_none_begins_in_a_deleted_archive(manifest):
    """A list that is never emptied must not grow for ever."""
    for number in range(JOBS_MAX):
        manifest = list_job(manifest, Job(bytes([number] * 16), "merge", 3, 9), now_ms=3)
    with pytest.raises(JobRefused, match="listed already"):
        list_job(manifest, Job(bytes([99] * 16), "merge", 3, 9), now_ms=3)
    with pytest.raises(JobRefused, match="deleted"):
        list_job(mark_deleted(manifest, now_ms=4), Job(bytes([99] * 16), "merge", 3, 9), now_ms=3)


def test_a_leaders_job_goes_by_its_claim(manifest, output):
    """A higher claim fences it before it lists and before it swaps."""
    inputs = manifest.entries[:2]
    later = claim(listed(manifest, inputs), US._replace(leader_epoch=2), now_ms=4)
    with pytest.raises(ManifestFenced):
        list_job(later, Job(bytes(16), "merge", 3, 9), now_ms=5, claimant=US)
    with pytest.raises(ManifestFenced):
        swap(later, JOB, inputs, output(0, 200), now_ms=5, claimant=US)
    assert swap(later, JOB, inputs, output(0, 200), now_ms=5).jobs == ()


@pytest.mark.parametrize(("first", "last"), [(0, 2), (1, 3), (1, 5), (2, 4), (3, 6), (0, 6)])
def test_a_swap_in_pages_rewrites_them(manifest, output, first, last):
    """Over one page, two, and into the inline entries; the old pages go to the trash."""
    with_pages, entries = paged(listed(manifest, manifest.entries[first:last]), 2, 4)
    inputs, merged = manifest.entries[first:last], output(first * 100, last * 100)
    affected = affected_pages(with_pages, merged.base, merged.end)
    rewrite = page_rewrite(with_pages, inputs, merged, entries)
    ref = None
    if rewrite.entries:
        data = page_to_bytes(manifest.partition, rewrite.entries)
        ref = page_ref(manifest.partition, rewrite.entries, data, with_pages.seq + 1)
        entries[ref.key] = rewrite.entries
    swapped = swap(with_pages, JOB, inputs, merged, now_ms=5, rewrite=rewrite, page=ref)
    assert swapped.entries, "the newest entry is inline"
    live = [entry for page in swapped.pages for entry in entries[page.key]] + list(swapped.entries)
    assert live == [*manifest.entries[:first], merged, *manifest.entries[last:]]
    assert {t.key for t in swapped.trash} == {e.key for e in inputs} | {page.key for page in affected}
    assert swapped.totals == totals_of(live)


def test_pages_that_changed_meanwhile_stop_the_swap(manifest, output):
    """The rewritten page would hide what was done to the old one."""
    with_pages, entries = paged(listed(manifest, manifest.entries[2:4]), 2, 5)
    inputs, merged = manifest.entries[2:4], output(200, 400)
    rewrite = page_rewrite(with_pages, inputs, merged, entries)
    ref = page_ref(manifest.partition, rewrite.entries, b"", 9)
    with pytest.raises(JobRefused, match="pages have changed"):
        swap(with_pages, JOB, inputs, merged, now_ms=5)
    key = with_pages.pages[1].key
    moved = set_log_start(with_pages, US, 300, now_ms=4, reason="r", page_entries=entries[key])
    with pytest.raises(JobRefused, match="pages have changed"):
        swap(moved, JOB, inputs, merged, now_ms=5, rewrite=rewrite, page=ref)
    with pytest.raises(JobRefused, match="no longer a live entry"):
        page_rewrite(moved, inputs, merged, entries)
