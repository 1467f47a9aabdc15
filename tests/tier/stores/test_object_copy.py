"""Copies inside a store."""

from __future__ import annotations

import pytest

from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.object_copy import CopiesItself, copy_object
from stratalog.tier.stores.prefix_store import PrefixStore
from stratalog.tier.stores.store import NotFound
from stratalog.tier.stores.wrappers import CountingStore
from stratalog.wire.errors import Corrupt


def pytest_generate_tests(metafunc):
    """Over every store of the conformance suite, and stores around them."""
    if "any_store" in metafunc.fixturenames:
        metafunc.parametrize("any_store", ["memory_store", "local_store", "s3_store"], indirect=True)


@pytest.fixture
def any_store(request):
    """A store of each kind."""
    return request.getfixturevalue(request.param)


def test_a_copy_has_the_same_bytes_and_metadata(any_store):
    """Twice the same, also over another object; the original stays."""
    any_store.put("a/b", b"data", metadata={"name": "value"})
    any_store.put("c", b"old")
    for _ in range(2):
        copy_object(any_store, "a/b", "c")
    assert any_store.get("c")[0] == any_store.get("a/b")[0] == b"data"
    assert any_store.head("c").metadata["name"] == "value"


def test_a_missing_object_is_not_copied(any_store):
    """The error names the key, nothing is written."""
    with pytest.raises(NotFound, match="none"):
        copy_object(any_store, "none", "c")
    with pytest.raises(NotFound):
        any_store.head("c")


def test_s3_copies_by_one_request(s3_store):
    """Also below a prefix and behind a counter: no bytes travel."""
    inner = CountingStore(s3_store)
    store = PrefixStore(inner, "p")
    store.put("a", b"data")
    assert isinstance(store, CopiesItself)
    copy_object(store, "a", "b")
    assert store.get("b")[0] == b"data"
    assert [inner.count(name) for name in ("copy", "get", "put")] == [1, 1, 1]


def test_stores_around_one_that_does_not_copy_say_so():
    """The object is then read and written."""
    inner = CountingStore(MemoryStore())
    store = PrefixStore(inner, "p")
    store.put("a", b"data")
    assert not store.copy_inside("a", "b")
    copy_object(store, "a", "b")
    assert store.get("b")[0] == b"data"


def test_bytes_that_were_damaged_on_their_way_are_not_copied(memory_store):
    """They are read again; what differs each time is no copy."""
    memory_store.put("a", b"data", metadata={"name": "value"})
    faulty = FaultyStore(memory_store, [FaultRule(Fault.CORRUPT, "get", count=READS_MAX - 1)])
    faulty.copy_inside = lambda key, target_key: False
    copy_object(faulty, "a", "b")
    assert memory_store.get("b")[0] == b"data"
    assert memory_store.head("b").metadata == memory_store.head("a").metadata
    faulty.set_rules([FaultRule(Fault.TRUNCATE, "get", count=READS_MAX)])
    with pytest.raises(Corrupt, match="it is not copied"):
        copy_object(faulty, "a", "c")
    assert [info.key for info in memory_store.list("")] == ["a", "b"]
