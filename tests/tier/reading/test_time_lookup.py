"""Where a time begins in an archive."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.reading.time_lookup import offset_at
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

PARTITION = PartitionId("t", b"\1" * 16, 0)


@pytest.fixture
def store():
    """Three objects; times do not rise with offsets: 10, 40, 20 | 5, 30 | 50."""
    store, offset = MemoryStore("memory:time"), 0
    for times in ((10, 40, 20), (5, 30), (50,)):
        records = [Record(offset + at, time, None, b"v") for at, time in enumerate(times)]
        archive_log(store, PARTITION, [bytes(build_batch(records))], now_ms=1)
        offset += len(times)
    return store


@pytest.mark.parametrize(("time", "offset"), [(0, 0), (10, 0), (11, 1), (40, 1), (41, 5), (50, 5), (51, None)])
def test_it_is_the_first_record_that_is_not_older(store, time, offset):
    """In offset order, inside a batch, too."""
    assert offset_at(store, read_manifest(store, PARTITION).manifest, time) == offset


def test_offsets_below_the_log_start_are_skipped(store):
    """A record that consumers may not read is no answer."""
    manifest = replace(read_manifest(store, PARTITION).manifest, log_start_offset=2)
    assert offset_at(store, manifest, 25) == 4
    assert offset_at(store, Manifest(PARTITION), 0) is None
