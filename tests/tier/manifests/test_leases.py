"""Leases: what they protect, how they are kept, and that nothing brings an expired one back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.documents.keys import LEASES_PREFIX, lease_key
from stratalog.tier.manifests.leases import (
    LEASE_MS_MAX,
    SKEW_MS,
    Lease,
    LeaseExpired,
    end_lease,
    expire_lease,
    finish_part,
    from_bytes,
    is_over,
    list_leases,
    protects,
    renew_lease,
    renewed,
    to_bytes,
    write_lease,
)
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import ObjectInfo
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.wire.errors import Corrupt, Invalid

UUID = bytes(range(16))
HOUR = 3_600_000
NOW = 1_700_000_000_000


@pytest.fixture
def store():
    """A store of the test's own."""
    return MemoryStore("memory:leases")


def test_a_lease_protects_what_left_after_it_was_written():
    """Until it expires, with a quarter of an hour for the clocks on both sides."""
    lease = Lease(UUID, NOW, NOW + HOUR)
    assert protects(lease, NOW, NOW)
    assert protects(lease, NOW + HOUR, NOW + HOUR)
    assert protects(lease, NOW - SKEW_MS, NOW)
    assert not protects(lease, NOW - SKEW_MS - 1, NOW)
    assert protects(lease, NOW, NOW + HOUR + SKEW_MS)
    assert not protects(lease, NOW, NOW + HOUR + SKEW_MS + 1)


@pytest.mark.story
@given(st.integers(0, 10 * HOUR), st.integers(-SKEW_MS, SKEW_MS), st.integers(1, HOUR), st.integers(0, 2 * HOUR))
def test_no_skew_within_bounds_hides_a_reader(delay, skew, duration, later):
    """A reader whose clock is off by up to 15 minutes keeps what was trashed after it began, while it may read."""
    lease = Lease(UUID, NOW + skew, NOW + skew + duration)
    trashed = NOW + delay
    now = trashed + later
    if now < NOW + duration:  # the reader stops by its own clock, which runs like any other
        assert protects(lease, trashed, now)


@given(st.integers(0, HOUR - 1), st.integers(1, 5 * HOUR))
def test_renewing_keeps_the_creation(elapsed, duration):
    """And never shortens what was promised."""
    lease = Lease(UUID, NOW, NOW + HOUR, "job")
    longer = renewed(lease, duration, NOW + elapsed)
    assert longer.created_ms == NOW
    assert longer.expires_ms == max(NOW + HOUR, NOW + elapsed + duration)


def test_an_expired_lease_is_not_renewed(store):
    """The objects it held may be gone: the reader has to plan again."""
    lease = write_lease(store, UUID, HOUR, NOW)
    for now in (NOW + HOUR, NOW + 2 * HOUR):
        with pytest.raises(LeaseExpired, match="plan the read again"):
            renewed(lease, HOUR, now)
        with pytest.raises(LeaseExpired):
            renew_lease(store, UUID, HOUR, now)
    end_lease(store, UUID)
    with pytest.raises(LeaseExpired, match="gone"):
        renew_lease(store, UUID, HOUR, NOW)
    assert list_leases(store) == []


def test_a_lease_is_written_listed_renewed_and_ended(store):
    """All of it under one key of its own."""
    lease = write_lease(store, UUID, HOUR, NOW, "spark on host")
    assert list_leases(store) == [lease] == [Lease(UUID, NOW, NOW + HOUR, "spark on host")]
    assert [one.key for one in store.list("")] == [lease_key(UUID)]
    assert renew_lease(store, UUID, HOUR, NOW + 1000, left_ms=HOUR // 2) == lease, "enough is left"
    longer = renew_lease(store, UUID, HOUR, NOW + HOUR // 2, left_ms=HOUR // 2)
    assert list_leases(store) == [longer]
    assert longer.expires_ms == NOW + HOUR // 2 + HOUR
    end_lease(store, UUID)
    end_lease(store, UUID)
    assert list_leases(store) == []


@pytest.mark.parametrize("duration", [0, -1, LEASE_MS_MAX + 1])
def test_a_lease_has_an_end(store, duration):
    """One request cannot hold the trash for ever."""
    with pytest.raises(Invalid, match="renewal"):
        write_lease(store, UUID, duration, NOW)
    with pytest.raises(Invalid, match="renewal"):
        renewed(Lease(UUID, NOW, NOW + HOUR), duration, NOW)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"format":"other"}', b'{"format":"stratalog-lease","min_reader_version":2}',
     b'{"format":"stratalog-lease","uuid":"AAAAAAAAAAAAAAAAAAAAAA","created_ts":"now","expires_ts":1}'],
)  # fmt: skip
def test_a_lease_that_cannot_be_read_protects_everything_for_a_while(store, data):
    """Never delete because something is not understood; but not for ever either."""
    with pytest.raises(Corrupt, match="leases/x"):
        from_bytes(data, "leases/x.json")
    store.put(LEASES_PREFIX + "odd.json", data)
    (lease,) = list_leases(store)
    written_ms = store.head(LEASES_PREFIX + "odd.json").modified_ms
    assert protects(lease, 0, written_ms + LEASE_MS_MAX)
    assert is_over(lease, written_ms + LEASE_MS_MAX + SKEW_MS + 1)
    assert not is_over(lease, written_ms + LEASE_MS_MAX + SKEW_MS)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**60), st.integers(0, 2**60), st.text(max_size=20))
def test_a_document_comes_back_as_it_was(uuid, created, expires, holder):
    """Fields of a newer writer included."""
    lease = Lease(uuid, created, expires, holder, (("since", '"later"'),))
    assert from_bytes(to_bytes(lease), "leases/x.json") == lease
    assert json.loads(to_bytes(lease))["since"] == "later"


def test_a_key_that_no_store_can_read_is_taken_for_such_a_lease(store, monkeypatch):
    """Another program put it there; the trash of all partitions is emptied all the same, when it is old."""
    info = ObjectInfo("leases/a//b", 0, "", 1000)
    monkeypatch.setattr(store, "list", lambda prefix, start_after="": iter([info]))
    (found,) = list_leases(store)
    assert (found.created_ms, found.expires_ms) == (-1, 1000 + LEASE_MS_MAX)


@given(st.permutations(range(5)), st.lists(st.integers(0, 4), max_size=4))
def test_a_lease_is_over_when_all_parts_are_read(order, again):
    """In any order, some of them twice: once, with the last one, and a renewal in between forgets none."""
    store = MemoryStore("memory:parts")
    write_lease(store, UUID, HOUR, NOW)
    told = []
    for part in order:
        told.append(finish_part(store, UUID, part, 5))
        if not told[-1]:
            assert not any(finish_part(store, UUID, seen, 5) for seen in again if seen in order[: len(told)])
            renew_lease(store, UUID, HOUR, NOW + len(told))
    assert told == [False] * 4 + [True]
    assert finish_part(store, UUID, 0, 1)
    end_lease(store, UUID)
    assert not finish_part(store, UUID, 0, 5)


def test_parts_that_end_at_once_are_all_noted():
    """Each of two racing writers sees the other's note."""

    class Racing(StoreWrapper):
        """Another part is noted before each write, three times."""

        left = 3

        def _around(self, call, run):
            if call.operation == "compare_and_swap" and self.left:
                self.left -= 1
                finish_part(self.inner, UUID, self.left + 1, 5)
            return run()

    store = Racing(MemoryStore("memory:race"))
    write_lease(store, UUID, HOUR, NOW)
    assert not finish_part(store, UUID, 0, 5)
    assert list_leases(store)[0].done == {0, 1, 2, 3}
    assert finish_part(store, UUID, 4, 5)


def test_a_lease_can_run_out_at_once(store):
    """For those that may not remove it; its parts and its holder stay, and one that is gone or over is left alone."""
    expire_lease(store, UUID, NOW)
    write_lease(store, UUID, HOUR, NOW, "me")
    finish_part(store, UUID, 3, 5)
    expire_lease(store, UUID, NOW + 5)
    expire_lease(store, UUID, NOW + 50)
    assert list_leases(store) == [Lease(UUID, NOW, NOW + 5, "me", done=frozenset({3}))]
    with pytest.raises(LeaseExpired):
        renew_lease(store, UUID, HOUR, NOW + 6)
