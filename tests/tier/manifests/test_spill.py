"""Pages and history copies over a store: written before the swap that names them, whatever fails in between."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from stratalog.tier.care.verify_history import check_history
from stratalog.tier.documents.json import decompressed, parse_json
from stratalog.tier.documents.keys import PartitionId, parse_key
from stratalog.tier.manifests import pages as manifest_pages
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.history import KeptHistory
from stratalog.tier.manifests.jobs import affected_pages, list_job, page_rewrite, swap
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, successor
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.pages import page_ref
from stratalog.tier.manifests.parts import PAGE_KIND, Job, totals_of, totals_of_pages
from stratalog.tier.manifests.spill import iter_history, spilling, write_page
from stratalog.tier.manifests.view import NO_ENTRIES
from stratalog.tier.messages.commands import Commit, EmptyTrash, ReadBack, ReadManifest, SetLogStart
from stratalog.tier.stores.faulty_store import Fault, FaultRule, FaultyStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.store import NotFound, PreconditionFailed, StoreUnavailable
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_commands import commit_uploads, move_log_start, read_back, read_view
from stratalog.tier.work.removal_commands import empty_trash
from stratalog.wire.errors import Corrupt

DAY_MS = 86_400_000
WHEN = {"before": Fault.FAIL_BEFORE, "after": Fault.DROP_AFTER_COMMIT}
US = Claimant(0, 1, bytes(16), 4)
PARTITION = PartitionId("t", bytes(16), 0)


def entry(base, end, uuid=None):
    """An entry that no object backs."""
    uuid = uuid or os.urandom(16)
    return Entry(
        uuid, base, end, 1, PARTITION.segment_key(base, end, 1, uuid), 1000 + base, 900, 0, 0, 900, 32, base, end,
        end - 1, 1, end - base,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _small_manifests(monkeypatch):
    """Six entries inline, three after a spill, three pages of a class make one of the next."""
    for name, value in (("INLINE_MAX", 6), ("INLINE_KEPT", 3), ("FANOUT", 3), ("MERGED_ENTRIES_MAX", 27)):
        monkeypatch.setattr(manifest_pages, name, value)


@pytest.fixture
def store():
    """An archive that is claimed and empty."""
    found = MemoryStore(clock_ms=lambda: 1)
    change_manifest(found, PARTITION, lambda m: claim(m, US, now_ms=1))
    return found


def commit_of(entries, known_end=NO_ENTRIES):
    """A command that commits these entries."""
    return Commit(PARTITION, US, tuple(Uploaded(each, US) for each in entries), 2, known_end=known_end)


def grow(store, count, *, size=10):
    """Commit so many entries one by one; returns them."""
    at = read_manifest(store, PARTITION).manifest.remote_end
    entries = [entry(at + size * n, at + size * (n + 1)) for n in range(count)]
    for each in entries:
        commit_uploads(store, commit_of([each]))
    return entries


def live(store):
    """All live entries, and the manifest."""
    manifest = read_manifest(store, PARTITION).manifest
    return list(iter_entries(store, manifest)), manifest


def test_old_entries_move_to_pages_and_are_all_still_read(store):
    """Views, whole or from a border on, and the read-back see them like the others."""
    entries = grow(store, 40)
    found, manifest = live(store)
    assert found == entries
    assert len(manifest.entries) <= 6
    assert manifest.pages
    view = read_view(store, ReadManifest(PARTITION)).view
    assert [view.entries.unpack(PARTITION, n).key for n in range(40)] == [e.key for e in entries]
    delta = read_view(store, ReadManifest(PARTITION, "", entries[-2].base)).view
    assert list(delta.entries.bases) == [e.base for e in entries[-2:]]
    with pytest.raises(NotFound):
        read_back(store, ReadBack(PARTITION, 0, 400, 0, US))


def test_very_many_entries_go_to_several_pages(store):
    """A repair, or a way back to a cut, brings them all at once."""
    entries = tuple(entry(at, at + 1) for at in range(100))

    def transition(manifest):
        return successor(replace(manifest, entries=entries, remote_end=100, totals=totals_of(entries)), "rewind", 5)

    change_manifest(store, PARTITION, transition, spilling(store, 0))
    found, manifest = live(store)
    assert found == list(entries)
    assert [page.entry_count for page in manifest.pages] == [27, 27, 27, 16]
    assert manifest.totals == totals_of_pages(manifest.pages).plus(totals_of(manifest.entries))


def test_pages_of_unusual_sizes_are_not_merged_beyond_what_can_be_read(log_bytes, make_entry):
    """Commits of very many objects make large pages of the lower size class."""
    refs = []
    for number in range(8):
        entries = [make_entry(at, at + 1) for at in range(number * 26, number * 26 + 26)]
        refs.append(page_ref(log_bytes.partition, entries, b"", number))
    inline = tuple(make_entry(at, at + 1) for at in range(208, 224))
    grown = Manifest(log_bytes.partition, seq=9, pages=tuple(refs), entries=inline, remote_end=224)
    plan = manifest_pages.plan_spill(grown)
    assert (plan.merged, plan.inline_count) == ((), 13)
    assert len(manifest_pages.plan_spill(replace(grown, pages=tuple(refs[5:]))).merged) == 3


def test_each_spill_copies_the_manifest_before_it(store):
    """The copies are a chain back to the first, each named by its hash; each is what was stored then."""
    stored = {}
    for _ in range(30):
        grow(store, 1)
        manifest = read_manifest(store, PARTITION).manifest
        stored[manifest.seq] = manifest
    copies = list(iter_history(store, read_manifest(store, PARTITION).manifest))
    assert len(copies) > 5
    assert all(stored[copy.seq] == copy for copy in copies if copy.seq in stored)
    assert [copy.seq for copy in copies] == sorted((copy.seq for copy in copies), reverse=True)
    assert copies[-1].history is None
    key = read_manifest(store, PARTITION).manifest.history.key
    store.put(key, store.get(copies[0].history.key)[0])
    with pytest.raises(Corrupt, match="history/"):
        list(iter_history(store, read_manifest(store, PARTITION).manifest))


def test_old_copies_leave_the_bucket_through_the_trash(store):
    """The chain then begins later; what has gone is no damage, what goes missing is."""
    kept = KeptHistory(3, -SKEW_MS - 2)
    for each in range(60):
        commit_uploads(store, replace(commit_of([entry(each * 10, each * 10 + 10)]), kept_history=kept))
    manifest = read_manifest(store, PARTITION).manifest
    assert manifest.history.start
    listed = [each.key for each in store.list(PARTITION.history_prefix)]
    assert list(check_history(store, manifest, whole=True)) == []
    now_ms = 2 * DAY_MS
    command = EmptyTrash(PARTITION, US, now_ms, 0, None)
    empty_trash(store, command)
    empty_trash(store, replace(command, now_ms=now_ms + 1))
    left = [each.key for each in store.list(PARTITION.history_prefix)]
    assert left == [key for key in listed if parse_key(key).seq >= manifest.history.start]
    assert 3 <= len(left) < len(listed)
    manifest = read_manifest(store, PARTITION).manifest
    assert [copy.seq for copy in iter_history(store, manifest)][-1] == manifest.history.start
    assert list(check_history(store, manifest, whole=True)) == []
    store.delete_many(left[:1])
    assert [each.key for each in check_history(store, manifest, whole=True)] == left[:1]
    with pytest.raises(NotFound):
        list(iter_history(store, manifest))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["/pages/", "/history/", "manifest.json"])
def test_a_commit_that_fails_in_the_middle_is_repeated(store, kind, when):
    """No object is lost, doubled or overwritten; one written before the swap is found or is garbage."""
    operation = "compare_and_swap" if kind == "manifest.json" else "put_if_absent"
    failing = FaultyStore(store, [FaultRule(WHEN[when], operation, kind)])
    entries = grow(store, 6)
    new = [entry(60, 70), entry(70, 80)]
    with pytest.raises(StoreUnavailable):
        commit_uploads(failing, commit_of(new))
    view = commit_uploads(failing, commit_of(new)).view
    assert (view.remote_end, live(store)[0]) == (80, entries + new)
    assert commit_uploads(store, commit_of(new)).view.seq == view.seq


def test_another_attempts_page_is_never_overwritten(store):
    """Something else under our key: this change does not spill, the next one has another key."""
    entries = grow(store, 6)
    manifest = read_manifest(store, PARTITION).manifest
    key = PARTITION.page_key(0, 40, manifest.seq + 1)
    store.put(key, b"else")
    entries += grow(store, 1)
    assert store.get(key)[0] == b"else"
    assert (live(store)[0], live(store)[1].pages) == (entries, ())
    entries += grow(store, 1)
    assert live(store)[0] == entries
    assert live(store)[1].pages


def test_a_lost_race_leaves_garbage_and_no_reference(store):
    """The other's change stands, ours comes after it with a page of its own."""
    entries = grow(store, 6)

    class Raced(StoreWrapper):
        raced = False

        def compare_and_swap(self, key, *args, **kwargs):
            if not self.raced:
                self.raced = True
                change_manifest(store, PARTITION, lambda m: replace(m, seq=m.seq + 1))
                raise PreconditionFailed("compare_and_swap", key, "memory:", "changed")
            return super().compare_and_swap(key, *args, **kwargs)

    new = entry(60, 70)
    commit_uploads(Raced(store), commit_of([new]))
    found, manifest = live(store)
    assert found == [*entries, new]
    pages = {each.key for each in store.list(PARTITION.prefix + "pages/")}
    assert len(pages) == 2
    assert {page.key for page in manifest.pages} < pages
    assert all(page.seq <= manifest.seq for page in manifest.pages)


def test_a_damaged_page_stops_merging_but_no_commit(store):
    """New data is archived all the same; the page stays named, for the repair."""
    grow(store, 11)
    first = read_manifest(store, PARTITION).manifest.pages[0].key
    store.put(first, b"damaged")
    grow(store, 20)
    manifest = read_manifest(store, PARTITION).manifest
    assert manifest.pages[0].key == first
    assert list(iter_entries(store, manifest, manifest.pages[0].end))
    with pytest.raises(Corrupt):
        list(iter_entries(store, manifest))
    with pytest.raises(Corrupt):
        move_log_start(store, SetLogStart(PARTITION, US, manifest.pages[0].live_first + 15, 3, "r"))


class Archive(RuleBasedStateMachine):
    """The archive of a partition beside a plain list of entries."""

    @initialize()
    def begin(self):
        self.store = MemoryStore()
        self.names = [(name, getattr(manifest_pages, name)) for name in ("INLINE_MAX", "INLINE_KEPT", "FANOUT")]
        manifest_pages.INLINE_MAX, manifest_pages.INLINE_KEPT, manifest_pages.FANOUT = 6, 3, 3
        change_manifest(self.store, PARTITION, lambda m: claim(m, US, now_ms=1))
        self.plain, self.end, self.gone, self.now = [], 0, [], 1

    def teardown(self):
        for name, value in self.names:
            setattr(manifest_pages, name, value)

    @rule(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12))
    def commit(self, lengths):
        new = []
        for length in lengths:
            new.append(entry(self.end, self.end + length))
            self.end += length
        commit_uploads(self.store, commit_of(new))
        self.plain += new

    @rule(part=st.floats(0, 1))
    def move_log_start(self, part):
        offset = int(part * self.end)
        move_log_start(self.store, SetLogStart(PARTITION, US, offset, 3, "retention"))
        self.gone += [e.key for e in self.plain if e.end <= offset]
        self.plain = [e for e in self.plain if e.end > offset]

    @precondition(lambda self: len(self.plain) > 1)
    @rule(data=st.data())
    def merge(self, data):
        first = data.draw(st.integers(0, len(self.plain) - 2))
        inputs = self.plain[first : first + data.draw(st.integers(2, 5))]
        uuid = os.urandom(16)
        job = Job(uuid, "merge", 1, 2, tuple(e.uuid for e in inputs))
        change_manifest(self.store, PARTITION, lambda m: list_job(m, job, now_ms=4))
        output = entry(inputs[0].base, inputs[-1].end, uuid)

        def swapped(manifest):
            pages = affected_pages(manifest, output.base, output.end)
            loaded = {page.key: list(iter_page(self.store, manifest, page)) for page in pages}
            rewrite = page_rewrite(manifest, inputs, output, loaded)
            entries = rewrite.entries if rewrite else ()
            page = write_page(self.store, manifest, entries, manifest.seq + 1) if entries else None
            return swap(manifest, uuid, inputs, output, now_ms=5, rewrite=rewrite, page=page)

        change_manifest(self.store, PARTITION, swapped)
        self.gone += [e.key for e in inputs]
        self.plain[first : first + len(inputs)] = [output]

    @invariant()
    def the_archive_is_the_list(self):
        found, manifest = live(self.store)
        assert found == self.plain
        assert manifest.totals == totals_of(self.plain)
        assert manifest.remote_end == self.end
        assert manifest.remote_start == (self.plain[0].base if self.plain else self.end)
        assert manifest.oldest_timestamp_ms == (self.plain[0].max_timestamp_ms if self.plain else -1)
        assert bool(manifest.entries) == bool(self.plain), "the newest entry is inline"
        view = read_view(self.store, ReadManifest(PARTITION)).view
        assert view.newest_key == (self.plain[-1].key if self.plain else "")
        assert [view.entries.unpack(PARTITION, n).key for n in range(len(view.entries))] == [e.key for e in found]

    @invariant()
    def what_went_is_in_the_trash_once(self):
        _, manifest = live(self.store)
        trashed = []
        for item in manifest.trash:
            if item.kind == PAGE_KIND:
                trashed += keys_of_page(self.store, item)
            elif "/seg/" in item.key:
                trashed.append(item.key)
        assert sorted(trashed) == sorted(self.gone)

    @invariant()
    def every_page_is_named_once(self):
        _, manifest = live(self.store)
        stored = sorted(each.key for each in self.store.list(PARTITION.prefix + "pages/"))
        named = [page.key for page in manifest.pages] + [t.key for t in manifest.trash if "/pages/" in t.key]
        assert sorted(named) == stored


def iter_page(store, manifest, page):
    """All entries of a page, dead ones too."""
    return manifest_pages.page_from_bytes(store.get(page.key)[0], page, manifest.partition)


def keys_of_page(store, item):
    """The objects that a trashed page stands for."""
    fields = parse_json(decompressed(store.get(item.key)[0], item.key), item.key)["entries"]
    return [PARTITION.prefix + each["loc"] for each in fields[item.dead_count :]]


Archive.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestArchive = Archive.TestCase


def test_a_new_archive_spills_no_entry(store):
    """A small manifest needs no reader of version 2."""
    grow(store, 6)
    assert {each.key for each in store.list("")} == {PARTITION.manifest_key}
    assert Manifest(PARTITION).pages == ()
