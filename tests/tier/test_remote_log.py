from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.tier.chunk_table import Chunk, ChunkTable
from stratalog.tier.entry import Entry
from stratalog.tier.keys import PartitionId
from stratalog.tier.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifest_view import ManifestView
from stratalog.tier.remote_log import ChunkId, RemoteLog, group_neighbours

US = Claimant(0, 1, bytes(16))
PARTITION = PartitionId("t", bytes(16), 0)


def entry(base, end, **fields):
    """An entry of PARTITION whose uuid follows from its base."""
    uuid = base.to_bytes(16, "big")
    known = {
        "size_bytes": 10, "data_bytes": 10, "crc32c": 0, "data_crc32c": 0, "chunks_position": 0, "chunks_bytes": 0,
        "min_timestamp_ms": base, "max_timestamp_ms": end, "max_timestamp_offset": end, "batch_count": 1,
        "record_count": 1,
    }  # fmt: skip
    key = PARTITION.segment_key(base, end, 1, uuid)
    return Entry(uuid=uuid, base=base, end=end, epoch=1, key=key, **{**known, **fields})


def extended(manifest, *entries):
    """The manifest with more entries."""
    return commit(manifest, US, [Uploaded(e, US) for e in entries], now_ms=2)


EMPTY = claim(Manifest(PARTITION), US, now_ms=1)
THREE = extended(EMPTY, entry(0, 100), entry(100, 200, aborted_count=2), entry(200, 300, max_timestamp_ms=150))


def log_of(manifest, **options):
    """A remote log that has read ``manifest``."""
    log = RemoteLog(PARTITION, **options)
    assert log.merge(ManifestView.of(manifest, "v"))
    return log


def table(first_offset, *lengths, step=10):
    """A chunk table's rows."""
    found, position = ChunkTable(), 0
    for number, length in enumerate(lengths):
        found.append(Chunk(first_offset + number * step, position, length, 0, 0))
        position += length
    return found.to_bytes()


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(0, 20), st.integers(-5, 700))
@settings(max_examples=80)
def test_an_offset_is_found_in_the_entry_that_holds_it(lengths, start, offset):
    """As a walk over all entries would; nothing outside."""
    manifest, at = claim(Manifest(PARTITION), US, now_ms=1, start_offset=start), start
    for length in lengths:
        manifest = extended(manifest, entry(at, at + length))
        at += length
    log = log_of(manifest)
    walk = [i for i, e in enumerate(manifest.entries) if e.base <= offset < e.end]
    assert log.find(offset) == (walk[0] if walk else None)
    assert (log.remote_start, log.remote_end, len(log)) == (start, at, len(lengths))


def test_reports_are_merged_whatever_their_order():
    """New entries are appended, trimmed ones go, an older report changes nothing."""
    log = log_of(THREE)
    four = extended(THREE, entry(300, 400))
    trimmed = set_log_start(four, US, 120, now_ms=3, reason="r")
    assert log.merge(ManifestView.of(trimmed, "v3", log.remote_end))
    assert [log.segment(i).base for i in range(len(log))] == [100, 200, 300]
    assert (log.remote_start, log.log_start_offset, log.remote_end, log.version) == (100, 120, 400, "v3")
    assert log.merge(ManifestView.of(four, "v2", 300))
    assert (len(log), log.version) == (3, "v3")
    assert log.totals == trimmed.totals


def test_a_report_that_does_not_connect_is_refused():
    """Then the whole manifest is read, which always fits."""
    log = log_of(EMPTY)
    assert not log.merge(ManifestView.of(THREE, "v", 100))
    assert log.merge(ManifestView.of(THREE, "v"))
    five = extended(THREE, entry(300, 400), entry(400, 500))
    assert not log.merge(ManifestView.of(five, "v", 400))
    assert len(log) == 3


def test_an_archive_that_lost_everything_to_retention_is_empty():
    """The remote end stays, the entries go."""
    log = log_of(THREE)
    assert log.merge(ManifestView.of(set_log_start(THREE, US, 300, now_ms=4, reason="r"), "v", 300))
    assert (len(log), log.remote_start, log.remote_end, log.find(250)) == (0, 300, 300, None)


def test_time_candidates_are_all_entries_that_reach_the_time():
    """In offset order, also when timestamps do not ascend; behind the start offset only."""
    log = log_of(THREE)
    assert [s.base for s in log.time_candidates(120)] == [100, 200]
    assert [s.base for s in log.time_candidates(120, 200)] == [200]
    assert list(log.time_candidates(201)) == []
    assert log.latest_timestamp().base == 100
    assert log_of(EMPTY).latest_timestamp() is None


def test_aborted_candidates_are_those_that_aborted_transactions_touch():
    """Only inside the range that was read."""
    log = log_of(THREE)
    assert [s.base for s in log.aborted_candidates(0, 300)] == [100]
    assert [s.base for s in log.aborted_candidates(150, 151)] == [100]
    assert log.aborted_candidates(200, 300) == log.aborted_candidates(0, 100) == []
    assert log.aborted_candidates(300, 400) == []


def test_a_fetch_crosses_from_one_object_into_the_next():
    """Whole chunks, in order, until enough bytes are planned; the offset's own chunk comes first."""
    log = log_of(THREE)
    log.add_table(entry(0, 100).uuid, table(0, 4, 4, 4))
    log.add_table(entry(100, 200).uuid, table(100, 5, 5))
    plan = log.plan_fetch(15, 12)
    assert [(r.id.number, r.chunk.first_offset, r.end_offset) for r in plan.chunks] == [
        (1, 10, 20),
        (2, 20, 100),
        (0, 100, 110),
    ]
    assert plan.missing_table is None
    assert plan.chunks[2].key == entry(100, 200).key
    assert len(log.plan_fetch(15, 0).chunks) == 1


def test_a_missing_chunk_table_is_named():
    """What is known so far is planned; the object to ask comes with it."""
    log = log_of(THREE)
    assert log.plan_fetch(15, 12).missing_table.base == 0
    log.add_table(entry(0, 100).uuid, table(0, 4))
    plan = log.plan_fetch(15, 12)
    assert (len(plan.chunks), plan.missing_table.base) == (1, 100)


def test_a_fetch_ends_at_the_remote_end():
    """Outside the archive there is nothing to plan."""
    log = log_of(THREE)
    log.add_table(entry(200, 300).uuid, table(200, 4))
    assert len(log.plan_fetch(250, 10**9).chunks) == 1
    assert log.plan_fetch(300, 10**9) == ((), None)


def test_only_the_latest_chunk_tables_are_kept():
    """Memory is bounded; a table in use stays."""
    log = log_of(THREE, tables_kept=2)
    for base in (0, 100):
        log.add_table(entry(base, base + 100).uuid, table(base, 4))
    assert log.plan_fetch(0, 1).missing_table is None
    log.add_table(entry(200, 300).uuid, table(200, 4))
    assert log.plan_fetch(0, 1).missing_table is None
    assert log.plan_fetch(100, 1).missing_table.base == 100


@pytest.mark.parametrize("count_max", [1, 2, 3])
def test_neighbours_share_a_get(count_max):
    """Only chunks that follow each other in one object, and no more than asked for."""
    log = log_of(THREE)
    log.add_table(entry(0, 100).uuid, table(0, 4, 4, 4, 4))
    log.add_table(entry(100, 200).uuid, table(100, 4))
    refs = [r for r in log.plan_fetch(0, 20).chunks if r.id != ChunkId(entry(0, 100).uuid, 1)]
    numbers = [[r.id.number for r in group] for group in group_neighbours(refs, count_max)]
    assert numbers == {1: [[0], [2], [3], [0]], 2: [[0], [2, 3], [0]], 3: [[0], [2], [3], [0]]}[count_max]


def test_a_plan_may_go_on_to_the_end_of_a_group():
    """So that neighbours come by one GET; an object's last group may be short."""
    log = log_of(THREE)
    log.add_table(entry(0, 100).uuid, table(0, 4, 4, 4, 4))
    log.add_table(entry(100, 200).uuid, table(100, 4))

    def planned(offset, size):
        return [ref.id.number for ref in log.plan_fetch(offset, size, whole_groups=True).chunks]

    assert [planned(0, size) for size in (1, 12, 13, 17)] == [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 0]]
    assert planned(10, 1) == [1, 2]
    assert planned(30, 1) == [3]
