from __future__ import annotations

import threading

import pytest

from stratalog.tier.stores.file_backed import file_of
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.prefix_store import PrefixStore
from stratalog.tier.stores.store import AlreadyExists, NotFound, ObjectStore
from stratalog.tier.stores.wrappers import Call, CountingStore, StoreWrapper, received_bytes


class Recording(StoreWrapper):
    """Notes every call."""

    def __init__(self, inner):
        super().__init__(inner)
        self.calls = []

    def _around(self, call, run):
        self.calls.append(call)
        return run()


def use_everything(store):
    """Call every method of the port once."""
    version = store.put("k", [b"ab", b"c"])
    store.compare_and_swap("k", b"abcd", version)
    store.put_if_absent("n", b"12345")
    store.put_large("l", [b"x" * 10], part_bytes=5)
    assert store.get("k")[0] == b"abcd"
    assert store.get_range("k", 1, 2) == b"bc"
    assert store.get_suffix("n", 2) == (b"45", 5)
    assert store.head("l").size_bytes == 10
    assert [info.key for info in store.list("")] == ["k", "l", "n"]
    store.delete_many(["k", "l"])
    assert list(store.list_uploads("")) == []
    store.abort_upload("k", "id")


def test_the_file_of_an_object_is_no_request(tmp_path):
    """Every wrapper passes it on where there is one."""
    local = LocalStore(str(tmp_path), sync=False)
    store = Recording(local)
    assert store.file_of("a/k") == file_of(store, "a/k") == local.file_of("a/k") == str(tmp_path / "a" / "k")
    assert PrefixStore(store, "a").file_of("k") == str(tmp_path / "a" / "k")
    assert store.calls == []
    assert file_of(Recording(MemoryStore()), "k") is None


def test_every_request_passes_through_one_method():
    """Each method of the port reaches the inner store and shows its operation, key and sizes."""
    store = Recording(MemoryStore())
    use_everything(store)
    assert isinstance(store, ObjectStore)
    assert store.calls == [
        Call("put", "k", 3),
        Call("compare_and_swap", "k", 4),
        Call("put_if_absent", "n", 5),
        Call("put_large", "l", 10),
        Call("get", "k"),
        Call("get_range", "k", asked_bytes=2),
        Call("get_suffix", "n", asked_bytes=2),
        Call("head", "l"),
        Call("list", ""),
        Call("delete_many", "k"),
        Call("list_uploads", ""),
        Call("abort_upload", "k"),
    ]


def test_listings_and_deletions_are_counted_as_a_bucket_bills_them():
    """2001 keys are three pages, and three batches of deletions."""
    store = Recording(MemoryStore())
    keys = [f"k{number:04}" for number in range(2001)]
    for key in keys:
        store.inner.put(key, b"")
    assert [info.key for info in store.list("k")] == keys
    store.delete_many(iter(keys))
    assert [call.operation for call in store.calls] == ["list"] * 3 + ["delete_many"] * 3
    assert list(store.inner.list("")) == []


def test_counting_knows_bytes_outcomes_and_durations(virtual_time):
    """Requests are counted by operation and outcome, bytes by direction, and the observer gets each."""
    told = []
    inner = MemoryStore()
    timing = Timing(now_s=virtual_time.now_s)
    store = CountingStore(inner, on_request=told.append, timing=timing, log_count=4)
    store.put("k", b"12345")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("k", b"123")
    with pytest.raises(NotFound):
        store.get("missing")
    store.get("k")
    store.get_range("k", 0, 2)
    store.get_suffix("k", 3)
    assert (store.count(), store.count("get"), store.count("get", "NotFound")) == (6, 2, 1)
    assert store.count(outcome="ok") == 4
    assert (store.sent_bytes, store.received_bytes) == (8, 10)
    assert [request.operation for request in store.requests] == ["get", "get", "get_range", "get_suffix"]
    assert len(told) == 6
    assert (told[1].outcome, told[1].duration_s) == ("AlreadyExists", 0.0)


def test_counting_is_exact_under_threads():
    """No request is lost between threads."""
    store = CountingStore(MemoryStore())

    def put_some(name):
        for number in range(200):
            store.put(f"{name}/{number}", b"xy")

    threads = [threading.Thread(target=put_some, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (store.count("put"), store.sent_bytes) == (800, 1600)


def test_received_bytes_knows_the_answers():
    """Bytes alone or with something beside them count; descriptions do not."""
    assert received_bytes(b"abc") == 3
    assert received_bytes((b"abc", "v1")) == 3
    assert received_bytes("v1") == received_bytes(None) == received_bytes(()) == 0
