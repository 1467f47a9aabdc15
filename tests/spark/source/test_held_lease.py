"""The lease of an opened archive."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stratalog.spark.source import held_lease, read_lease
from stratalog.spark.source.held_lease import HeldLease
from stratalog.tier.manifests.leases import end_lease, list_leases
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ObjectStore, StoreDenied, StoreError, StoreUnavailable

HOUR_MS = 3_600_000


class Clock:
    """The present time of both modules."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def with_a_topic() -> MemoryStore:
    """An archive: of an empty bucket nothing is leased."""
    store = MemoryStore()
    store.put("topics/t-AAAAAAAAAAAAAAAAAAAAAA/topic.json", b"{}")
    return store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(held_lease, "_now_ms", made)
    monkeypatch.setattr(read_lease, "_now_ms", made)
    return made


def held(store: ObjectStore) -> list[tuple[int, int]]:
    return sorted((lease.created_ms, lease.expires_ms) for lease in list_leases(store))


def test_one_lease_serves_all_reads_and_is_given_back(clock: Clock) -> None:
    """Taken once, however often it is asked for; gone afterwards, and giving it back twice is harmless."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    assert held(store) == []
    lease.take()
    lease.take()
    assert held(store) == [(clock.now_ms, clock.now_ms + HOUR_MS)]
    assert list_leases(store)[0].holder.startswith("stratalog.open, ")
    lease.give_back()
    lease.give_back()
    assert held(store) == []


def test_it_is_renewed_when_half_of_it_is_over(clock: Clock) -> None:
    """Its creation stays, so what was planned first is protected still; between, nothing is asked of the bucket."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    begun_ms = clock.now_ms
    for _ in range(8):
        clock.now_ms += HOUR_MS // 4
        lease.keep()
    lease.take()
    assert held(store) == [(begun_ms, clock.now_ms + HOUR_MS)]


def test_a_plan_begins_under_a_lease_that_is_not_half_over(clock: Clock) -> None:
    """A lease of an hour that was not used for almost an hour is renewed before planning, which takes its time, too."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    begun_ms = clock.now_ms
    clock.now_ms += HOUR_MS - 1
    lease.take()
    assert held(store) == [(begun_ms, clock.now_ms + HOUR_MS)]


def test_after_it_ran_out_the_next_plan_takes_another(clock: Clock) -> None:
    """Objects that the old lease protected may be gone; the new one protects the new plan."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    clock.now_ms += 2 * HOUR_MS
    lease.take()
    assert held(store)[-1] == (clock.now_ms, clock.now_ms + HOUR_MS)


def refusing(error: type[StoreError]) -> Any:
    def refuse(key: Any, *_: Any, **__: Any) -> None:
        raise error("put", str(key), "memory:", "refused by the test")

    return refuse


def test_a_renewal_that_failed_is_tried_again_in_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Long before the lease runs out."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    clock.now_ms += HOUR_MS // 2
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(store, "get", refusing(StoreUnavailable))
        lease.keep()
    assert "was not renewed" in caplog.text
    clock.now_ms += HOUR_MS // 8
    lease.keep()
    assert held(store)[0][1] == clock.now_ms + HOUR_MS


def test_a_lost_lease_is_reported_and_replaced_by_the_next_plan(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Reading goes on: what is missing will be seen."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    end_lease(store, list_leases(store)[0].uuid)
    clock.now_ms += HOUR_MS // 2
    with caplog.at_level(logging.WARNING):
        lease.keep()
    assert "Records that retention has removed since may be missing" in caplog.text
    lease.take()
    assert held(store) == [(clock.now_ms, clock.now_ms + HOUR_MS)]


def test_no_lease_where_none_is_wanted_or_none_can_be(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bucket that may only be read gives one warning."""
    store = with_a_topic()
    lease = HeldLease(store, 0)
    lease.take()
    lease.keep()
    lease.give_back()
    assert held(store) == []
    monkeypatch.setattr(store, "put", refusing(StoreDenied))
    with caplog.at_level(logging.WARNING):
        lease = HeldLease(store, HOUR_MS)
        lease.take()
        lease.take()
        lease.keep()
        lease.give_back()
    assert caplog.text.count("no lease was written") == 1


def test_one_that_cannot_be_removed_runs_out(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a program does not fail for it."""
    store = with_a_topic()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    monkeypatch.setattr(store, "delete_many", refusing(StoreError))
    with caplog.at_level(logging.WARNING):
        lease.give_back()
    assert "was not given back, it runs out by itself" in caplog.text


def test_an_empty_bucket_is_leased_when_something_is_in_it(clock: Clock) -> None:
    """No lease is written before."""
    store = MemoryStore()
    lease = HeldLease(store, HOUR_MS)
    lease.take()
    assert list(store.list("")) == []
    store.put("topics/t-AAAAAAAAAAAAAAAAAAAAAA/topic.json", b"{}")
    lease.take()
    assert len(list_leases(store)) == 1
    lease.give_back()
