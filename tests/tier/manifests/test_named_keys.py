"""Every key that a manifest names, also through pages, trash and history."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.named_keys import named_keys, objects_of
from stratalog.tier.manifests.pages import compressed, page_ref, page_to_bytes
from stratalog.tier.manifests.parts import HISTORY_KIND, PAGE_KIND, HistoryRef, TrashEntry
from stratalog.tier.stores.store import NotFound
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.errors import Corrupt


@pytest.fixture
def manifest(memory_store, log_bytes):
    """Five entries, all inline."""
    segments = [log_bytes.segment(a, 1, 10) for a in range(0, 50, 10)]
    return archive_log(memory_store, log_bytes.partition, segments, now_ms=5)


def paged(store, manifest, start, end):
    """A stored page with these entries."""
    data = page_to_bytes(manifest.partition, manifest.entries[start:end])
    ref = page_ref(manifest.partition, manifest.entries[start:end], data, start)
    store.put(ref.key, data)
    return ref


def test_pages_trash_and_history_are_followed(memory_store, manifest):
    """Live entries of pages, all objects of a page in the trash from its dead ones on, the chain of copies."""
    entries = [entry.key for entry in manifest.entries]
    dead, live = paged(memory_store, manifest, 0, 2), paged(memory_store, manifest, 2, 4)
    first = HistoryRef(1, manifest.partition.history_key(1, "w"), "")
    second = HistoryRef(2, manifest.partition.history_key(2, "w"), "")
    memory_store.put(first.key, compressed(to_bytes(manifest)))
    memory_store.put(second.key, compressed(to_bytes(replace(manifest, history=first))))
    item = TrashEntry(dead.key, 1, 1, 1, "retention", 1, kind=PAGE_KIND, dead_count=1)
    now = replace(manifest, pages=(live,), entries=manifest.entries[4:], trash=(item,), history=second)
    assert named_keys(memory_store, now) == {*entries[1:], dead.key, live.key, first.key, second.key}
    trimmed = replace(now, history=replace(second, start=2))
    assert named_keys(memory_store, now) - named_keys(memory_store, trimmed) == {first.key}
    memory_store.delete_many([first.key])
    assert second.key in named_keys(memory_store, now)


def test_objects_that_go_with_an_item_of_the_trash(memory_store, manifest):
    """A page comes last; one that is gone already took its objects with it."""
    ref = paged(memory_store, manifest, 0, 3)
    item = TrashEntry(ref.key, 1, 1, 1, "retention", 1, kind=PAGE_KIND, dead_count=1)
    assert objects_of(memory_store, manifest.partition, item) == [*(e.key for e in manifest.entries[1:3]), ref.key]
    alone = replace(item, kind="")
    assert objects_of(memory_store, manifest.partition, alone) == [ref.key]
    memory_store.delete_many([ref.key])
    assert objects_of(memory_store, manifest.partition, item) == [ref.key]


def test_a_copy_in_the_trash_stands_for_those_before_it(memory_store, manifest):
    """Never for one after it, nor for what is no copy; those that have gone already are not asked for."""
    keys = [manifest.partition.history_key(seq, "w") for seq in (1, 2, 2, 3)]
    keys[2] = manifest.partition.history_key(2, "x")
    for key in (*keys, manifest.partition.history_prefix + "0notes"):
        memory_store.put(key, b"")
    item = TrashEntry(keys[2], 1, 1, 5, "history trimmed", 1, kind=HISTORY_KIND)
    assert objects_of(memory_store, manifest.partition, item) == keys[:3]
    memory_store.delete_many(keys[:2])
    assert objects_of(memory_store, manifest.partition, item) == [keys[2]]
    assert named_keys(memory_store, replace(manifest, trash=(item,))) >= {keys[2]}


def test_a_page_that_cannot_be_read_stops_everything(memory_store, manifest):
    """Its other names are unknown."""
    ref = paged(memory_store, manifest, 0, 3)
    now = replace(manifest, pages=(ref,), entries=manifest.entries[3:])
    item = TrashEntry(ref.key, 1, 1, 1, "retention", 1, kind=PAGE_KIND)
    memory_store.put(ref.key, compressed(b"[]"))
    with pytest.raises(Corrupt):
        named_keys(memory_store, now)
    with pytest.raises(Corrupt):
        objects_of(memory_store, manifest.partition, item)
    memory_store.delete_many([ref.key])
    with pytest.raises(NotFound):
        named_keys(memory_store, now)
