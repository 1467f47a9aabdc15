"""Archives whose older entries are in pages, and whose small objects are merged: read, trimmed, restarted, at fault."""

import time

import pytest

from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.stores.faulty_store import Fault, FaultRule


@pytest.fixture
def small_manifests(monkeypatch):
    """Four entries inline, two after a spill, three pages of a class make one of the next."""
    for name, value in (("INLINE_MAX", 4), ("INLINE_KEPT", 2), ("FANOUT", 3), ("MERGED_ENTRIES_MAX", 18)):
        monkeypatch.setattr(manifest_pages, name, value)


def paged(broker, batches=60):
    """A topic whose archive has pages."""
    broker.topic("t", local_retention_bytes=0)
    broker.write("t", batches)
    broker.roll("t")
    broker.archived("t")
    assert broker.manifest("t").pages
    return broker


@pytest.mark.story
@pytest.mark.usefixtures("small_manifests")
def test_an_archive_with_pages_is_read_like_any_other(tiered):
    """From anywhere, by time, before and after a restart that has to read the manifest and its pages again."""
    paged(tiered)
    for _ in range(2):
        for offset in (0, 77, 151, 299):
            tiered.check_reads("t", 0, offset)
        for offset in (0, 33, 200):
            at_ms = tiered.written["t", 0][offset][1]
            expected = next(one[0] for one in tiered.written["t", 0] if one[1] >= at_ms)
            assert tiered.node.end("t", timestamp=at_ms) == expected
        tiered.node.restart()
    tiered.check_bucket("t", orphans=False)


@pytest.mark.story
@pytest.mark.usefixtures("small_manifests")
@pytest.mark.parametrize(
    "offset", [16, pytest.param(47, marks=pytest.mark.slow), pytest.param(103, marks=pytest.mark.slow), 260]
)
def test_records_are_deleted_into_pages(tiered, offset):
    """The log start moves inside a page or over whole ones, and stays there over restarts."""
    paged(tiered)
    assert tiered.delete_records("t", offset) == offset
    tiered.node.wait_until(lambda: tiered.node.partition("t").remote.log_start_offset == offset)
    manifest = tiered.manifest("t")
    (first, *_) = iter_entries(tiered.memory, manifest)
    assert first.base == manifest.remote_start <= offset < first.end
    for _ in range(2):
        tiered.check_reads("t", 0, offset)
        tiered.node.restart()
    tiered.write("t", 20)
    tiered.roll("t")
    tiered.archived("t")
    tiered.check_reads("t", 0, offset)


@pytest.mark.usefixtures("small_manifests")
def test_spilling_goes_on_after_the_bucket_was_away(tiered):
    """Writes fail in the middle of spills; nothing is lost, doubled or named without being there."""
    paged(tiered, batches=20)
    for kind in ("/pages/", "/history/", "manifest.json"):
        for fault in (Fault.FAIL_BEFORE, Fault.DROP_AFTER_COMMIT):
            tiered.spoil(FaultRule(fault, key_pattern=kind, count=2))
            tiered.write("t", 10)
    tiered.spoil()
    tiered.roll("t")
    tiered.archived("t")
    tiered.check_reads("t")
    tiered.check_bucket("t")


@pytest.mark.story
@pytest.mark.usefixtures("small_manifests")
def test_small_objects_are_merged_while_they_are_read(start_tiered):
    """The broker merges by itself; readers get every record once, whatever is merged meanwhile, also after a restart."""
    broker = start_tiered(
        log_retention_check_interval_ms="100", stratalog_merge_interval_ms="1000", stratalog_merge_objects_min="4"
    )
    paged(broker)
    before = broker.manifest("t").totals.segments

    def merged():
        broker.check_reads("t")
        return broker.manifest("t").totals.segments <= before // 4

    until = time.monotonic() + 60
    while not merged():
        assert time.monotonic() < until, "nothing was merged"
    broker.check_bucket("t", orphans=False)
    broker.check_reads("t")
    broker.node.restart()
    broker.check_reads("t")
