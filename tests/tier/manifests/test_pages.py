from __future__ import annotations

import json

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from stratalog.tier.documents.json import decompressed
from stratalog.tier.documents.keys import PageKey, PartitionId, parse_key
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.manifest import Claimant, Manifest, ManifestFull, Uploaded, claim, commit
from stratalog.tier.manifests.pages import (
    FANOUT,
    INLINE_KEPT,
    INLINE_MAX,
    compressed,
    page_from_bytes,
    page_ref,
    page_to_bytes,
    plan_spill,
    spill,
)
from stratalog.tier.manifests.parts import Totals
from stratalog.wire.errors import Corrupt

US = Claimant(0, 1, bytes(16))


@pytest.fixture
def page(log_bytes, make_entry):
    """A page of three entries: its reference, its bytes, its entries."""
    entries = tuple(
        make_entry(a, a + 100, epoch=a // 100, min_timestamp_ms=a, max_timestamp_ms=500 - a, aborted_count=a)
        for a in (100, 200, 300)
    )
    data = page_to_bytes(log_bytes.partition, entries)
    return page_ref(log_bytes.partition, entries, data, 7), data, entries


def test_a_page_survives_its_bytes(page, log_bytes):
    """And its reference says what is in it."""
    ref, data, entries = page
    assert page_from_bytes(data, ref, log_bytes.partition) == entries
    assert (ref.first, ref.end, ref.seq, ref.entry_count, ref.dead_count, ref.live_first) == (100, 400, 7, 3, 0, 100)
    assert ref.totals == Totals(3, sum(e.size_bytes for e in entries), sum(e.record_count for e in entries))
    assert (ref.min_timestamp_ms, ref.max_timestamp_ms, ref.aborted_count, ref.epoch_max) == (100, 400, 3, 3)
    parsed = parse_key(ref.key)
    assert isinstance(parsed, PageKey)
    assert (parsed.first, parsed.last, parsed.seq) == (100, 400, 7)


def test_the_same_entries_are_the_same_bytes(page, log_bytes):
    """A repeated attempt finds its own page, not another one under its key."""
    _, data, entries = page
    assert page_to_bytes(log_bytes.partition, entries) == data


def test_every_changed_byte_of_a_page_is_noticed(page, log_bytes):
    """By the CRC-32C in the manifest, before anything is decompressed."""
    ref, data, _ = page
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(Corrupt, match="damaged"):
            page_from_bytes(bytes(damaged), ref, log_bytes.partition)
    with pytest.raises(Corrupt, match="damaged"):
        page_from_bytes(data[:-1], ref, log_bytes.partition)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.update(format="other"),
        lambda f: f.update(min_reader_version=2),
        lambda f: f.update(partition=9),
        lambda f: f["entries"].pop(),
        lambda f: f["entries"][1].update(base=201),
        lambda f: f["entries"][2].update(end=401),
        lambda f: f.pop("topic_id"),
        lambda f: f.update(entries=None),
    ],
)
def test_a_page_that_is_none_of_ours_is_corrupt(page, log_bytes, change):
    """Although its CRC fits: of another format or partition, or with entries that do not fill it."""
    ref, data, _ = page
    fields = json.loads(decompressed(data, "k"))
    change(fields)
    other = compressed(json.dumps(fields).encode())
    ref = structs.replace(ref, size_bytes=len(other), crc32c=manifest_pages.crc32c(other))
    with pytest.raises(Corrupt):
        page_from_bytes(other, ref, log_bytes.partition)


def test_dead_entries_must_be_where_the_reference_says(page, log_bytes):
    """The count and the first live offset belong together."""
    ref, data, entries = page
    dead = structs.replace(ref, dead_count=1, live_first=200)
    assert page_from_bytes(data, dead, log_bytes.partition) == entries
    with pytest.raises(Corrupt):
        page_from_bytes(data, structs.replace(ref, dead_count=1, live_first=300), log_bytes.partition)


def named(ref, data, **changes):
    """The reference of a page whose bytes are ``data``."""
    return structs.replace(ref, size_bytes=len(data), crc32c=crc32c(data), **changes)


def test_a_page_holds_no_more_than_its_manifest_says(page, log_bytes):
    """Three kilobytes of `{},{},...` would be 800 MiB of objects, in every reader of the archive."""
    ref, _, _ = page
    for count, why in ((1 << 20, "holds 1048578 objects, more than the 16"), (11 << 20, "can hold at most 16777216")):
        bomb = compressed(b'{"entries": [' + b"{}," * count + b"{}]}")
        assert len(bomb) < 10_000
        with pytest.raises(Corrupt, match=why):
            page_from_bytes(bomb, named(ref, bomb), log_bytes.partition)
    with pytest.raises(Corrupt, match="objects, more than the 2097152"):
        page_from_bytes(bomb, named(ref, bomb, entry_count=1 << 30), log_bytes.partition)


def test_a_page_that_no_reader_would_take_is_not_written(log_bytes, make_entry, monkeypatch):
    """It would have taken its entries with it."""
    monkeypatch.setattr(manifest_pages, "PAGE_BYTES_MAX", 1000)
    page_to_bytes(log_bytes.partition, [make_entry(0, 10)])
    with pytest.raises(ManifestFull, match="a page of 3 entries"):
        page_to_bytes(log_bytes.partition, [make_entry(at, at + 10) for at in (0, 10, 20)])


def test_the_largest_page_that_is_written_can_be_read(log_bytes, make_entry):
    """All entries of a page that is not merged any more, with the largest numbers there are."""
    one = make_entry(1 << 30, (1 << 30) + 1, epoch=7, max_timestamp_ms=1 << 30, aborted_count=1 << 30)
    entries = tuple(structs.replace(one, base=(1 << 30) + at, end=(1 << 30) + at + 1) for at in range(2000))
    data = page_to_bytes(log_bytes.partition, entries)
    assert len(page_from_bytes(data, page_ref(log_bytes.partition, entries, data, 7), log_bytes.partition)) == 2000
    raw_bytes = len(decompressed(data, "k", 1 << 30))
    assert raw_bytes * 2 < manifest_pages.ENTRY_BYTES_MAX * len(entries)


def grown(make_entry, log_bytes, counts):
    """A manifest after commits of so many entries each, spilled as planned; and all its entries, and all its pages."""
    manifest = claim(Manifest(log_bytes.partition), US, now_ms=0)
    everything, pages = [], {}
    for count in counts:
        at = manifest.remote_end
        new = [make_entry(a, a + 10, epoch=1) for a in range(at, at + 10 * count, 10)]
        everything += new
        manifest = commit(manifest, US, [Uploaded(entry, US) for entry in new], now_ms=1)
        plan = plan_spill(manifest, count)
        if plan is not None:
            entries = [entry for old in plan.merged for entry in pages[old.key]] + list(
                manifest.entries[: plan.inline_count]
            )
            ref = page_ref(log_bytes.partition, entries, page_to_bytes(log_bytes.partition, entries), manifest.seq)
            pages[ref.key] = entries
            manifest = spill(manifest, plan, ref)
    return manifest, everything, pages


@given(counts=st.lists(st.integers(1, 25), max_size=20))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spilling_loses_no_entry(make_entry, log_bytes, counts):
    """Pages and inline entries together are what was committed, in order; totals stay right."""
    unchanged = manifest_pages.INLINE_MAX, manifest_pages.INLINE_KEPT, manifest_pages.FANOUT
    manifest_pages.INLINE_MAX, manifest_pages.INLINE_KEPT, manifest_pages.FANOUT = 6, 3, 3
    try:
        manifest, everything, pages = grown(make_entry, log_bytes, counts)
    finally:
        manifest_pages.INLINE_MAX, manifest_pages.INLINE_KEPT, manifest_pages.FANOUT = unchanged
    found = [entry for ref in manifest.pages for entry in pages[ref.key]] + list(manifest.entries)
    assert found == everything
    assert manifest.totals.segments == len(everything)
    assert len(manifest.entries) <= max([6, *counts[-1:]])
    live = {ref.key for ref in manifest.pages}
    assert {item.key for item in manifest.trash} == set(pages) - live


def test_a_manifest_stays_small_whatever_its_age(monkeypatch):
    """Sixteen pages of one class make one of the next, and the largest are left alone."""
    partition = PartitionId("t", bytes(16), 0)
    manifest = Manifest(partition)
    counts = []
    for number in range(600):
        entries = INLINE_MAX - INLINE_KEPT
        plan = plan_spill(structs.replace(manifest, entries=(None,) * (INLINE_MAX + 0 + 1)))
        assert plan.inline_count == entries + 1
        total = sum(page.entry_count for page in plan.merged) + plan.inline_count
        ref = manifest_pages.PageRef(
            "k", number, number + 1, number, total, 1, 0, Totals(), 0, 0, 0, 0, live_first=number, front_timestamp_ms=0
        )
        kept = manifest.pages[: len(manifest.pages) - len(plan.merged)]
        manifest = structs.replace(manifest, pages=(*kept, ref))
        counts.append(len(manifest.pages))
    assert max(counts) <= 600 // FANOUT**2 + 2 * (FANOUT - 1)
    assert sum(page.entry_count for page in manifest.pages) == 600 * (INLINE_MAX - INLINE_KEPT + 1)


def test_entries_that_a_change_has_added_stay_inline(make_entry, log_bytes):
    """So that its repetition after a lost reply finds it."""
    manifest = claim(Manifest(log_bytes.partition), US, now_ms=0)
    new = [make_entry(a, a + 10, epoch=1) for a in range(0, 3000, 10)]
    manifest = commit(manifest, US, [Uploaded(entry, US) for entry in new], now_ms=1)
    assert plan_spill(manifest, len(new)) is None
    assert plan_spill(manifest, 150).inline_count == 150
    assert plan_spill(manifest).inline_count == len(new) - INLINE_KEPT
