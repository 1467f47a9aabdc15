from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.jobs import list_job, swap
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifests.parts import Job
from stratalog.tier.manifests.view import NO_ENTRIES, ManifestView
from stratalog.tier.messages.reports import TrashEmptied
from stratalog.tier.objects.chunk_table import Chunk, ChunkTable
from stratalog.tier.reading.remote_log import ChunkId, RemoteLog, group_neighbours

US = Claimant(0, 1, bytes(16))
PARTITION = PartitionId("t", bytes(16), 0)


def entry(base, end, **fields):
    """An entry of PARTITION whose uuid follows from its base."""
    uuid = fields.pop("uuid", base.to_bytes(16, "big"))
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


def test_a_manifest_after_emptying_the_trash_is_taken_unless_a_newer_one_is_known():
    """A manifest with a higher number has been read since: its answer came late."""
    trashed = set_log_start(list_job(THREE, Job(bytes(16), "merge", 1, 9), now_ms=3), US, 200, now_ms=4, reason="r")
    log = log_of(trashed)
    assert (log.trash_count, log.trash_bytes, log.job_count) == (2, 20, 1)
    log.note_trash(TrashEmptied(left_count=0, seq=trashed.seq - 1))
    assert (log.trash_count, log.trash_bytes, log.job_count) == (2, 20, 1)
    log.note_trash(TrashEmptied(left_count=1, left_bytes=10, seq=trashed.seq))
    assert (log.trash_count, log.trash_bytes, log.job_count) == (1, 10, 0)


def test_an_archive_that_lost_everything_to_retention_is_empty():
    """The remote end stays, the entries go."""
    log = log_of(THREE)
    assert log.merge(ManifestView.of(set_log_start(THREE, US, 300, now_ms=4, reason="r"), "v", 300))
    assert (len(log), log.remote_start, log.remote_end, log.find(250)) == (0, 300, 300, None)


def candidates(log, timestamp_ms, start_offset=0):
    """Where a look-up goes that finds nothing anywhere."""
    found = []
    while (segment := log.time_candidate(timestamp_ms, start_offset)) is not None:
        found.append(segment.base)
        start_offset = segment.end
    return found


def test_time_candidates_are_all_entries_that_reach_the_time():
    """In offset order, also when timestamps do not ascend; behind the start offset only."""
    log = log_of(THREE)
    assert candidates(log, 120) == [100, 200]
    assert candidates(log, 120, 200) == [200]
    assert candidates(log, 201) == []
    assert log.latest_timestamp().base == 100
    assert log_of(EMPTY).latest_timestamp() is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(-1, 5)), max_size=8), st.integers(0, 40), st.integers(0, 40))
def test_one_of_those_named_has_the_largest_timestamp_of_a_span(rows, start, end):
    """Those that reach across a border may have theirs beyond it. The first with the largest among the others is enough."""
    entries, at = [], 0
    for length, latest in rows:
        entries.append(entry(at, at + length, max_timestamp_ms=latest))
        at += length
    found = log_of(extended(EMPTY, *entries) if entries else EMPTY).latest_within(start, end)
    touched = [one for one in entries if one.base < end and one.end > start]
    whole = [one for one in touched if start <= one.base and one.end <= end]
    best = max(whole, key=lambda one: one.max_timestamp_ms, default=None)
    assert [one.base for one in found] == [one.base for one in touched if one not in whole or one is best]


class FollowedLog(RuleBasedStateMachine):
    """A broker's copy beside the manifest itself: whatever it hears, in whatever order, and forgets."""

    def __init__(self):
        super().__init__()
        self.manifest = EMPTY
        self.log = RemoteLog(PARTITION)
        self.heard = []

    @rule(lengths=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 50)), min_size=1, max_size=5))
    def commit(self, lengths):
        entries, at = [], self.manifest.remote_end
        for length, latest in lengths:
            entries.append(entry(at, at + length, max_timestamp_ms=latest, uuid=os.urandom(16)))
            at += length
        self.manifest = extended(self.manifest, *entries)

    @rule(part=st.floats(0, 1))
    def move_log_start(self, part):
        offset = int(part * self.manifest.remote_end)
        self.manifest = set_log_start(self.manifest, US, offset, now_ms=3, reason="r")

    @precondition(lambda self: len(self.manifest.entries) > 1)
    @rule(data=st.data())
    def merge(self, data):
        first = data.draw(st.integers(0, len(self.manifest.entries) - 2))
        inputs = self.manifest.entries[first : first + data.draw(st.integers(2, 4))]
        uuid = os.urandom(16)
        latest = max(e.max_timestamp_ms for e in inputs)
        output = entry(inputs[0].base, inputs[-1].end, max_timestamp_ms=latest, uuid=uuid)
        listed = list_job(self.manifest, Job(uuid, "merge", 1, 2, tuple(e.uuid for e in inputs)), now_ms=4)
        self.manifest = swap(listed, uuid, inputs, output, now_ms=5)

    @rule(wanted=st.sampled_from(["known", "none", "all"]))
    def ask(self, wanted):
        known = {"known": self.log.remote_end if self.log.loaded else 0, "none": NO_ENTRIES, "all": 0}[wanted]
        self.heard.append(ManifestView.of(self.manifest, str(self.manifest.seq), known))

    @precondition(lambda self: self.heard)
    @rule(data=st.data())
    def hear(self, data):
        view = self.heard.pop(data.draw(st.integers(0, len(self.heard) - 1)))
        if not self.log.merge(view):
            assert self.log.merge(ManifestView.of(self.manifest, str(self.manifest.seq)))

    @rule()
    def unload(self):
        self.log.unload()

    @invariant()
    def what_is_known_is_what_some_manifest_said(self):
        if self.log.version != str(self.manifest.seq):
            return
        assert (self.log.remote_start, self.log.remote_end) == (self.manifest.remote_start, self.manifest.remote_end)
        assert self.log.totals == self.manifest.totals
        if not self.log.loaded:
            return
        assert [self.log.segment(n).uuid for n in range(len(self.log))] == [e.uuid for e in self.manifest.entries]
        ranges, total_bytes = self.log.retained(self.manifest.log_start_offset)
        assert sum(one.size_bytes for one in ranges) == total_bytes == sum(e.data_bytes for e in self.manifest.entries)
        for timestamp in (0, 20, 45):
            reach = [e.base for e in self.manifest.entries if e.max_timestamp_ms >= timestamp]
            assert candidates(self.log, timestamp) == reach


FollowedLog.TestCase.settings = settings(stateful_step_count=25)
TestFollowedLog = FollowedLog.TestCase


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
    """The known part is planned; the object to ask comes with it."""
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
