"""Objects that may leave the trash, in the order of rule 9, and the changes that fill and empty it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stratalog.tier.bucket.trash import (
    DELETED_RECORDS,
    RETENTION,
    TIERING_OFF,
    TOPIC_DELETED,
    Retention,
    begin_again,
    date_trash,
    end_expired_jobs,
    forget,
    leaving,
    ripe_ms,
    still_expired,
    trash_archive,
    unleased,
)
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.jobs import MERGE_KIND, list_job
from stratalog.tier.manifests.leases import SKEW_MS, Lease
from stratalog.tier.manifests.manifest import (
    ArchiveDeleted,
    Claimant,
    Manifest,
    ManifestFenced,
    NotClaimed,
    Uploaded,
    claim,
    commit,
    set_log_start,
)
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.manifests.parts import PAGE_KIND, Job, Pin, Totals, TrashEntry
from stratalog.tier.manifests.pins import pin, unpin
from stratalog.tier.manifests.runs import COMPACT_KIND, ERASE_KIND, RunStruckOff, begin_run, end_run, list_part
from stratalog.wire.errors import Invalid

US = Claimant(0, 3, bytes(16))
NEXT = Claimant(0, 4, bytes([1] * 16))
GRACE = 1000
PARTITION = PartitionId("t", bytes([5] * 16), 0)
FOREVER = Retention(-1, -1, 0)


@pytest.fixture
def manifest(log_bytes, make_entry):
    """Six entries of 100 offsets each."""
    found = claim(Manifest(log_bytes.partition), US, now_ms=1)
    return commit(found, US, [Uploaded(make_entry(a, a + 100, epoch=3), US) for a in range(0, 600, 100)], now_ms=2)


def trashed(manifest, offset=200, now_ms=100, reason=DELETED_RECORDS):
    """The manifest with its log start moved."""
    return set_log_start(manifest, US, offset, now_ms=now_ms, reason=reason)


def keys(items):
    """Which objects."""
    return [item.key for item in items]


def gone(manifest, now_ms, retention=None, leases=()):
    """Objects that would leave now."""
    items = leaving(manifest, now_ms=now_ms, grace_ms=GRACE, retention=retention)
    return keys(unleased(items, leases, now_ms))


def test_only_what_is_dated_and_older_than_the_grace_leaves(manifest):
    """The date comes from a later change; the change that trashed it may have been in flight for long."""
    first = trashed(manifest)
    assert gone(first, 10**12) == []
    assert ripe_ms(first, GRACE) is None
    dated = date_trash(first, US, now_ms=5000)
    assert [item.since_ms for item in dated.trash] == [5000, 5000]
    assert date_trash(dated, US, now_ms=9000) is dated
    assert ripe_ms(dated, GRACE) == 6000
    assert gone(dated, 6000) == []
    assert gone(dated, 6001) == keys(manifest.entries[:2])
    with pytest.raises(ManifestFenced):
        date_trash(claim(first, NEXT, now_ms=1), US, now_ms=2)


def test_a_pin_holds_what_its_cut_may_name(manifest):
    """A pin holds entries, replaced objects and pages that overlap its range, and keys that do not tell their offsets."""
    pinned = pin(manifest, Pin("cut", 3, 600, 150), now_ms=3)
    dated = date_trash(trashed(pinned, 300), US, now_ms=5000)
    assert gone(dated, 10_000) == keys(manifest.entries[:1])
    odd = structs.replace(dated, trash=(*dated.trash, TrashEntry("elsewhere", 1, 1, 40, "merge", 5000)))
    assert "elsewhere" not in gone(odd, 10_000)
    assert gone(unpin(odd, "cut", now_ms=1), 10_000) == [*keys(manifest.entries[:3]), "elsewhere"]
    page = manifest.partition.page_key(0, 200, 4)
    paged = structs.replace(dated, trash=(TrashEntry(page, 1, 3, 40, "x", 5000, kind=PAGE_KIND),))
    assert gone(paged, 10_000) == []
    assert gone(structs.replace(paged, pins=(Pin("cut", 3, 600, 200),)), 10_000) == [page]


def test_a_pin_holds_nothing_that_went_before_it(manifest):
    """Its cut was made without it."""
    before = date_trash(trashed(manifest), US, now_ms=5000)
    pinned = pin(before, Pin("cut", 3, 600, 200), now_ms=5000)
    replaced = structs.replace(before.trash[0], key=manifest.partition.segment_key(300, 400, 3, bytes([8] * 16)))
    odd = structs.replace(pinned, trash=(replaced, structs.replace(replaced, seq=pinned.seq + 1)))
    assert [item.seq for item in leaving(odd, now_ms=10_000, grace_ms=GRACE, retention=None)] == [replaced.seq]


def test_a_listed_job_holds_its_inputs_and_every_page(manifest):
    """They stay until the job is struck, also after its end; a job without inputs, as of a newer release, holds all."""
    job = Job(bytes([7] * 16), "merge", 3, 4, tuple(entry.uuid for entry in manifest.entries[1:3]))
    listed = list_job(manifest, job, now_ms=3)
    dated = date_trash(trashed(listed, 300), US, now_ms=5000)
    assert gone(dated, 10**12) == keys(manifest.entries[:1])
    page = TrashEntry(manifest.partition.page_key(0, 100, 4), 1, 3, 4, "x", 5000)
    assert gone(structs.replace(dated, trash=(page,)), 10**12) == []
    nameless = structs.replace(dated, jobs=(structs.replace(job, inputs=()),))
    assert gone(nameless, 10**12) == []
    struck = end_expired_jobs(dated, now_ms=5 + SKEW_MS)
    assert struck.jobs == ()
    assert gone(struck, 10**12) == keys(manifest.entries[:3])


def test_a_job_is_struck_off_only_when_it_has_run_out(manifest):
    """With the skew of clocks; one job a change."""
    jobs = [Job(bytes([n] * 16), "merge", 3, 100 * n, (bytes([n] * 16),)) for n in (1, 2)]
    both = list_job(list_job(manifest, jobs[0], now_ms=3), jobs[1], now_ms=3)
    assert end_expired_jobs(both, now_ms=100 + SKEW_MS) is both
    assert end_expired_jobs(both, now_ms=101 + SKEW_MS).jobs == (jobs[1],)


def test_a_lease_holds_what_left_after_it_was_written(manifest):
    """Asked last; an expired one holds nothing."""
    dated = date_trash(trashed(manifest), US, now_ms=10 * SKEW_MS)
    now = 20 * SKEW_MS
    assert gone(dated, now, leases=[Lease(bytes(16), 10 * SKEW_MS, now)]) == []
    assert gone(dated, now, leases=[Lease(bytes(16), 11 * SKEW_MS + 1, now)]) != []
    assert gone(dated, now, leases=[Lease(bytes(16), 0, now - SKEW_MS - 1)]) != []


@pytest.mark.parametrize(
    ("retention", "goes"),
    [
        (Retention(100, -1, 0), True),
        (Retention(9_000, -1, 0), False),
        (FOREVER, False),
        (Retention(9_000, 500, 500), True),
        (Retention(9_000, 500, 499), False),
        (Retention(-1, 0, 0), True),
    ],
)
def test_ranges_that_retention_removed_are_judged_again(retention, goes):
    """Under the limits of now: one that was raised keeps it, in the trash; other reasons are not judged."""
    item = TrashEntry("k", 1, 1, 1, RETENTION, 5_000, max_timestamp_ms=2_000)
    assert still_expired(item, retention, 10_000) is goes
    assert still_expired(structs.replace(item, reason="log start moved"), retention, 10_000) is goes
    assert still_expired(structs.replace(item, reason=DELETED_RECORDS), retention, 10_000)


def test_an_unknown_age_counts_from_the_trash():
    """An entry of an earlier release does not say how old its records are: they are older than its date."""
    item = TrashEntry("k", 1, 1, 1, RETENTION, 5_000)
    assert not still_expired(item, Retention(100, -1, 0), 5_100)
    assert still_expired(item, Retention(100, -1, 0), 5_101)


def test_retention_is_asked_for_the_newest_record(manifest):
    """The entry's facts about its records go with it into the trash."""
    dated = date_trash(trashed(manifest, reason=RETENTION), US, now_ms=5000)
    newest = max(entry.max_timestamp_ms for entry in manifest.entries[:2])
    assert gone(dated, 10_000, FOREVER) == []
    assert newest > 0
    assert gone(dated, newest + 10_001, Retention(10_000, -1, 0)) == keys(manifest.entries[:2])


def test_a_live_key_never_leaves(manifest):
    """A second line: should a key stand in both lists, reading wins."""
    entry = manifest.entries[0]
    odd = structs.replace(manifest, trash=(TrashEntry(entry.key, 1, 3, 1, "merge", 5000),))
    assert gone(odd, 10**12) == []


def test_a_deleted_object_is_forgotten_once(manifest):
    """A repetition after a lost answer has nothing to do; without the claim no object is forgotten."""
    dated = date_trash(trashed(manifest), US, now_ms=5000)
    out = gone(dated, 10_000)
    empty = forget(dated, US, out, now_ms=10_000)
    assert empty.trash == ()
    assert empty.seq == dated.seq + 1
    assert forget(empty, US, out, now_ms=11_000) is empty
    with pytest.raises(ManifestFenced):
        forget(claim(dated, NEXT, now_ms=1), US, out, now_ms=2)
    with pytest.raises(NotClaimed):
        forget(dated, NEXT, out, now_ms=2)


def test_an_archive_goes_to_the_trash_as_a_whole(manifest):
    """Pages as pages; it is marked, and an upload under way cannot be committed."""
    ref = page_ref(manifest.partition, manifest.entries[:3], page_to_bytes(manifest.partition, manifest.entries[:3]), 2)
    paged = structs.replace(manifest, pages=(ref,), entries=manifest.entries[3:5], remote_end=500)
    deleted = trash_archive(paged, US, now_ms=100, reason=TOPIC_DELETED)
    assert (deleted.entries, deleted.pages, deleted.totals) == ((), (), (0, 0, 0))
    assert keys(deleted.trash) == [ref.key, *keys(manifest.entries[3:5])]
    assert [item.kind for item in deleted.trash] == [PAGE_KIND, "", ""]
    assert (deleted.deleted_ms, deleted.seq, deleted.rewritten_seq) == (100, paged.seq + 1, paged.seq + 1)
    assert trash_archive(deleted, US, now_ms=200, reason=TOPIC_DELETED) is deleted
    late = Uploaded(structs.replace(manifest.entries[5], base=500, end=600), US)
    with pytest.raises(ArchiveDeleted):
        commit(deleted, US, [late], now_ms=101)
    with pytest.raises(ManifestFenced):
        trash_archive(claim(paged, NEXT, now_ms=1), US, now_ms=100, reason=TOPIC_DELETED)


@pytest.mark.parametrize("log_start", [0, 250, 500, 900])
@pytest.mark.parametrize("marked", [False, True])
def test_the_whole_archive_goes_wherever_the_log_starts(manifest, log_start, marked):
    """Also what lies below the log start: with it the folder could never be emptied. Archives marked earlier heal."""
    first = manifest.entries[:3]
    ref = page_ref(manifest.partition, first, page_to_bytes(manifest.partition, first), 2)
    paged = structs.replace(manifest, pages=(ref,), entries=manifest.entries[3:], log_start_offset=log_start)
    if marked:
        paged = structs.replace(paged, deleted_ms=50, remote_end=log_start)
    deleted = trash_archive(paged, US, now_ms=100, reason=TOPIC_DELETED)
    assert (deleted.entries, deleted.pages, deleted.totals, deleted.deleted_ms) == (
        (),
        (),
        Totals(),
        50 if marked else 100,
    )
    assert keys(deleted.trash) == [ref.key, *keys(manifest.entries[3:])]
    assert deleted.log_start_offset == deleted.remote_end == log_start
    assert trash_archive(deleted, US, now_ms=200, reason=TOPIC_DELETED) is deleted


def test_an_empty_archive_is_marked_too(log_bytes):
    """So that nothing that is still under way makes it live again."""
    empty = claim(Manifest(log_bytes.partition), US, now_ms=1, start_offset=50)
    deleted = trash_archive(empty, US, now_ms=2, reason=TOPIC_DELETED)
    assert (deleted.deleted_ms, deleted.seq, deleted.trash) == (2, empty.seq + 1, ())


def test_a_merge_ends_with_its_archive_when_tiering_is_switched_off(manifest):
    """Its leader may have stopped in the middle, and no later merge would strike it off: it must not hold the trash."""
    inputs = tuple(entry.uuid for entry in manifest.entries[:2])
    merging = list_job(manifest, Job(bytes([9] * 16), MERGE_KIND, 90, 10**9, inputs), now_ms=90, claimant=US)
    off = trash_archive(merging, US, now_ms=100, reason=TIERING_OFF)
    assert (off.jobs, off.seq) == ((), merging.seq + 1)
    assert gone(date_trash(off, US, now_ms=101), 101 + GRACE + 1) == keys(manifest.entries)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("compact", TIERING_OFF), ("erase", TIERING_OFF), ("quarantine", TIERING_OFF), (MERGE_KIND, TOPIC_DELETED)],
)
def test_other_jobs_hold_the_trash_until_they_end(manifest, kind, reason):
    """Spark reads for them. A deleted topic waits for its merge: its object would stay for good behind the manifest."""
    job = Job(bytes([9] * 16), kind, 90, 10**9, (manifest.entries[0].uuid,))
    deleted = trash_archive(list_job(manifest, job, now_ms=90), US, now_ms=100, reason=reason)
    assert deleted.jobs == (job,)
    assert keys(manifest.entries[:1])[0] not in gone(date_trash(deleted, US, now_ms=101), 101 + GRACE + 1)


def test_archiving_begins_again_behind_what_is_local(manifest, make_entry):
    """At the offset that the local log has, above or below the old end; the trash stays."""
    deleted = trash_archive(manifest, US, now_ms=100, reason="off")
    for offset in (350, 600, 900):
        begun = begin_again(deleted, US, offset, now_ms=200)
        assert (begun.log_start_offset, begun.remote_end, begun.deleted_ms) == (offset, offset, -1)
        assert (begun.rewritten_seq, keys(begun.trash)) == (begun.seq, keys(manifest.entries))
        assert begin_again(begun, US, offset, now_ms=300) is begun
        entry = make_entry(offset, offset + 10, epoch=3)
        assert commit(begun, US, [Uploaded(entry, US)], now_ms=300).entries == (entry,)
    kept = structs.replace(manifest, deleted_ms=100, log_start_offset=600)
    begun = begin_again(kept, US, 650, now_ms=200)  # earlier versions marked an archive and left what no one may read
    assert (begun.entries, begun.totals, begun.remote_end, keys(begun.trash)) == (
        (),
        Totals(),
        650,
        keys(manifest.entries),
    )
    assert {item.since_ms for item in begun.trash} == {-1}
    with pytest.raises(Invalid, match="live entries"):
        begin_again(structs.replace(deleted, entries=manifest.entries[:1]), US, 0, now_ms=200)


@pytest.mark.parametrize("kind", [COMPACT_KIND, ERASE_KIND])
@pytest.mark.parametrize("offset", [0, 500, 700])
def test_a_run_ends_where_the_archive_begins_again(manifest, kind, offset):
    """It looked at another archive: its end would call this one compacted, and tombstones would go too early."""
    run = Job(b"r" * 16, kind, 90, 10**9)
    part = Job(b"p" * 16, kind, 90, 10**9, (manifest.entries[0].uuid,))
    other = Job(b"q" * 16, "quarantine", 90, 10**9, (manifest.entries[1].uuid,))
    listed = list_job(list_part(begin_run(manifest, run, now_ms=90), run.uuid, part, now_ms=90), other, now_ms=90)
    off = trash_archive(listed, US, now_ms=100, reason=TIERING_OFF)
    assert off.jobs == (run, part, other)  # until then they hold the trash that they read
    begun = begin_again(off, US, offset, now_ms=200)
    assert begun.jobs == (other,)
    with pytest.raises(RunStruckOff):
        end_run(begun, run.uuid, now_ms=300, clean_offset=600, live=begun.entries)
    with pytest.raises(RunStruckOff):
        list_part(begun, run.uuid, part, now_ms=300)


@pytest.mark.story
@given(
    st.lists(st.tuples(st.integers(-1, 50), st.integers(0, 5), st.booleans()), max_size=8),
    st.integers(0, 60),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=3),
)
def test_no_object_leaves_before_all_have_agreed(items, now, grace, lent):
    """Against the rule said once more in other words: dated, older than the grace, not leased."""
    partition = Manifest(PARTITION).partition
    trash = tuple(
        TrashEntry(partition.segment_key(n, n + 1, 1, bytes([n] * 16)), 1, 1, 1, "merge", since * SKEW_MS if since >= 0 else -1)
        for n, (since, _, _) in enumerate(items)
    )  # fmt: skip
    leases = [Lease(bytes(16), start * SKEW_MS, (start + length) * SKEW_MS) for start, length in lent]
    found = leaving(Manifest(partition, trash=trash), now_ms=now * SKEW_MS, grace_ms=grace * SKEW_MS, retention=None)
    expected = [
        item
        for item, (since, _, _) in zip(trash, items, strict=True)
        if since >= 0
        and now - since > grace
        and not any(start <= since + 1 and now <= start + length + 1 for start, length in lent)
    ]
    assert list(unleased(found, leases, now * SKEW_MS)) == expected
