from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ChecksumMismatch, NotFound


def test_times_come_from_the_clock():
    """Modification times are those of the injected clock."""
    store = MemoryStore(clock_ms=iter((5000, 7000)).__next__)
    store.put("k", b"1")
    assert store.head("k").modified_ms == 5000
    store.put("k", b"2")
    assert [info.modified_ms for info in store.list("")] == [7000]


def test_versions_are_never_repeated():
    """The same bytes written again have a new version, so a stale one is always told apart."""
    store = MemoryStore()
    first = store.put("k", b"same")
    assert store.put("k", b"same") != first


def test_a_wrong_checksum_keeps_the_old_object():
    """A refused write changes nothing."""
    store = MemoryStore()
    store.put("k", b"old")
    with pytest.raises(ChecksumMismatch):
        store.put("k", b"new", crc32c=0)
    assert store.get("k")[0] == b"old"


def test_the_caller_keeps_its_buffer():
    """Changing a bytearray after the put does not change the object."""
    store = MemoryStore()
    buffer = bytearray(b"before")
    store.put("k", buffer)
    buffer[:] = b"after!"
    assert store.get("k")[0] == b"before"


def test_a_listing_over_several_pages_survives_deletions():
    """Deleting what was listed, while listing, skips nothing that is left."""
    store = MemoryStore()
    keys = [f"k{number:05}" for number in range(2500)]
    for key in keys:
        store.put(key, b"")
    seen = []
    for info in store.list("k"):
        seen.append(info.key)
        store.delete_many([info.key])
    assert seen == keys
    with pytest.raises(NotFound):
        store.get(keys[0])


@given(st.sets(st.sampled_from(["a", "a-", "a/b", "a/b-", "a/c", "b", "é", "a.b", "a/é/z", "zz"])), st.data())
def test_the_listing_is_the_sorted_set(keys, data):
    """After random puts and deletions a listing is the rest, sorted by bytes."""
    store = MemoryStore()
    for key in data.draw(st.permutations(sorted(keys))):
        store.put(key, b"")
    gone = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()
    store.delete_many(gone)
    assert [info.key for info in store.list("")] == sorted(keys - gone, key=str.encode)
