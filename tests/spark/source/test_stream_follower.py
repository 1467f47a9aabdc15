"""Looking at a growing archive: what it costs, what it sees, and which leases it holds."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from stratalog.spark.source import read_lease, stream_follower
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.stream_follower import ArchiveFollower
from stratalog.spark.source.stream_options import parse_stream
from stratalog.tier.manifests.json import to_bytes
from stratalog.tier.manifests.leases import list_leases
from stratalog.tier.manifests.manifest import mark_deleted
from stratalog.tier.manifests.pages import Spill, spill
from stratalog.tier.manifests.spill import write_page
from stratalog.tier.planning.slices import OffsetRange
from stratalog.tier.stores.store import StoreDenied
from stratalog.tier.stores.wrappers import CountingStore, StoreWrapper
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import TopicPartition

ORDERS = TopicPartition("orders", 0)
HOUR = 3_600_000


@pytest.fixture
def clock(monkeypatch):
    """The time that looks and leases go by, set by the test."""
    times = [1_700_000_000_000]
    monkeypatch.setattr(stream_follower, "_now_ms", lambda: times[0])
    monkeypatch.setattr(read_lease, "_now_ms", lambda: times[0])
    return times


def follow(store, lease_ms=0, **options):
    given = {"path": "s3://b/p", **({"subscribe": "orders"} | options if "assign" not in options else options)}
    if "subscribePattern" in options:
        del given["subscribe"]
    return ArchiveFollower(store, parse_options(given, streaming=True).subscription, parse_stream(given), lease_ms)


def test_a_growing_archive_is_followed_without_listing(memory_archive, batches, clock, monkeypatch):
    """One GET a partition and look; what has not changed is not even parsed."""
    parsed = []
    real = stream_follower.from_bytes
    monkeypatch.setattr(stream_follower, "from_bytes", lambda data, key: parsed.append(key) or real(data, key))
    for partition in range(3):
        memory_archive.add("orders", partition, batches(0, 10))
    store = CountingStore(memory_archive.store)
    follower = follow(store, discoveryInterval="1h")
    assert follower.look(must_exist=True).ends == {TopicPartition("orders", each): 10 for each in range(3)}
    listed = store.count("list")
    for _ in range(5):
        clock[0] += 10_000
        follower.look()
    assert store.count("list") == listed
    assert store.count("get") == 3 + 5 * 3
    assert len(parsed) == 3
    memory_archive.add("orders", 1, batches(10, 7))
    clock[0] += 10_000
    assert follower.look().ends[TopicPartition("orders", 1)] == 17
    assert len(parsed) == 4
    follower.close()


def test_a_look_is_kept_for_a_while(memory_archive, batches, clock):
    """Spark asks a hundred times a second where nothing is new; a fresh look may be asked for."""
    memory_archive.add("orders", 0, batches(0, 10))
    store = CountingStore(memory_archive.store)
    follower = follow(store, manifestRefresh="5s")
    follower.look()
    memory_archive.add("orders", 0, batches(10, 10))
    asked = store.count()
    clock[0] += 4999
    assert follower.look().ends == follower.last.ends == {ORDERS: 10}
    assert follower.look_at({ORDERS: 10}).ends == {ORDERS: 10}
    assert store.count() == asked
    assert follower.look_at({ORDERS: 20}).ends == {ORDERS: 20}
    memory_archive.add("orders", 0, batches(20, 10))
    assert follower.look(fresh=True).ends == {ORDERS: 30}


def test_new_topics_and_partitions_are_found_by_listing_now_and_then(memory_archive, batches, clock):
    """By pattern too; assigned partitions that are all known are never listed again."""
    memory_archive.add("orders", 0, batches(0, 10))
    store = CountingStore(memory_archive.store)
    follower = follow(store, subscribePattern="ord.*", manifestRefresh="0")
    assigned = follow(store, assign='{"orders":[0]}', manifestRefresh="0")
    assert follower.look().ends == assigned.look().ends == {ORDERS: 10}
    memory_archive.add("orders", 1, batches(0, 5))
    memory_archive.add("ordered", 0, batches(0, 3))
    memory_archive.add("others", 0, batches(0, 3))
    clock[0] += 59_999
    assert follower.look().ends == {ORDERS: 10}
    clock[0] += 1
    found = {ORDERS: 10, TopicPartition("orders", 1): 5, TopicPartition("ordered", 0): 3}
    assert follower.look().ends == found
    listed = store.count("list")
    assert assigned.look().ends == {ORDERS: 10}
    assert store.count("list") == listed


def test_a_topic_made_again_is_found_at_once(memory_archive, batches, clock):
    """A manifest that is gone, or marked as deleted, makes the next look list; then the topic may also be missing."""
    memory_archive.add("orders", 0, batches(0, 10))
    follower = follow(memory_archive.store)
    follower.look()
    old = memory_archive.manifests.pop(("orders", 0))
    memory_archive.add("orders", 0, batches(0, 3), topic_id=b"u" * 16, claimed_ms=9)
    memory_archive.store.put(old.partition.manifest_key, to_bytes(mark_deleted(old, now_ms=5)))
    clock[0] += 5000
    assert follower.look().ends == {ORDERS: 3}
    memory_archive.store.delete_many([memory_archive.manifests["orders", 0].partition.manifest_key])
    clock[0] += 5000
    assert follower.look().ends == {}


def test_topics_that_must_exist_are_looked_up_anew(memory_archive, batches, clock):
    """A look that was taken before, for another reason, does not stand in."""
    follower = follow(memory_archive.store)
    assert follower.look().ends == {}
    with pytest.raises(Invalid, match="topic 'orders' is not in the archive"):
        follower.look(must_exist=True)


def test_a_lease_is_young_and_there_before_the_manifests_are_read(memory_archive, batches, clock):
    """It is replaced when half of it is over; the one before ends when the batch planned under it is done."""
    memory_archive.add("orders", 0, batches(0, 10))
    store = CountingStore(memory_archive.store)
    follower = follow(store, lease_ms=HOUR, manifestRefresh="1d", discoveryInterval="10d")
    first = follower.look()
    operations = [request.operation for request in store.requests]
    assert operations.index("put") < operations.index("get")
    clock[0] += HOUR // 2 - 1
    assert follower.look() is follower.look_at({ORDERS: 10}) is first
    clock[0] += 1
    before = store.count()
    second = follower.look_at({ORDERS: 10})
    assert [each.operation for each in list(store.requests)[before:]] == ["put", "get"]
    assert second.lease.created_ms == clock[0]
    assert {each.uuid for each in list_leases(store)} == {first.lease.uuid, second.lease.uuid}
    follower.batch_done()
    assert [each.uuid for each in list_leases(store)] == [second.lease.uuid]
    follower.close()
    assert list_leases(store) == []


class Guarded(StoreWrapper):
    """A bucket whose policy forbids some operations."""

    def __init__(self, inner, *forbidden):
        super().__init__(inner)
        self.forbidden = forbidden

    def _around(self, call, run):
        if call.operation.startswith(self.forbidden):
            raise StoreDenied(call.operation, call.key, self.url, "access denied")
        return run()


def test_a_read_only_bucket_is_reported_once(memory_archive, batches, clock, caplog):
    """Five looks of one query log one warning."""
    memory_archive.add("orders", 0, batches(0, 10))
    follower = follow(Guarded(memory_archive.store, "put", "delete"), lease_ms=HOUR)
    with caplog.at_level(logging.WARNING, "stratalog.spark"):
        for _ in range(5):
            assert follower.look(fresh=True).lease is None
            clock[0] += HOUR
    assert len(caplog.records) == 1


def test_a_lease_that_may_not_be_removed_runs_out(memory_archive, batches, clock):
    """Spark's role may write leases and nothing else: the stream goes on and ends as ever."""
    memory_archive.add("orders", 0, batches(0, 10))
    follower = follow(Guarded(memory_archive.store, "delete"), lease_ms=HOUR)
    follower.look()
    clock[0] += HOUR
    follower.look()
    follower.batch_done()
    follower.close()
    assert len(list_leases(memory_archive.store)) == 2


def test_only_the_pages_of_a_range_are_read(memory_archive, batches, clock):
    """A stream that catches up with years of an archive does not read all its pages with every micro-batch."""
    memory_archive.add("orders", 0, *(batches(10 * each, 10) for each in range(12)))
    manifest = memory_archive.manifests["orders", 0]
    for number in range(3):
        page = write_page(memory_archive.store, manifest, manifest.entries[:4], manifest.seq + number)
        manifest = spill(manifest, Spill((), 4), page)
    memory_archive.write("orders", 0, manifest, [])
    store = CountingStore(memory_archive.store)
    follower = follow(store)
    look = follower.look()
    asked = len(store.requests)
    (archive,) = follower.archives(look, {ORDERS: OffsetRange(45, 65)})
    assert [entry.base for entry in archive.entries] == [40, 50, 60]
    assert [each.key for each in list(store.requests)[asked:]] == [manifest.pages[1].key]
    assert (archive.log_start_offset, archive.end_offset) == (0, 120)


def test_an_archive_whose_start_is_beyond_its_end_is_empty(memory_archive, batches, clock):
    """DeleteRecords may go further than what was ever uploaded."""
    memory_archive.add("orders", 0, batches(0, 10))
    memory_archive.write("orders", 0, replace(memory_archive.manifests["orders", 0], log_start_offset=50), [])
    assert follow(memory_archive.store).look().spans == {ORDERS: (50, 50)}


def test_an_empty_bucket_gets_no_lease_and_a_full_one_gets_it(memory_archive, batches, clock):
    """A stream may begin before its archive does; in a read-only bucket, it warns once."""
    follower = follow(memory_archive.store, lease_ms=HOUR)
    assert follower.look().lease is None
    assert list(memory_archive.store.list("")) == []
    memory_archive.add("orders", 0, batches(0, 10))
    lease = follower.look(fresh=True).lease
    assert lease is not None
    assert follower.look(fresh=True).lease == lease
    follower.close()
    assert list_leases(memory_archive.store) == []


@pytest.mark.parametrize("assigned", [True, False])
def test_a_clock_that_was_put_back_delays_no_look(memory_archive, batches, clock, assigned):
    """Manifests are read again, and new partitions listed, within their times as the clock now counts them."""
    memory_archive.add("orders", 0, batches(0, 10))
    options = {"assign": '{"orders":[0]}'} if assigned else {}
    follower = follow(memory_archive.store, manifestRefresh="5s", **options)
    assert follower.look().ends == {ORDERS: 10}
    memory_archive.add("orders", 0, batches(10, 10))
    memory_archive.add("orders", 1, batches(0, 10))
    clock[0] -= HOUR
    found = {ORDERS: 20} if assigned else {ORDERS: 20, TopicPartition("orders", 1): 10}
    assert follower.look().ends == found
    memory_archive.add("orders", 0, batches(20, 10))
    clock[0] += 5_000
    assert follower.look().ends == {**found, ORDERS: 30}
