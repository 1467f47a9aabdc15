from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.throttled_store import ThrottledStore, TokenBucket


@pytest.fixture
def timing(virtual_time):
    """Virtual time as the port."""
    return Timing(now_s=virtual_time.now_s, sleep_s=virtual_time.sleep_s)


def test_the_burst_is_free_and_the_rest_waits(virtual_time, timing):
    """The first bytes up to the burst pass at once, further ones at the rate, and idle time earns the burst again."""
    bucket = TokenBucket(100.0, burst_bytes=50, timing=timing)
    bucket.take(50)
    assert virtual_time.sleeps == []
    bucket.take(30)
    bucket.take(20)
    assert virtual_time.sleeps == pytest.approx([0.3, 0.2])
    virtual_time.now += 1000
    bucket.take(50)
    bucket.take(10)
    assert virtual_time.sleeps == pytest.approx([0.3, 0.2, 0.1])


def test_a_request_larger_than_the_burst_passes(virtual_time, timing):
    """It waits for its whole size and no longer."""
    TokenBucket(100.0, burst_bytes=50, timing=timing).take(250)
    assert virtual_time.sleeps == pytest.approx([2.0])


def test_a_new_rate_holds_from_now_on(virtual_time, timing):
    """Credit from the old rate stays; debts are paid at the new one."""
    bucket = TokenBucket(100.0, burst_bytes=0, timing=timing)
    assert bucket.spend(100) == pytest.approx(1.0)
    virtual_time.now += 0.5
    bucket.set_rate(10.0)
    assert bucket.spend(0) == pytest.approx(5.0)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30))
def test_the_rate_is_never_exceeded(sizes):
    """Requests of random sizes that take n bytes in sum take (n - burst) / rate seconds, neither less nor more."""
    now = [0.0]
    timing = Timing(now_s=lambda: now[0], sleep_s=lambda seconds: now.__setitem__(0, now[0] + seconds))
    bucket = TokenBucket(1000.0, burst_bytes=2000, timing=timing)
    for size in sizes:
        bucket.take(size)
    assert now[0] == pytest.approx(max(0.0, (sum(sizes) - 2000) / 1000.0), abs=1e-6)


def test_writes_and_reads_have_their_own_rates(virtual_time, timing):
    """Writes wait for the write rate only, reads for the read rate only, descriptions for nothing."""
    writes = TokenBucket(10.0, burst_bytes=0, timing=timing)
    reads = TokenBucket(100.0, burst_bytes=0, timing=timing)
    store = ThrottledStore(MemoryStore(), writes=writes, reads=reads)
    store.put("k", b"x" * 20)
    assert virtual_time.sleeps == pytest.approx([2.0])
    store.get_range("k", 0, 10)
    assert virtual_time.sleeps == pytest.approx([2.0, 0.1])
    store.head("k")
    list(store.list(""))
    store.put("empty", b"")
    assert len(virtual_time.sleeps) == 2


def test_answers_of_unknown_size_are_paid_by_the_next_request(virtual_time, timing):
    """A whole object is read at once and its bytes delay what follows."""
    reads = TokenBucket(10.0, burst_bytes=0, timing=timing)
    store = ThrottledStore(MemoryStore(), reads=reads)
    store.put("k", b"x" * 20)
    store.get("k")
    assert virtual_time.sleeps == []
    store.get("k")
    assert virtual_time.sleeps == pytest.approx([2.0])


def test_unsent_budget_is_given_back(virtual_time, timing):
    """A suffix longer than the object costs the object's size."""
    reads = TokenBucket(10.0, burst_bytes=100, timing=timing)
    store = ThrottledStore(MemoryStore(), reads=reads)
    store.put("k", b"x" * 10)
    store.get_suffix("k", 100)
    assert reads.spend(90) == 0.0
    assert virtual_time.sleeps == []


def test_without_a_rate_nothing_waits(virtual_time, timing):
    """None leaves a direction free."""
    store = ThrottledStore(MemoryStore())
    store.put("k", b"x" * 1000)
    assert store.get("k")[0] == b"x" * 1000
    assert virtual_time.sleeps == []
