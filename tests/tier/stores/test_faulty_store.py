from __future__ import annotations

import random

import pytest

from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore, InjectedFault
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.retrying_store import RetryingStore, RetryPolicy
from stratalog.tier.stores.store import NotFound, PreconditionFailed, StoreUnavailable


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.CONFLICT, Fault.STALL])
def test_refused_requests_change_nothing(fault):
    """These fail without having been done."""
    store = FaultyStore(MemoryStore(), [FaultRule(fault, "put")])
    with pytest.raises(InjectedFault, match=fault.value):
        store.put("k", b"1")
    with pytest.raises(NotFound):
        store.get("k")
    assert issubclass(InjectedFault, StoreUnavailable)


@pytest.mark.parametrize("fault", [Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT])
def test_lost_answers_come_after_the_deed(fault):
    """These fail although it was done."""
    store = FaultyStore(MemoryStore(), [FaultRule(fault, "put")])
    with pytest.raises(InjectedFault, match=fault.value):
        store.put("k", b"1")
    assert store.get("k")[0] == b"1"


def test_bytes_are_cut_or_damaged_without_an_error():
    """Truncation halves, corruption flips one bit, in every kind of read; other answers pass."""
    body = bytes(100)
    memory = MemoryStore()
    memory.put("k", body)
    for read in (lambda s: s.get("k")[0], lambda s: s.get_range("k", 0, 100), lambda s: s.get_suffix("k", 100)[0]):
        assert read(FaultyStore(memory, [FaultRule(Fault.TRUNCATE)])) == body[:50]
        damaged = read(FaultyStore(memory, [FaultRule(Fault.CORRUPT)]))
        assert sum(byte.bit_count() for byte in damaged) == 1
        assert len(damaged) == 100
    assert FaultyStore(memory, [FaultRule(Fault.CORRUPT)]).head("k").size_bytes == 100
    memory.put("empty", b"")
    assert FaultyStore(memory, [FaultRule(Fault.CORRUPT)]).get("empty")[0] == b""


def test_delays_go_through_the_injected_sleep(virtual_time):
    """A delay passes and a stall fails, each after its seconds."""
    timing = Timing(virtual_time.now_s, virtual_time.sleep_s)
    rules = [FaultRule(Fault.DELAY, "put", seconds=5.0), FaultRule(Fault.STALL, "get", seconds=60.0)]
    store = FaultyStore(MemoryStore(), rules, timing=timing)
    store.put("k", b"1")
    with pytest.raises(InjectedFault):
        store.get("k")
    assert virtual_time.sleeps == [5.0, 60.0]


def test_rules_choose_by_operation_key_skip_and_count():
    """Only matching requests are counted, the first ones pass, and a used-up rule does nothing more."""
    rule = FaultRule(Fault.FAIL_BEFORE, "put", key_pattern=r"^seg/", skip=2, count=2)
    store = FaultyStore(MemoryStore(), [rule])
    outcomes = []
    for number in range(6):
        store.put("manifest", b"")
        try:
            store.put(f"seg/{number}", b"")
            outcomes.append("ok")
        except InjectedFault:
            outcomes.append("fault")
    assert outcomes == ["ok", "ok", "fault", "fault", "ok", "ok"]
    assert [(fault, call.key) for fault, call in store.injected] == [
        (Fault.FAIL_BEFORE, "seg/2"),
        (Fault.FAIL_BEFORE, "seg/3"),
    ]
    store.set_rules([])
    store.put("seg/9", b"")


def test_dice_are_seeded():
    """The same seed fails the same requests; probability is kept."""

    def failures(seed):
        store = FaultyStore(MemoryStore(), [FaultRule(Fault.FAIL_BEFORE, count=None, probability=0.3)], seed=seed)
        failed = []
        for number in range(300):
            try:
                store.put("k", b"")
            except InjectedFault:
                failed.append(number)
        return failed

    assert failures(1) == failures(1) != failures(2)
    assert 50 < len(failures(1)) < 130


def test_writers_that_embed_their_mark_count_exactly_through_faults(virtual_time):
    """Increments by swap through lost answers, errors and conflicts are each applied once, as the object itself tells."""
    memory = MemoryStore()
    memory.put("counter", b"")
    rules = [
        FaultRule(fault, operation, count=None, probability=0.15)
        for fault in (Fault.DROP_AFTER_COMMIT, Fault.FAIL_AFTER_COMMIT, Fault.FAIL_BEFORE, Fault.CONFLICT)
        for operation in ("compare_and_swap", "get")
    ]
    faulty = FaultyStore(memory, rules, seed=3)
    timing = Timing(virtual_time.now_s, virtual_time.sleep_s, random.Random(3))
    stores = [RetryingStore(faulty, RetryPolicy(1e9), timing=timing) for _ in range(3)]
    for step in range(20):
        for writer, store in enumerate(stores):
            mark = f"{writer}:{step}".encode()
            while True:
                data, version = store.get("counter")
                if mark in data.split():
                    break
                try:
                    store.compare_and_swap("counter", data + mark + b" ", version)
                except PreconditionFailed:
                    continue
    marks = memory.get("counter")[0].split()
    assert len(marks) == len(set(marks)) == 60
    assert len(faulty.injected) > 40
