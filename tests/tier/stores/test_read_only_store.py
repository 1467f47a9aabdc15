"""A store that is only read."""

from __future__ import annotations

import pytest

from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.opening import provide_store, withdraw_store
from stratalog.tier.stores.read_only_store import ReadOnlyStore, open_to_read
from stratalog.tier.stores.store import NotFound, UnsupportedOperation


@pytest.fixture
def held():
    """A store with one object."""
    store = MemoryStore("memory:read-only")
    store.put("a", b"12345")
    return store


def test_reads_go_through(held):
    """Whole objects, ranges, suffixes, heads and listings."""
    store = ReadOnlyStore(held)
    assert store.get("a")[0] == b"12345"
    assert store.get_range("a", 1, 2) == b"23"
    assert store.get_suffix("a", 2) == (b"45", 5)
    assert store.head("a").size_bytes == 5
    assert [each.key for each in store.list("")] == ["a"]
    assert list(store.list_uploads("")) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.put("b", b""),
        lambda store: store.put_if_absent("b", b""),
        lambda store: store.compare_and_swap("a", b"", store.head("a").version),
        lambda store: store.put_large("b", [b"1"], part_bytes=5 << 20),
        lambda store: store.delete_many(["a"]),
        lambda store: store.abort_upload("a", "id"),
    ],
)
def test_every_change_is_refused_before_it_is_tried(held, change):
    """The object is as it was, and no other has come."""
    before = list(held.list(""))
    with pytest.raises(UnsupportedOperation, match="open for reading only"):
        change(ReadOnlyStore(held))
    assert list(held.list("")) == before


def test_a_directory_is_not_made_by_opening_it(tmp_path):
    """A wrong path is an error, not an empty archive."""
    with pytest.raises(NotFound):
        open_to_read(f"file://{tmp_path}/nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_other_urls_are_opened_as_ever(held):
    """Only directories know the option that keeps them from being made."""
    provide_store("memory:read-only", held)
    try:
        assert open_to_read("memory:read-only").get("a")[0] == b"12345"
    finally:
        withdraw_store("memory:read-only")
