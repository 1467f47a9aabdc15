"""The part of an archive below an offset."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.messages.commands import ReadBoundedView
from stratalog.tier.objects.segment_blobs import AbortedTransaction
from stratalog.tier.reading.bounded_view import below, read_bounded_view
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Header, Record, build_batch, check_batch, iter_headers, iter_records
from stratalog.wire.compression import Codec
from stratalog.wire.errors import Corrupt

PARTITION = PartitionId("t", b"\1" * 16, 0)

contents = st.tuples(
    st.integers(0, 2**40), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9), st.booleans()
)
batches = st.lists(
    st.tuples(
        st.lists(contents, min_size=1, max_size=5),
        st.sampled_from([Codec.NONE, Codec.GZIP, Codec.ZSTD]),
        st.booleans(),
        st.none() | st.integers(0, 2**40),
    ),
    min_size=1,
    max_size=5,
)


def encoded(drawn):
    """Batches one behind the other, and their records as readers see them."""
    data, records = b"", []
    for content, codec, transactional, append_ms in drawn:
        mine = [
            Record(len(records) + at, time, key, value, (Header("h", b"1"),) if headed else ())
            for at, (time, key, value, headed) in enumerate(content)
        ]
        options = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3} if transactional else {}
        batch = build_batch(
            mine, codec=codec, leader_epoch=5, transactional=transactional, log_append_time_ms=append_ms, **options
        )
        records += list(iter_records(batch))
        data += batch
    return data, records


@pytest.mark.story
@given(batches, st.data())
def test_below_an_offset_are_exactly_the_records_before_it(drawn, data):
    """Whole batches as they are; of the last one what its producer would have sent: flags, ids, times, codec."""
    whole, records = encoded(drawn)
    end = data.draw(st.integers(0, len(records) + 1))
    cut = below(whole, end)
    headers = [check_batch(cut, position) for position, _ in iter_headers(cut)]
    assert [one for position, _ in iter_headers(cut) for one in iter_records(cut, position)] == records[:end]
    assert (headers[-1].next_offset if headers else 0) == min(end, len(records))
    for old, new in zip([header for _, header in iter_headers(whole)], headers, strict=False):
        kept = ("attributes", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence", "base_offset")
        assert [getattr(new, name) for name in kept] == [getattr(old, name) for name in kept]


def test_readers_go_on_behind_records_that_were_compacted_away():
    """The last record of the part may be gone: its batch still ends at the end."""
    batch = bytes(build_batch([Record(at, 1, None, b"v") for at in (0, 1, 6)]))
    (header,) = [header for _, header in iter_headers(below(batch, 4))]
    assert (header.record_count, header.next_offset) == (2, 4)
    assert below(batch, 0) == b""


@pytest.fixture
def store():
    """Two objects of chunks of two batches: offsets 0 to 11 and 12 to 23, three a batch; times rise."""
    store = MemoryStore("memory:bounded")
    for base in (0, 12):
        data = b"".join(
            bytes(
                build_batch(
                    [Record(start + at, 100 + start + at, None, b"v" * 20) for at in range(3)], leader_epoch=base
                )
            )
            for start in range(base, base + 12, 3)
        )
        aborted = [AbortedTransaction(9, 4, 7, 8), AbortedTransaction(9, 13, 14, 15)]
        archive_log(store, PARTITION, [data], now_ms=1, chunk_bytes=310, aborted=aborted)
    return store


def read(store, **options):
    """The view."""
    return read_bounded_view(store, ReadBoundedView(PARTITION, **options))


def test_an_end_inside_a_chunk_has_a_tail(store):
    """Chunks before it stay, with their largest time; the rest comes as batches, with what was aborted there."""
    found = read(store, end_offset=8)
    tail, entries = found.tail, found.view.entries
    assert (found.end_offset, found.covered) == (8, True)
    assert (tail.chunk_count, tail.base, tail.end) == (1, 6, 8)
    assert [record.offset for record in iter_records(tail.data)] == [6, 7]
    assert (tail.latest_ms, tail.latest_offset) == (107, 7)
    assert [(one.producer_id, one.first_offset) for one in tail.aborted] == [(9, 4)]
    assert (list(entries.ends), list(entries.max_timestamps), found.view.remote_end) == ([6], [105], 6)
    assert entries.unpack(PARTITION, 0).key == tail.key == read_manifest(store, PARTITION).manifest.entries[0].key
    assert [epoch.start_offset for epoch in found.view.leader_epochs] == [0]


def test_the_largest_time_of_a_tail_is_none_of_a_deleted_record(store):
    """DeleteRecords may have been in the tail as well."""
    data = bytes(build_batch([Record(24 + at, time, None, b"v") for at, time in enumerate((900, 300, 200, 100))]))
    archive_log(store, PARTITION, [data], now_ms=1)
    found = []
    for start in (24, 25, 26, 27):
        change_manifest(store, PARTITION, lambda manifest, start=start: replace(manifest, log_start_offset=start))
        tail = read(store, end_offset=27).tail
        found.append((tail.latest_ms, tail.latest_offset))
    assert found == [(900, 24), (300, 25), (200, 26), (-1, -1)]


@pytest.mark.parametrize(
    ("end", "ends", "tail"), [(6, [6], (1, b"")), (12, [12], None), (24, [12, 24], None), (0, [], None)]
)
def test_an_end_on_a_border_needs_no_bytes(store, end, ends, tail):
    """At borders of chunks, of objects, of the archive, and at its start."""
    found = read(store, end_offset=end)
    assert list(found.view.entries.ends) == ends
    assert (found.tail and (found.tail.chunk_count, found.tail.data)) == tail
    assert (found.end_offset, found.view.remote_end) == (end, end)


def test_an_end_in_the_first_chunk_of_an_object_leaves_the_object_out(store):
    """All of it that belongs to the view is in the tail."""
    found = read(store, end_offset=13)
    assert (list(found.view.entries.ends), found.tail.base, found.tail.end, found.tail.chunk_count) == ([12], 12, 13, 0)
    assert [epoch.epoch for epoch in found.view.leader_epochs] == [0, 12]


def test_a_time_that_is_not_archived_is_not_covered(store):
    """The view ends where the archive ends, and says so."""
    assert (read(store, timestamp_ms=108).end_offset, read(store, timestamp_ms=108).covered) == (8, True)
    found = read(store, timestamp_ms=10**6)
    assert (found.end_offset, found.covered, found.tail) == (24, False, None)
    assert read(store, end_offset=30).end_offset == 24


def test_a_pinned_copy_is_read_in_place_of_the_live_manifest(store):
    """If it is what was pinned."""
    raw, _ = store.get(PARTITION.manifest_key)
    store.put("copy", raw)
    archive_log(store, PARTITION, [bytes(build_batch([Record(24, 1, None, b"v")]))], now_ms=1)
    digest = hashlib.sha256(raw).hexdigest()
    assert read(store, end_offset=10**9, key="copy", sha256=digest).end_offset == 24
    with pytest.raises(Corrupt, match="differs"):
        read(store, end_offset=1, key="copy", sha256="0")
