"""The lease of one planned read: when it is written, renewed, and what happens where it cannot be."""

import logging

import pytest

from stratalog.spark.source import read_lease
from stratalog.spark.source.read_lease import (
    LeaseTicket,
    finish_task,
    give_back,
    keep_lease,
    lease_if_needed,
    take_lease,
)
from stratalog.tier.manifests.leases import end_lease, list_leases
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import StoreDenied, StoreUnavailable
from stratalog.tier.stores.wrappers import CountingStore, StoreWrapper

HOUR = 3_600_000


class NoDeletesStore(StoreWrapper):
    """A bucket where this job may write its leases, and remove nothing."""

    def _around(self, call, run):
        if call.operation.startswith("delete"):
            raise StoreDenied(call.operation, call.key, self.url, "access denied")
        return run()


class ReadOnlyStore(StoreWrapper):
    """A bucket whose policy lets this job read."""

    def _around(self, call, run):
        if call.operation.startswith(("put", "compare", "delete")):
            raise StoreDenied(call.operation, call.key, self.url, "access denied")
        return run()


@pytest.fixture
def clock(monkeypatch):
    """The time that leases go by, set by the test."""
    times = [1_700_000_000_000]
    monkeypatch.setattr(read_lease, "_now_ms", lambda: times[0])
    return times


def test_a_lease_is_written(clock):
    """From now on for as long as it was asked for; who holds it can be read."""
    store = MemoryStore("memory:spark-lease")
    ticket = take_lease(store, HOUR)
    (lease,) = list_leases(store)
    assert ticket == LeaseTicket(lease.uuid, clock[0], HOUR)
    assert (lease.created_ms, lease.expires_ms) == (clock[0], clock[0] + HOUR)
    assert lease.holder.startswith("spark, ")


def test_a_bucket_that_may_only_be_read_gives_one_warning(clock, caplog):
    """The query goes on without a lease, and the user learns what that means."""
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        assert take_lease(ReadOnlyStore(MemoryStore("memory:read-only")), HOUR) is None
        keep_lease(ReadOnlyStore(MemoryStore("memory:read-only")), None)
    assert len(caplog.records) == 1
    assert "leases/" in caplog.text


def test_a_bucket_that_does_not_answer_is_an_error(clock):
    """Reading without the lease that was asked for would be a silent loss of safety."""
    store = FaultyStore(MemoryStore("memory:down"), [FaultRule(Fault.FAIL_BEFORE, "put")])
    with pytest.raises(StoreUnavailable):
        take_lease(store, HOUR)


def test_tasks_renew_when_half_is_over(clock):
    """One of them does it, the next sees that; until then nothing is asked of the bucket."""
    store = CountingStore(MemoryStore("memory:renewed"))
    ticket = take_lease(store, HOUR)
    requests = store.count()
    clock[0] += HOUR // 2 - 1
    keep_lease(store, ticket)
    assert store.count() == requests
    clock[0] += 1
    keep_lease(store, ticket)
    (lease,) = list_leases(store)
    assert (lease.created_ms, lease.expires_ms) == (ticket.created_ms, clock[0] + HOUR)
    clock[0] += 1000
    keep_lease(store, ticket)
    assert list_leases(store) == [lease]


def test_a_lease_that_ran_out_is_reported_and_not_renewed(clock, caplog):
    """A removed lease is not written again, and a bucket that fails ends no read."""
    inner = MemoryStore("memory:expired")
    ticket = take_lease(inner, HOUR)
    clock[0] += HOUR
    keep_lease(inner, ticket)
    assert "leaseSeconds" in caplog.text
    assert list_leases(inner)[0].expires_ms == ticket.created_ms + HOUR
    end_lease(inner, ticket.uuid)
    keep_lease(inner, ticket)
    assert list_leases(inner) == []
    keep_lease(FaultyStore(inner, [FaultRule(Fault.FAIL_BEFORE, count=None)]), ticket)
    assert "was not renewed" in caplog.text


def test_no_lease_is_written_for_an_unreadable_bucket(clock):
    """A bucket without topics gets no lease, and one that is not there is an error: some servers make it for a write."""
    store = CountingStore(MemoryStore("memory:empty"))
    assert lease_if_needed(store, HOUR) is None
    assert lease_if_needed(store, 0) is None
    assert (store.count(), store.count("put")) == (1, 0)
    store.put("topics/t-AAAAAAAAAAAAAAAAAAAAAA/topic.json", b"{}")
    assert lease_if_needed(store, 0) is None
    assert lease_if_needed(store, HOUR) is not None
    with pytest.raises(StoreUnavailable):
        lease_if_needed(FaultyStore(store, [FaultRule(Fault.FAIL_BEFORE, "list")]), HOUR)


@pytest.mark.parametrize("part_count", [1, 3])
def test_the_last_task_ends_the_lease(clock, part_count):
    """The lease stays until the last of all tasks has finished."""
    store = MemoryStore("memory:tasks")
    ticket = take_lease(store, HOUR)
    for part in range(part_count):
        assert len(list_leases(store)) == 1
        finish_task(store, ticket, part, part_count)
    assert list_leases(store) == []


def test_a_lease_that_may_not_be_removed_runs_out_at_once(clock, caplog):
    """So the role that may only write leases ends them too; a store that fails ends no lease and is reported."""
    inner = MemoryStore("memory:no-deletes")
    ticket = take_lease(inner, HOUR)
    finish_task(FaultyStore(inner, [FaultRule(Fault.FAIL_BEFORE, count=None)]), ticket, 0, 2)
    give_back(FaultyStore(inner, [FaultRule(Fault.FAIL_BEFORE, count=None)]), ticket)
    assert "was not given back, it runs out by itself" in caplog.text
    assert list_leases(inner)[0].expires_ms == clock[0] + HOUR
    clock[0] += 7
    give_back(NoDeletesStore(inner), ticket)
    assert list_leases(inner)[0].expires_ms == clock[0]
    give_back(inner, None)
