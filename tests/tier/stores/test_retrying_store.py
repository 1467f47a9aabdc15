from __future__ import annotations

import math
import random

import pytest

from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore, InjectedFault
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.retrying_store import RetryingStore, RetryPolicy
from stratalog.tier.stores.store import PUT_ID, AlreadyExists, NotFound, PreconditionFailed
from stratalog.tier.stores.wrappers import CountingStore

LOST = (Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT)


@pytest.fixture
def faulty():
    """A store in memory that fails on demand."""
    return FaultyStore(MemoryStore())


@pytest.fixture
def retrying(faulty, virtual_time):
    """The retry loop around it, in virtual time, with requests counted in between."""
    timing = Timing(virtual_time.now_s, virtual_time.sleep_s, random.Random(1))
    return RetryingStore(CountingStore(faulty), RetryPolicy(10.0, 0.1, 1.0), timing=timing)


def test_passing_errors_are_retried(faulty, retrying, virtual_time):
    """Refusals are repeated until the store answers, with a wait before each repetition."""
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=3), FaultRule(Fault.CONFLICT, count=2)])
    retrying.put("k", b"1")
    assert retrying.inner.count("put") == 6
    assert len(virtual_time.sleeps) == 5
    assert retrying.get("k")[0] == b"1"


def test_waits_stay_below_a_doubling_bound(faulty, retrying, virtual_time):
    """Each wait is between 0 and a bound that doubles up to the longest."""
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=9)])
    retrying.put("k", b"1")
    bounds = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert len(virtual_time.sleeps) == 9
    assert all(0.0 <= wait <= bound for wait, bound in zip(virtual_time.sleeps, bounds, strict=True))
    assert len(set(virtual_time.sleeps)) == 9


def test_the_deadline_ends_it(faulty, retrying, virtual_time):
    """No attempt begins after the deadline; the last error says how often it was tried."""
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=None)])
    started = virtual_time.now
    with pytest.raises(InjectedFault) as caught:
        retrying.get("k")
    assert virtual_time.now - started <= 10.0
    attempts = retrying.inner.count("get")
    assert caught.value.__notes__ == [f"Gave up after {attempts} attempts in {virtual_time.now - started:.1f} s."]


def test_without_a_deadline_it_goes_on(faulty, virtual_time):
    """An infinite deadline outlasts any outage, and the bound does not overflow."""
    timing = Timing(virtual_time.now_s, virtual_time.sleep_s)
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=2000)])
    RetryingStore(faulty, RetryPolicy(math.inf, 0.1, 30.0), timing=timing).put("k", b"1")
    assert max(virtual_time.sleeps) <= 30.0


def test_final_errors_are_not_repeated(retrying, virtual_time):
    """An error that waiting cannot change is raised at once."""
    retrying.put("k", b"1")
    with pytest.raises(NotFound):
        retrying.get("missing")
    with pytest.raises(AlreadyExists):
        retrying.put_if_absent("k", b"2")
    with pytest.raises(PreconditionFailed):
        retrying.compare_and_swap("k", b"2", "other")
    assert virtual_time.sleeps == []
    assert retrying.inner.count("head") == 0


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_create_is_recognised(faulty, retrying, fault):
    """The repetition of a create that was applied finds its own mark and succeeds."""
    faulty.set_rules([FaultRule(fault, "put_if_absent")])
    version = retrying.put_if_absent("k", b"mine", metadata={"writer": "1"})
    assert retrying.get("k") == (b"mine", version)
    assert retrying.head("k").metadata["writer"] == "1"


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_swap_is_recognised(faulty, retrying, fault):
    """So does that of a swap."""
    first = retrying.put("k", b"1")
    faulty.set_rules([FaultRule(fault, "compare_and_swap")])
    second = retrying.compare_and_swap("k", b"2", first)
    assert retrying.get("k") == (b"2", second)


def test_a_lost_swap_that_was_replaced_stays_refused(faulty, retrying):
    """When another writer came in between, the object alone can tell: the loop does not guess."""
    first = retrying.put("k", b"1")
    inner = faulty.inner

    class Interposed(FaultyStore):
        def compare_and_swap(self, key, data, expected, **options):
            try:
                return super().compare_and_swap(key, data, expected, **options)
            except InjectedFault:
                inner.put(key, b"another writer's")
                raise

    retrying.inner = Interposed(inner, [FaultRule(Fault.DROP_AFTER_COMMIT, "compare_and_swap")])
    with pytest.raises(PreconditionFailed):
        retrying.compare_and_swap("k", b"2", first)
    assert inner.get("k")[0] == b"another writer's"


def test_a_foreign_object_is_not_taken_for_our_own(faulty, retrying):
    """After an attempt that did nothing, another writer's object is refused."""
    faulty.inner.put("k", b"theirs", metadata={PUT_ID: "theirs"})
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, "put_if_absent")])
    with pytest.raises(AlreadyExists):
        retrying.put_if_absent("k", b"mine")


def test_the_callers_mark_is_kept(retrying):
    """A put-id given by the caller is used, so that it recognises its object after a restart."""
    retrying.put_if_absent("k", b"1", metadata={PUT_ID: "mark-1"})
    assert retrying.head("k").metadata == {PUT_ID: "mark-1"}


def test_a_listing_goes_on_where_it_broke(faulty, retrying):
    """A page that fails is fetched again; no key is skipped or repeated."""
    keys = [f"k{number:04}" for number in range(2500)]
    for key in keys:
        faulty.inner.put(key, b"")
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, "list", skip=1, count=2)])
    assert [info.key for info in retrying.list("k")] == keys
    assert len(faulty.injected) == 2


def test_a_call_that_waits_long_says_once_what_it_waits_for(faulty, retrying, virtual_time, monkeypatch):
    """After three seconds of failures, and for all calls of the store together."""
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=None)])
    started_s = virtual_time.now
    said_s = []
    monkeypatch.setattr(
        "stratalog.tier.stores.retrying_store.log.warning",
        lambda text, *values: said_s.append((virtual_time.now - started_s, text % values)),
    )
    for _ in range(2):
        with pytest.raises(InjectedFault):
            retrying.get("k")
    ((first_s, first), (second_s, _)) = said_s
    assert 2.0 <= first_s <= 3.0  # before the wait that passes the third second
    assert second_s >= first_s + 10.0
    assert "trying again, for at most 10 s in all: get 'k' in memory:" in first


def test_a_call_that_succeeds_soon_says_nothing(faulty, retrying, caplog):
    """Single failures are ordinary."""
    faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=3)])
    retrying.put("k", b"1")
    assert caplog.records == []


def test_a_store_that_never_answered_is_given_up_soon(faulty, virtual_time):
    """Until its first answer, be that an error; then the whole deadline counts."""
    timing = Timing(virtual_time.now_s, virtual_time.sleep_s, random.Random(1))
    retrying = RetryingStore(faulty, RetryPolicy(10.0, 0.1, 1.0, first_deadline_s=2.0), timing=timing)
    for limit_s, answer in ((2.0, True), (10.0, False)):
        faulty.set_rules([FaultRule(Fault.FAIL_BEFORE, count=None)])
        started = virtual_time.now
        with pytest.raises(InjectedFault):
            retrying.get("k")
        assert limit_s - 1.0 <= virtual_time.now - started <= limit_s
        faulty.set_rules([])
        if answer:
            with pytest.raises(NotFound):
                retrying.get("k")
