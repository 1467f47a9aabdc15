"""The probe: the negative controls are stores that break their promises one at a time."""

from __future__ import annotations

import contextlib
import threading

import pytest
from msgspec.structs import replace

from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.store import StoreUnavailable, UnsafeStore
from stratalog.tier.stores.wrappers import StoreWrapper


class IgnoresCreateCondition(StoreWrapper):
    """Answers a conditional create as a plain put, as some services do."""

    def put_if_absent(self, key, data, **options):
        return self.put(key, data, **options)


class IgnoresSwapCondition(StoreWrapper):
    """Answers a compare-and-swap as a plain put."""

    def compare_and_swap(self, key, data, expected, **options):
        return self.put(key, data, **options)


class SwapsIntoNothing(StoreWrapper):
    """Honours the version of an existing object, and creates a missing one."""

    def compare_and_swap(self, key, data, expected, **options):
        if not list(self.inner.list(key)):
            return self.put(key, data, **options)
        return self.inner.compare_and_swap(key, data, expected, **options)


class IgnoresRanges(StoreWrapper):
    """Answers a range with the whole object."""

    def get_range(self, key, position, length):
        return self.inner.get(key)[0]


class ListsByDirectory(StoreWrapper):
    """Lists as a walk through directories does: a name before what continues it."""

    def list(self, prefix, start_after=""):
        yield from sorted(self.inner.list(prefix, start_after), key=lambda info: info.key.split("/"))


class IgnoresChecksums(StoreWrapper):
    """Takes any checksum for right."""

    def put(self, key, data, *, crc32c=None, metadata=None):
        return self.inner.put(key, data, metadata=metadata)


class RacyCreate(StoreWrapper):
    """Looks whether there is an object, and a moment later writes it, as gateways over directories do."""

    def __init__(self, inner):
        super().__init__(inner)
        self._looked = threading.Barrier(2)

    def put_if_absent(self, key, data, **options):
        if list(self.inner.list(key)):
            return self.inner.put_if_absent(key, data, **options)
        if "race" in key:
            with contextlib.suppress(threading.BrokenBarrierError):
                self._looked.wait(timeout=5)
        return self.put(key, data, **options)


class ForgetsMetadata(StoreWrapper):
    """Keeps the bytes only."""

    def head(self, key):
        return replace(self.inner.head(key), metadata={})


class KeepsWhatIsDeleted(StoreWrapper):
    """Answers a delete and does nothing."""

    def delete_many(self, keys):
        self.inner.delete_many(key for key in keys if not key.endswith("/gone/1"))


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (RacyCreate, "creates of one key at the same time succeeded"),
        (IgnoresCreateCondition, "If-None-Match is ignored"),
        (IgnoresSwapCondition, "a stale version succeeded"),
        (SwapsIntoNothing, "no object succeeded"),
    ],
)
def test_a_store_that_ignores_conditions_is_refused_to_many_writers(broken, word):
    """Where two writers could overwrite each other, only a single one is let in."""
    store = broken(MemoryStore())
    report = probe(store)
    assert not report.capabilities.multi_writer
    report.require(multi_writer=False)
    with pytest.raises(UnsafeStore, match=word):
        report.require(multi_writer=True)
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (IgnoresRanges, "a range"),
        (ListsByDirectory, "listed"),
        (KeepsWhatIsDeleted, "after a delete"),
    ],
)
def test_a_store_that_cannot_be_read_exactly_is_refused_to_everybody(broken, word):
    """Wrong bytes or a wrong order are no archive, for one writer or many."""
    report = probe(broken(MemoryStore()))
    for multi_writer in (False, True):
        with pytest.raises(UnsafeStore, match=word):
            report.require(multi_writer=multi_writer)
    with pytest.raises(UnsafeStore, match="This service cannot hold an archive"):
        report.require(multi_writer=True)


def test_lost_metadata_is_reported_and_not_refused():
    """A lost answer is then taken for another writer's success, which is safe and slow."""
    report = probe(ForgetsMetadata(MemoryStore()))
    report.require(multi_writer=True)
    assert not report.metadata
    assert report.problems[0].startswith("metadata: user metadata is not kept")


def test_missing_checksums_are_reported_and_not_refused():
    """A store without checksums can be used; uploads to it are read back."""
    report = probe(IgnoresChecksums(MemoryStore()))
    report.require(multi_writer=True)
    assert not report.capabilities.checksums
    assert report.problems == ("checksums: a wrong CRC-32C was accepted (uploads must be read back)",)


def test_a_good_store_keeps_its_capabilities():
    """Claims of the store and findings of the probe stay."""
    store = MemoryStore()
    report = probe(store)
    assert report.capabilities == store.capabilities
    assert report.problems == ()
    assert (report.conditional_create, report.compare_and_swap, report.reads, report.checksums) == (True,) * 4


def test_a_store_that_is_away_is_not_judged():
    """An outage is no verdict: it is raised, and what was written before is removed."""
    memory = MemoryStore()
    store = FaultyStore(memory, [FaultRule(Fault.FAIL_BEFORE, "get_range")])
    with pytest.raises(StoreUnavailable):
        probe(store)
    assert list(memory.list("")) == []


def test_a_store_of_this_process_needs_no_race(memory_store):
    """Without it no thread is started: virtual time has none."""
    assert probe(RacyCreate(memory_store), racing=False).conditional_create


class DamagesReads(StoreWrapper):
    """The first answers to each GET and each listing hold what was never written."""

    def __init__(self, inner, times):
        super().__init__(inner)
        self.times = times
        self.asked = {}

    def get(self, key):
        data, version = self.inner.get(key)
        return self._damaged(("get", key), data), version

    def get_range(self, key, position, length):
        return self._damaged(("range", key), self.inner.get_range(key, position, length))

    def get_suffix(self, key, length):
        data, total_bytes = self.inner.get_suffix(key, length)
        return self._damaged(("suffix", key, length), data), total_bytes

    def list(self, prefix, start_after=""):
        found = list(self.inner.list(prefix, start_after))
        if self._damaged(("list", prefix, start_after), b"x") != b"x":
            found[0] = replace(found[0], key=found[0].key + "?")
        return iter(found)

    def _damaged(self, request, data):
        self.asked[request] = self.asked.get(request, 0) + 1
        return data[:-1] + bytes([data[-1] ^ 4]) if self.asked[request] <= self.times else data


def test_damage_on_the_way_is_no_broken_promise():
    """It is read again; only a store whose answers are damaged each time is refused."""
    report = probe(DamagesReads(MemoryStore(), READS_MAX - 1))
    assert report.problems == ()
    report = probe(DamagesReads(MemoryStore(), READS_MAX))
    with pytest.raises(UnsafeStore, match=r"reads: .*listing: .*This service cannot hold an archive"):
        report.require(multi_writer=True)


def test_a_store_that_reads_stale_bytes_is_not_asked_again():
    """Once is enough: what is right only now and then is no promise."""

    class Stale(StoreWrapper):
        """Gives the older object the first time."""

        def put(self, key, data, **options):
            if key in self.written:
                self.old[key] = self.written[key]
            self.written[key] = bytes(data)
            return self.inner.put(key, data, **options)

        def get(self, key):
            data, version = self.inner.get(key)
            return self.old.pop(key, data), version

    store = Stale(MemoryStore())
    store.written, store.old = {}, {}
    assert not probe(store).reads


def test_the_first_failure_is_named_and_not_that_of_the_clean_up():
    """A missing right to write is none to delete; a request without an answer is not cleaned up at all."""
    store = FaultyStore(MemoryStore(), [FaultRule(Fault.FAIL_BEFORE, count=None)])
    with pytest.raises(StoreUnavailable) as refused:
        probe(store)
    assert refused.value.operation == "put_if_absent"
    assert [call.operation for _, call in store.injected] == ["put_if_absent"]
    store.set_rules([FaultRule(Fault.FAIL_BEFORE, "list"), FaultRule(Fault.FAIL_BEFORE, "delete_many")])
    with pytest.raises(StoreUnavailable) as refused:
        probe(store)
    assert refused.value.operation == "list"
    assert "could not be deleted either" in refused.value.__notes__[0]
