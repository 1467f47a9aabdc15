from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.manifests.manifest import (
    COMMITS_KEPT,
    Claimant,
    ForeignUpload,
    Manifest,
    ManifestFenced,
    ManifestFull,
    NotAtRemoteEnd,
    NotClaimed,
    Totals,
    Uploaded,
    claim,
    commit,
    page_at,
    set_log_start,
    take_over,
)
from stratalog.tier.manifests.pages import page_ref, page_to_bytes
from stratalog.tier.manifests.parts import LOG_START_MOVED, PAGE_KIND, totals_of
from stratalog.wire.errors import Corrupt, Invalid

ONE = Claimant(0, 1, bytes([1] * 16), 11)
TWO = Claimant(0, 2, bytes([2] * 16), 22)
OTHER = Claimant(0, 1, bytes([3] * 16), 33)
PARTITION = PartitionId("t", bytes(16), 0)


def entry_of(base, number):
    """The entry of one record, for an object of its own."""
    uuid = number.to_bytes(16, "big")
    key = PARTITION.segment_key(base, base + 1, 1, uuid)
    return Entry(uuid, base, base + 1, 1, key, 10, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)


@pytest.fixture
def empty(log_bytes):
    """The manifest of a partition that was never archived."""
    return Manifest(log_bytes.partition)


@pytest.fixture
def claimed(empty):
    """Claimed by ONE at offset 0."""
    return claim(empty, ONE, now_ms=10)


@pytest.fixture
def archive(claimed, make_entry):
    """Ranges [0, 100), [100, 200), [200, 300), committed by ONE."""
    return commit(claimed, ONE, [Uploaded(make_entry(a, a + 100), ONE) for a in (0, 100, 200)], now_ms=20)


def test_a_first_claim_sets_where_the_archive_begins(empty):
    """A topic that is archived late begins at its first local batch, with an empty history."""
    found = claim(empty, ONE, now_ms=10, start_offset=500)
    assert (found.seq, found.claimant, found.claimed_ms) == (1, ONE, 10)
    assert (found.log_start_offset, found.remote_end, found.remote_start) == (500, 500, 500)


def test_a_claim_is_idempotent_by_its_uuid(claimed):
    """Sent again after a lost reply, it changes nothing."""
    assert claim(claimed, ONE, now_ms=99) is claimed


def test_a_higher_claim_fences_a_lower_one(archive, make_entry):
    """After it every change by the lower one is refused, and the archive is as it was (rule 1)."""
    taken = claim(archive, TWO, now_ms=30, start_offset=7)
    assert (taken.remote_end, taken.entries, taken.log_start_offset) == (300, archive.entries, 0)
    with pytest.raises(ManifestFenced, match="leader epoch 2"):
        claim(taken, ONE, now_ms=40)
    with pytest.raises(ManifestFenced):
        commit(taken, ONE, [Uploaded(make_entry(300, 400), ONE)], now_ms=40)
    with pytest.raises(ManifestFenced):
        set_log_start(taken, ONE, 50, now_ms=40, reason="retention")


def test_a_higher_incarnation_fences_any_epoch(claimed):
    """A restored cluster begins again at epoch 0 and still comes after the old one."""
    restored = Claimant(1, 0, bytes([9] * 16))
    taken = take_over(claimed, restored, now_ms=5)
    assert taken.claimant == restored
    assert take_over(taken, restored, now_ms=6) is taken
    with pytest.raises(ManifestFenced):
        claim(taken, Claimant(0, 10**6, bytes(16)), now_ms=7)
    with pytest.raises(ManifestFenced):
        take_over(taken, Claimant(1, 0, bytes([8] * 16)), now_ms=7)
    with pytest.raises(ManifestFenced):
        take_over(taken, Claimant(3, 0, bytes([8] * 16)), now_ms=7)


def test_a_cluster_restored_without_takeover_claims_nothing(empty, claimed):
    """Its high leader epoch does not help, neither at an empty manifest nor at a claimed one."""
    for manifest in (empty, claimed):
        with pytest.raises(ManifestFenced, match="--takeover"):
            claim(manifest, Claimant(-1, 99, bytes(16)), now_ms=1)


def test_two_claims_of_one_epoch_are_distinguished(claimed, make_entry):
    """The same epoch under another uuid is another broker that believes to lead: fenced."""
    with pytest.raises(ManifestFenced):
        claim(claimed, OTHER, now_ms=20)
    with pytest.raises(ManifestFenced):
        commit(claimed, OTHER, [Uploaded(make_entry(0, 10), OTHER)], now_ms=20)


def test_no_range_is_committed_without_a_claim(empty, claimed, make_entry):
    """A change under a claim that the manifest does not carry yet is refused."""
    with pytest.raises(NotClaimed):
        commit(empty, ONE, [Uploaded(make_entry(0, 10), ONE)], now_ms=20)
    with pytest.raises(NotClaimed):
        commit(claimed, TWO, [Uploaded(make_entry(0, 10, epoch=2), TWO)], now_ms=20)
    with pytest.raises(NotClaimed):
        set_log_start(claimed, TWO, 10, now_ms=20, reason="retention")


def test_a_commit_appends_consecutive_ranges(claimed, make_entry):
    """All of them by one change; end, totals and leader epochs follow."""
    entries = [make_entry(0, 100), make_entry(100, 150, epochs=(LeaderEpoch(1, 100),))]
    found = commit(
        claimed, ONE, [Uploaded(e, ONE) for e in entries], now_ms=20, high_watermark=160, last_stable_offset=155
    )
    assert found.seq == claimed.seq + 1
    assert found.entries == tuple(entries)
    assert (found.remote_end, found.high_watermark, found.last_stable_offset) == (150, 160, 155)
    assert found.totals == Totals(2, 1100 + 1050, 150)
    assert found.leader_epochs == (LeaderEpoch(1, 0),)
    assert found.commits[-1] == (2, "commit", 1, 150, 20)


def test_the_whole_epoch_history_is_kept(archive, make_entry):
    """A new epoch is added with the first offset it wrote; the oldest ones stay."""
    taken = claim(archive, TWO, now_ms=30)
    entry = make_entry(300, 400, epoch=2, epochs=(LeaderEpoch(1, 300), LeaderEpoch(2, 350)))
    assert commit(taken, TWO, [Uploaded(entry, TWO)], now_ms=40).leader_epochs == (
        LeaderEpoch(1, 0),
        LeaderEpoch(2, 350),
    )


def test_a_commit_is_idempotent_by_uuid(archive, make_entry):
    """Ranges that are there already count as done, alone or before new ranges."""
    old = [Uploaded(entry, ONE) for entry in archive.entries]
    assert commit(archive, ONE, old[1:], now_ms=99) is archive
    grown = commit(archive, ONE, [*old[2:], Uploaded(make_entry(300, 310), ONE)], now_ms=99)
    assert [e.base for e in grown.entries] == [0, 100, 200, 300]


@pytest.mark.parametrize("base", [250, 301, 0])
def test_a_range_anywhere_but_at_the_remote_end_is_refused(archive, make_entry, base):
    """No overlap, no gap, no repetition under another uuid; the error says where the archive ends."""
    upload = Uploaded(make_entry(base, 400, uuid=bytes([7] * 16)), ONE)
    with pytest.raises(NotAtRemoteEnd) as caught:
        commit(archive, ONE, [upload], now_ms=30)
    assert caught.value.remote_end == 300
    with pytest.raises(NotAtRemoteEnd):
        commit(archive, ONE, [Uploaded(make_entry(300, 310), ONE), Uploaded(make_entry(311, 320), ONE)], now_ms=30)


def test_an_object_uploaded_under_another_claim_is_refused(archive, make_entry):
    """Also by the same broker after it was elected again: the object may be orphan-collected already."""
    taken = claim(archive, TWO, now_ms=30)
    for upload in (
        Uploaded(make_entry(300, 400, epoch=1), ONE),
        Uploaded(make_entry(300, 400, epoch=2), TWO._replace(uuid=bytes(16))),
        Uploaded(make_entry(300, 400, epoch=1), TWO),
    ):
        with pytest.raises(ForeignUpload):
            commit(taken, TWO, [upload], now_ms=40)


def test_the_manifest_has_a_bound(claimed, make_entry, monkeypatch):
    """Beyond it the commit is refused with advice instead of growing without end."""
    monkeypatch.setattr("stratalog.tier.manifests.manifest.ENTRIES_MAX", 2)
    with pytest.raises(ManifestFull, match="lower retention"):
        commit(claimed, ONE, [Uploaded(make_entry(a, a + 1), ONE) for a in range(3)], now_ms=20)


def test_the_log_start_moves_whole_entries_to_the_trash(archive):
    """An entry that is only partly below it stays; totals follow; the archive's end does not move."""
    found = set_log_start(archive, ONE, 150, now_ms=30, reason="retention.ms")
    assert (found.log_start_offset, found.remote_start, found.remote_end) == (150, 100, 300)
    assert [item.key for item in found.trash] == [archive.entries[0].key]
    assert found.totals == Totals(2, 2200, 200)
    assert found.leader_epochs == archive.leader_epochs


def test_a_log_start_inside_a_page_takes_its_entries_one_by_one(archive):
    """Each goes to the trash once; what is left goes with the page, as one."""
    data = page_to_bytes(archive.partition, archive.entries)
    page = page_ref(archive.partition, archive.entries, data, archive.seq)
    paged = replace(archive, pages=(page,), entries=())
    assert page_at(paged, 100) == page
    with pytest.raises(Corrupt, match="are needed"):
        set_log_start(paged, ONE, 100, now_ms=30, reason="r")
    first = set_log_start(paged, ONE, 100, now_ms=30, reason="r", page_entries=archive.entries)
    second = set_log_start(first, ONE, 250, now_ms=31, reason="r", page_entries=archive.entries)
    assert [item.key for item in second.trash] == [entry.key for entry in archive.entries[:2]]
    (left,) = second.pages
    assert (left.dead_count, left.live_first, second.remote_start) == (2, 200, 200)
    assert (left.front_timestamp_ms, second.oldest_timestamp_ms) == (299, 299)
    assert second.totals == left.totals == Totals(1, archive.entries[2].size_bytes, 100)
    gone = set_log_start(second, ONE, 300, now_ms=32, reason="r")
    assert (gone.pages, gone.totals, gone.remote_start) == ((), Totals(), 300)
    item = gone.trash[-1]
    assert (item.key, item.kind, item.dead_count) == (page.key, PAGE_KIND, 2)
    assert item.size_bytes == page.size_bytes + archive.entries[2].size_bytes


def test_trash_is_dated_by_a_later_change(archive):
    """Rule 9: the change that makes a trash entry leaves it undated, the next one dates it for good."""
    made = set_log_start(archive, ONE, 100, now_ms=30, reason="retention.ms")
    assert [(t.seq, t.since_ms) for t in made.trash] == [(made.seq, -1)]
    dated = set_log_start(made, ONE, 200, now_ms=40, reason="retention.ms")
    assert [t.since_ms for t in dated.trash] == [40, -1]
    again = claim(dated, TWO, now_ms=50)
    assert [t.since_ms for t in again.trash] == [40, 50]


def test_the_log_start_never_goes_back(archive):
    """A late or repeated command changes nothing."""
    moved = set_log_start(archive, ONE, 150, now_ms=30, reason="r")
    assert set_log_start(moved, ONE, 150, now_ms=31, reason="r") is moved
    assert set_log_start(moved, ONE, 10, now_ms=31, reason="r") is moved


def test_an_archive_may_go_on_beyond_deleted_records(archive, make_entry):
    """Records deleted before they were archived leave no hole that could be read."""
    found = set_log_start(archive, ONE, 420, now_ms=30, resume_at=400, reason="delete records")
    assert (found.log_start_offset, found.remote_end, found.entries) == (420, 400, ())
    assert len(found.trash) == 3
    assert commit(found, ONE, [Uploaded(make_entry(400, 500), ONE)], now_ms=40).remote_start == 400
    with pytest.raises(Invalid, match="would be lost"):
        set_log_start(archive, ONE, 350, now_ms=30, resume_at=400, reason="delete records")


def test_a_range_that_is_committed_below_the_log_start_goes_to_the_trash_at_once(claimed, make_entry):
    """Its upload was under way when its records were deleted; the archive goes on behind it."""
    moved = set_log_start(claimed, ONE, 100, now_ms=20, reason="deleted records")
    gone, held = (make_entry(a, a + 100) for a in (0, 100))
    found = commit(moved, ONE, [Uploaded(gone, ONE), Uploaded(held, ONE)], now_ms=30)
    assert (found.entries, found.remote_end, found.totals.segments) == ((held,), 200, 1)
    assert [(item.key, item.seq, item.since_ms, item.reason) for item in found.trash] == [
        (gone.key, found.seq, -1, LOG_START_MOVED)
    ]


def test_entries_that_were_kept_below_a_log_start_go_with_the_next_command(archive):
    """Earlier versions left it in the archive; a command that moves nothing is enough."""
    kept = replace(archive, log_start_offset=200)
    found = set_log_start(kept, ONE, 0, now_ms=30, reason="r")
    assert (found.entries, found.log_start_offset, found.remote_end) == (archive.entries[2:], 200, 300)
    assert [item.key for item in found.trash] == [entry.key for entry in archive.entries[:2]]
    assert set_log_start(found, ONE, 0, now_ms=31, reason="r") is found


@given(
    st.lists(
        st.tuples(st.sampled_from(["commit", "start", "resume"]), st.integers(0, 9), st.integers(0, 2)), max_size=12
    )
)
def test_no_entry_is_live_below_the_log_start(steps):
    """Commits and moves of the log start in any order: each object is live or in the trash, and once."""
    manifest, uploaded = claim(Manifest(PARTITION), ONE, now_ms=0), []
    for kind, offset, count in steps:
        if kind == "commit":
            at = manifest.remote_end
            added = [entry_of(at + n, len(uploaded) + n) for n in range(count)]
            uploaded += added
            manifest = commit(manifest, ONE, [Uploaded(entry, ONE) for entry in added], now_ms=0)
        else:
            resume_at = min(offset, max(offset, manifest.log_start_offset)) if kind == "resume" else None
            manifest = set_log_start(manifest, ONE, offset, now_ms=0, resume_at=resume_at, reason="r")
        bases = [entry.base for entry in manifest.entries]
        assert all(entry.end > manifest.log_start_offset for entry in manifest.entries)
        assert bases == list(range(manifest.remote_end - len(bases), manifest.remote_end))
        assert sorted([one.key for one in (*manifest.entries, *manifest.trash)]) == sorted(one.key for one in uploaded)
        assert manifest.totals == totals_of(manifest.entries)


def test_only_the_latest_changes_are_noted(empty):
    """The list of changes is bounded; numbers go on."""
    manifest = empty
    for epoch in range(COMMITS_KEPT + 5):
        manifest = claim(manifest, Claimant(0, epoch, bytes(16)), now_ms=epoch)
    assert [note.seq for note in manifest.commits] == list(range(6, COMMITS_KEPT + 6))
