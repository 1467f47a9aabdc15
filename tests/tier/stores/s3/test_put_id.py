from __future__ import annotations

from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.s3.put_id import own_version, with_put_id
from stratalog.tier.stores.store import PUT_ID


def test_each_write_has_its_own_mark():
    """Marks differ between writes, the caller's own is kept, and the caller's dictionary is not touched."""
    given = {"writer": "1"}
    first, second = with_put_id(given), with_put_id(given)
    assert first[PUT_ID] != second[PUT_ID]
    assert first["writer"] == "1"
    assert given == {"writer": "1"}
    assert with_put_id({PUT_ID: "mine"}) == {PUT_ID: "mine"}


def test_only_the_same_mark_is_ones_own():
    """An object with another mark, without one, or none at all is not ours."""
    store = MemoryStore()
    version = store.put("k", b"", metadata={PUT_ID: "mine"})
    store.put("bare", b"")
    assert own_version(store, "k", "mine") == version
    assert own_version(store, "k", "other") is None
    assert own_version(store, "bare", "mine") is None
    assert own_version(store, "missing", "mine") is None
