from __future__ import annotations

import pytest

from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.remembering_store import RememberingStore, recall
from stratalog.tier.stores.store import NotFound, PreconditionFailed, StoreError

KEY = "topics/t-x/0000000000/manifest.json"


def test_written_and_read_objects_are_remembered(memory_store):
    """With the version that a compare-and-swap has to name; a read still asks the store."""
    store = RememberingStore(memory_store)
    assert recall(store, KEY) is None
    first = store.put_if_absent(KEY, b"one")
    assert recall(store, KEY) == (b"one", first)
    second = store.compare_and_swap(KEY, b"two", first)
    assert recall(store, KEY) == (b"two", second)
    third = memory_store.put(KEY, b"by another")
    assert recall(store, KEY) == (b"two", second)
    assert store.get(KEY) == recall(store, KEY) == (b"by another", third)


def test_other_objects_are_not_kept(memory_store):
    """Only manifests are changed again and again."""
    store = RememberingStore(memory_store)
    store.put_if_absent("topics/t-x/topic.json", b"{}")
    store.get("topics/t-x/topic.json")
    assert recall(store, "topics/t-x/topic.json") is None
    assert recall(memory_store, KEY) is None


def test_a_lost_race_or_a_lost_reply_is_forgotten(memory_store):
    """The present state is unknown then."""
    store = RememberingStore(memory_store)
    first = store.put_if_absent(KEY, b"one")
    memory_store.put(KEY, b"by another")
    with pytest.raises(PreconditionFailed):
        store.compare_and_swap(KEY, b"two", first)
    assert recall(store, KEY) is None
    faulty = FaultyStore(memory_store, [FaultRule(Fault.DROP_AFTER_COMMIT, "compare_and_swap")])
    store = RememberingStore(faulty)
    version = store.get(KEY)[1]
    with pytest.raises(StoreError):
        store.compare_and_swap(KEY, b"three", version)
    assert recall(store, KEY) is None
    memory_store.delete_many([KEY])
    with pytest.raises(NotFound):
        store.get(KEY)
    assert recall(store, KEY) is None


def test_memory_is_bounded(memory_store):
    """The ones that were not touched for longest go first."""
    store = RememberingStore(memory_store, bytes_max=25)
    keys = [f"topics/t-x/{number:010}/manifest.json" for number in range(4)]
    for key in keys:
        store.put_if_absent(key, b"0123456789")
    assert [recall(store, key) is None for key in keys] == [True, True, False, False]
    store.compare_and_swap(keys[2], b"0123456789" * 2, store.get(keys[2])[1])
    assert [recall(store, key) is None for key in keys] == [True, True, False, True]
