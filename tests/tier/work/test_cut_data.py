"""The records of a cut, object by object."""

from __future__ import annotations

import pytest

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest import Manifest, set_log_start
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_data import aborted_across, batches_below, first_offset, held_bytes
from stratalog.wire.batch import Record, build_batch, iter_headers, iter_records

PARTITION = PartitionId("t", b"\1" * 16, 0)


@pytest.fixture
def store():
    """Two objects of eight records in chunks of one batch of two; producer 9 aborts offsets 5 to 10."""
    store = MemoryStore("memory:cut-data")
    for base in (0, 8):
        data = b"".join(
            bytes(build_batch([Record(at + n, 1, None, b"v" * 40) for n in range(2)], leader_epoch=0))
            for at in range(base, base + 8, 2)
        )
        archive_log(store, PARTITION, [data], now_ms=1, chunk_bytes=170, aborted=[AbortedTransaction(9, 5, 10, 11)])
    return store


def manifest_of(store):
    return read_manifest(store, PARTITION).manifest


@pytest.mark.parametrize("end", range(17))
def test_exactly_the_records_below_the_end_come_in_order(store, end):
    """In every chunk, on every border."""
    data = list(batches_below(store, manifest_of(store), end))
    found = [one.offset for piece in data for at, _ in iter_headers(piece) for one in iter_records(piece, at)]
    assert found == list(range(end))


def test_objects_wholly_below_the_log_start_are_left_out(store):
    """The object that holds the log start comes whole: batches are not cut at their beginning."""
    claimant = manifest_of(store).claimant
    change_manifest(store, PARTITION, lambda m: set_log_start(m, claimant, 11, now_ms=1, reason="x"))
    manifest = manifest_of(store)
    assert first_offset(store, manifest, 16) == 8
    assert next(iter(iter_headers(next(batches_below(store, manifest, 16)))))[1].base_offset == 8
    assert first_offset(store, Manifest(PARTITION), 16) == 0


def test_the_bytes_are_those_of_the_objects(store):
    """The data of each partition that holds anything below the end."""
    sizes = [entry.data_bytes for entry in manifest_of(store).entries]
    assert [held_bytes(store, manifest_of(store), end) for end in (0, 1, 8, 9)] == [0, sizes[0], sizes[0], sum(sizes)]


def test_a_transaction_that_was_under_way_and_aborted_is_known(store):
    """A transaction that began behind the end of the cut, or ended before it, is not listed."""
    answers = [aborted_across(store, manifest_of(store), end) for end in (0, 5, 6, 8, 10, 11, 16)]
    assert answers == [frozenset()] * 2 + [{(9, 5)}] * 3 + [frozenset()] * 2
