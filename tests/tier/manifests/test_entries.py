from __future__ import annotations

import pytest
from msgspec import structs

from stratalog.tier.manifests.entries import iter_entries, read_page
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.stores.store import NotFound
from stratalog.wire.errors import Corrupt


@pytest.fixture
def paged(memory_store, log_bytes, make_entry):
    """An archive of eight entries, three in each of two pages; the first two are gone. And all of its entries."""
    entries = [make_entry(a, a + 100, epoch=1) for a in range(0, 800, 100)]
    pages = []
    for inside in (entries[:3], entries[3:6]):
        data = page_to_bytes(log_bytes.partition, inside)
        pages.append(page_ref(log_bytes.partition, inside, data, 5))
        memory_store.put(pages[-1].key, data)
    pages[0] = structs.replace(pages[0], dead_count=2, live_first=200)
    return Manifest(log_bytes.partition, pages=tuple(pages), entries=tuple(entries[6:])), entries


def test_live_entries_come_in_order(memory_store, paged):
    """From the first live one on, or from the one that holds an offset."""
    manifest, entries = paged
    assert list(iter_entries(memory_store, manifest)) == entries[2:]
    for offset in (0, 200, 299, 300, 650, 799, 800):
        assert list(iter_entries(memory_store, manifest, offset)) == [e for e in entries[2:] if e.end > offset]


def test_only_pages_that_are_needed_are_read(memory_store, paged):
    """The rest may be gone; a page that is needed and gone is an error, never an empty list."""
    manifest, entries = paged
    memory_store.delete_many([manifest.pages[0].key])
    assert list(iter_entries(memory_store, manifest, 300)) == entries[3:]
    with pytest.raises(NotFound):
        list(iter_entries(memory_store, manifest))


def test_pages_behind_the_end_are_not_read(memory_store, paged):
    """A cut that ended before them has held none of them in the bucket."""
    manifest, entries = paged
    memory_store.delete_many([manifest.pages[1].key])
    for end in (0, 200, 250, 300):
        assert list(iter_entries(memory_store, manifest, 0, end)) == [e for e in entries[2:3] if e.base < end]
    with pytest.raises(NotFound):
        list(iter_entries(memory_store, manifest, 0, 301))


def test_inline_entries_behind_the_end_are_left_out(memory_store, paged):
    """One that begins before it comes whole."""
    manifest, entries = paged
    assert list(iter_entries(memory_store, manifest, 600, 650)) == [entries[6]]
    assert list(iter_entries(memory_store, manifest, 600, 701)) == entries[6:]


def test_a_damaged_page_is_never_skipped(memory_store, paged):
    """It says which one it is."""
    manifest, _ = paged
    key = manifest.pages[1].key
    memory_store.put(key, memory_store.get(key)[0][:-1])
    with pytest.raises(Corrupt, match="pages/"):
        read_page(memory_store, manifest, manifest.pages[1])
