from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stratalog.tier.bucket.trash import TIERING_OFF, begin_again, trash_archive
from stratalog.tier.bucket.walk import iter_partitions, iter_topics
from stratalog.tier.care.repair import RepairRefused, apply_repair
from stratalog.tier.care.repair_plan import plan_repair
from stratalog.tier.care.rewind import read_cut_target, rewind_partition
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.manifests import manifest_store
from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.entries import iter_entries
from stratalog.tier.manifests.jobs import QUARANTINE_KIND
from stratalog.tier.manifests.json import from_bytes, to_bytes
from stratalog.tier.manifests.manifest import REPAIR, ManifestFull, claim, successor
from stratalog.tier.manifests.manifest_store import change_manifest, read_manifest
from stratalog.tier.manifests.parts import Claimant, Job
from stratalog.tier.manifests.runs import COMPACT_KIND
from stratalog.tier.messages.commands import Claim
from stratalog.tier.stores.wrappers import StoreWrapper
from stratalog.tier.work.archive_commands import claim_archive
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut
from stratalog.wire.errors import Retriable

UUID = bytes(15) + b"r"
WITHOUT_LOSS = [
    "missing-manifest",
    "missing-page",
    "broken-history",
    "wrong-bounds",
    "offset-overlap",
    "entry-differs",
]  # fmt: skip
WITH_A_HOLE = ["missing-object", "offset-gap", "wrong-length"]


@pytest.fixture
def repairing(archive, damages):
    """Plans and applies repairs of the damaged archive; a mapping of both."""

    class Repairing:
        def plan(self, *, deep=False):
            folder = next(iter_partitions(archive.store, next(iter_topics(archive.store))))
            with ThreadPoolExecutor(2) as readers:
                options = damages.OPTIONS._replace(deep=deep)
                return plan_repair(archive.store, folder, "orders", options, readers=readers, incarnation=3)

        def apply(self, plan, **options):
            return apply_repair(archive.store, plan, uuid=UUID, now_ms=9, **options).manifest

    return Repairing()


def entries_of(archive, manifest):
    """All live entries, of pages too."""
    return list(iter_entries(archive.store, manifest))


def test_a_clean_archive_needs_no_repair(archive, repairing):
    """An archive with orphans and foreign keys needs none either, because they do no harm."""
    assert repairing.plan() is None
    archive.damage("orphan-object")
    archive.damage("foreign-key")
    assert repairing.plan() is None


def test_the_state_of_a_compaction_is_forgotten(archive, repairing):
    """The objects that were found may be those from before it."""
    archive.put(replace(archive.manifest, archive_clean_offset=200))
    archive.damage("wrong-bounds")
    assert repairing.apply(repairing.plan()).archive_clean_offset == 0


@pytest.mark.parametrize(
    ("kind", "goes_on"), [("wrong-bounds", True), ("missing-object", False), ("missing-manifest", False)]
)
def test_a_run_ends_where_what_it_knows_may_be_gone(archive, repairing, kind, goes_on):
    """It takes records out of old objects for the sake of later ones."""
    run = Job(b"r" * 16, COMPACT_KIND, 5, 2**62)
    archive.put(replace(archive.manifest, jobs=(run,)))
    archive.damage(kind)
    repaired = repairing.apply(repairing.plan(), accept_loss=True)
    assert (run in repaired.jobs) is goes_on


def test_a_manifest_that_takes_no_commit_any_more_can_be_repaired(archive, repairing, monkeypatch):
    """An earlier version, or retention, has filled it: its archive must not stay damaged for that."""
    monkeypatch.setattr(manifest_store, "_BYTES_MAX_OF_GROWTH", 1000)
    with pytest.raises(ManifestFull):
        change_manifest(archive.store, archive.partition, lambda held: successor(held, "commit", 8))
    archive.damage("wrong-bounds")
    assert repairing.apply(repairing.plan()).commits[-1].kind == REPAIR
    assert repairing.plan() is None
    archive.damage("wrong-bounds")
    monkeypatch.setattr(manifest_store, "_BYTES_MAX_OF_NEED", 1000)
    with pytest.raises(ManifestFull):
        repairing.apply(repairing.plan())


@pytest.mark.parametrize("kind", WITHOUT_LOSS)
def test_damage_that_loses_nothing_is_repaired_whole(archive, repairing, kind):
    """Afterwards every byte verifies, all offsets are there, and a second repair finds nothing to do."""
    before = [(entry.base, entry.end, entry.uuid) for entry in entries_of(archive, archive.manifest)]
    archive.damage(kind)
    deep = kind == "entry-differs"
    plan = repairing.plan(deep=deep)
    assert plan.lost == ()
    repaired = repairing.apply(plan)
    assert archive.anomalies(deep=True) == []
    assert repairing.plan(deep=deep) is None
    assert [(entry.base, entry.end, entry.uuid) for entry in entries_of(archive, archive.manifest)] == before
    assert (repaired.log_start_offset, repaired.remote_end, repaired.rewritten_seq) == (0, 300, repaired.seq)
    assert [epoch for epoch, _ in repaired.leader_epochs] == [1, 2, 3]


def test_a_manifest_lost_with_its_history_is_rebuilt_from_the_objects(archive, repairing):
    """Epochs come from the last object, the claim from the keys and the cluster's incarnation: below the last leader's."""
    before = archive.manifest
    gone = [info.key for info in archive.store.list(archive.partition.prefix) if "/seg/" not in info.key]
    archive.store.delete_many(gone)
    plan = repairing.plan()
    assert plan.source == "the objects alone"
    assert len(plan.added) == 6
    repaired = repairing.apply(plan)
    assert archive.anomalies(deep=True) == []
    assert repaired.claimant.rank == (3, 2)  # the leader of epoch 3, if it lives, claims again
    assert (repaired.totals, repaired.leader_epochs) == (before.totals, before.leader_epochs)
    assert repaired.partition == before.partition


def test_a_damaged_manifest_is_kept_and_its_number_is_not_used_again(archive, repairing):
    """The copy in the history is the source; what could not be read lies beside it."""
    before = archive.manifest
    archive.flip(archive.partition.manifest_key, len(to_bytes(before)) - 300)
    repaired = repairing.apply(repairing.plan())
    assert repaired.seq == before.seq + 1
    assert repaired.history == before.history
    assert repaired.claimant == before.claimant
    assert any("-damaged-" in info.key for info in archive.store.list(archive.partition.prefix + "history/"))
    assert archive.anomalies(deep=True) == []


def test_a_manifest_lost_after_its_history_was_trimmed_goes_on_with_what_is_left_of_it(archive, repairing):
    """Whether older copies were removed on purpose is unknown: those gone at the old end count as such."""
    history = archive.manifest.history
    archive.store.delete_many([archive.partition.history_key(history.seq - 1, "b1")])
    archive.damage("missing-manifest")
    repaired = repairing.apply(repairing.plan())
    assert repaired.history == replace(history, start=history.seq)
    assert archive.anomalies(deep=True) == []


@pytest.mark.parametrize("kind", WITH_A_HOLE)
def test_a_hole_is_repaired_only_with_leave_to_lose(archive, repairing, kind):
    """The run that reaches the end stays; what lies before it is kept under quarantine."""
    archive.damage(kind)
    plan = repairing.plan()
    objects = {info.key for info in archive.store.list(archive.partition.segments_prefix)}
    with pytest.raises(RepairRefused, match="--accept-loss"):
        repairing.apply(plan)
    repaired = repairing.apply(plan, accept_loss=True)
    assert archive.anomalies(deep=True) == []
    assert plan.lost == ((0, repaired.log_start_offset),)
    assert repaired.remote_end == 300
    assert objects == {info.key for info in archive.store.list(archive.partition.segments_prefix)}
    (job,) = repaired.jobs
    assert (job.kind, job.uuid) == (QUARANTINE_KIND, UUID)
    assert len(job.inputs) == len(objects) - len(repaired.entries)


def test_a_hole_is_filled_by_another_attempt_at_the_same_offsets(archive, repairing):
    """An upload that was never committed holds the same bytes; nothing is lost."""
    entry = archive.manifest.entries[1]
    copy = archive.partition.segment_key(entry.base, entry.end, entry.epoch, bytes(15) + b"z")
    archive.replace_object(1, archive.log_bytes.segment(entry.base, 5, leader_epoch=entry.epoch), uuid=bytes(15) + b"z")
    archive.store.put(copy, archive.raw_entry(1))
    archive.damage("missing-object")
    plan = repairing.plan()
    assert [one.key for one in plan.added] == [copy]
    assert plan.lost == ()
    repairing.apply(plan)
    assert AnomalyKind.MISSING_OBJECT not in archive.kinds()


@pytest.mark.parametrize("kind", ["wrong-crc", "unreadable-index", "broken-batches"])
def test_deep_takes_damaged_objects_out(archive, repairing, kind):
    """Only deep sees them; their objects stay."""
    archive.damage(kind)
    assert repairing.plan() is None
    plan = repairing.plan(deep=True)
    repaired = repairing.apply(plan, accept_loss=True)
    assert repaired.log_start_offset == 150
    assert archive.anomalies(deep=True) == []


def test_a_change_in_between_is_never_overwritten(archive, repairing):
    """A live leader's commit wins; the repair is planned again."""
    archive.damage("wrong-bounds")
    plan = repairing.plan()
    archive.put(replace(archive.manifest, high_watermark=7))
    with pytest.raises(Retriable, match="plan again"):
        repairing.apply(plan)
    assert archive.manifest.high_watermark == 7


def test_a_manifest_that_came_back_is_never_overwritten(archive, repairing):
    """Missing when it was looked at, there when it is written."""
    before = archive.manifest
    archive.damage("missing-manifest")
    plan = repairing.plan()
    archive.put(before)
    with pytest.raises(Retriable):
        repairing.apply(plan)
    assert archive.manifest == before


def test_a_newer_claim_in_a_damaged_manifest_wants_a_takeover(archive, repairing):
    """Its leader may be alive: only a raised incarnation fences it."""
    raw = to_bytes(replace(archive.manifest, claimant=Claimant(0, 9, bytes(16))))
    archive.store.put(archive.partition.manifest_key, raw[:-40])
    plan = repairing.plan()
    with pytest.raises(RepairRefused, match="--takeover"):
        repairing.apply(plan)
    repaired = repairing.apply(plan, takeover=True)
    assert repaired.claimant == Claimant(1, 9, UUID)
    assert archive.anomalies() == []


def test_the_claim_of_a_readable_manifest_stays(archive, repairing):
    """Its leader goes on where it was; with a takeover it does not."""
    before = archive.manifest.claimant
    archive.damage("wrong-bounds")
    plan = repairing.plan()
    assert repairing.apply(plan).claimant == before
    archive.damage("wrong-bounds")
    raised = repairing.apply(repairing.plan(), takeover=True)
    assert raised.claimant.incarnation == before.incarnation + 1


def test_many_entries_go_to_a_page_again(archive, repairing, monkeypatch):
    """A rebuilt manifest is as small as any other."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    archive.damage("missing-manifest")
    repaired = repairing.apply(repairing.plan())
    assert (len(repaired.entries), len(repaired.pages)) == (2, 1)
    assert archive.anomalies(deep=True) == []
    assert from_bytes(archive.store.get(archive.partition.manifest_key)[0], "") == repaired


class Lagging(StoreWrapper):
    """A store whose listing does not show one object yet."""

    hidden = ""

    def list(self, prefix, start_after=""):
        return (info for info in super().list(prefix, start_after) if info.key != self.hidden)


def test_a_listing_that_lags_behind_shortens_no_archive(archive, repairing):
    """Each object that a manifest names is asked for by HEAD, as `tier verify` does."""
    archive.damage("broken-history")
    archive.store = Lagging(archive.store)
    archive.store.hidden = entries_of(archive, archive.manifest)[-1].key
    plan = repairing.plan()
    assert (plan.lost, plan.dropped) == ((), ())
    assert repairing.apply(plan).remote_end == 300


@pytest.mark.parametrize("pages", [0, 4], ids=["inline", "in a page"])
def test_no_object_returns_from_the_trash(memory_store, log_bytes, monkeypatch, pages):
    """One of an earlier archive of the same offsets, nor from a page there: it would be deleted with that."""
    if pages:
        monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", pages)
        monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    partition, us = log_bytes.partition, Claimant(0, 5, bytes([5] * 16), 4)
    segments = [log_bytes.segment(10 * n, 1) for n in range(8)]
    for one in segments:
        archive_log(memory_store, partition, [one], now_ms=1, claimant=us)
    change_manifest(memory_store, partition, lambda m: trash_archive(m, us, now_ms=2, reason=TIERING_OFF))
    change_manifest(memory_store, partition, lambda m: begin_again(m, us, 0, now_ms=3))
    manifest = archive_log(memory_store, partition, segments, now_ms=1, claimant=us)
    assert any(item.kind for item in manifest.trash) == bool(pages)
    memory_store.delete_many([list(iter_entries(memory_store, manifest))[2].key])
    folder = next(iter_partitions(memory_store, next(iter_topics(memory_store))))
    with ThreadPoolExecutor(2) as readers:
        plan = plan_repair(memory_store, folder, partition.topic, VerifyOptions(10**13), readers=readers)
    assert (plan.added, plan.lost) == ((), ((0, 30),))


def test_a_repair_that_loses_its_race_breaks_no_page(archive, repairing, monkeypatch):
    """Another repair has written a page of the same number and offsets, with other bytes, and named it."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    archive.damage("broken-history")
    archive.damage("entry-differs")
    deep, shallow = repairing.plan(deep=True), repairing.plan()
    repairing.apply(deep)
    with pytest.raises(Retriable, match="plan again"):
        repairing.apply(shallow)
    assert archive.anomalies(deep=True) == []


def test_the_page_of_a_repair_that_was_broken_off_stands_in_the_way_of_none(archive, repairing, monkeypatch):
    """It ended between its page and its manifest; another plan, of the same number and offsets, has other bytes."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    archive.damage("broken-history")
    archive.damage("entry-differs")
    deep = repairing.plan(deep=True)
    with monkeypatch.context() as patch:
        patch.setattr(type(archive.store), "compare_and_swap", killed)
        with pytest.raises(OSError, match="killed"):
            repairing.apply(deep)
    repairing.apply(repairing.plan())
    assert repairing.plan() is None


def killed(*_, **__):
    raise OSError("killed")


def test_an_archive_that_a_repair_has_shortened_is_never_lost_for_one_who_was_away(archive, repairing):
    """A broker knows the numbers of before; the manifest was lost, and has forgotten since that it was repaired."""
    before = archive.manifest
    last = entries_of(archive, before)[-1].key
    gone = [info.key for info in archive.store.list(archive.partition.prefix) if "/seg/" not in info.key]
    archive.store.delete_many([*gone, last])
    apply_repair(archive.store, repairing.plan(), uuid=UUID, now_ms=1_700_000_000_000)
    for epoch in range(10, 50):
        us = Claimant(3, epoch, bytes([epoch]) * 16)
        change_manifest(archive.store, archive.partition, lambda manifest, us=us: claim(manifest, us, now_ms=1))
    known = {"archived_end": before.remote_end, "archived_seq": before.seq + 100}
    view = claim_archive(archive.store, Claim(archive.partition, Claimant(3, 60, UUID), 1, 0, **known)).view
    assert view.remote_end < before.remote_end


@pytest.mark.parametrize("has_copy", [True, False])
def test_a_copy_of_a_history_that_was_left_is_not_gone_back_to(memory_store, log_bytes, monkeypatch, has_copy):
    """The archive has gone back to a cut and on from there; then its manifest is lost, and perhaps the copy made then, too."""
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_MAX", 4)
    monkeypatch.setattr("stratalog.tier.manifests.pages.INLINE_KEPT", 2)
    partition = log_bytes.partition

    def write(numbers, epoch, claimant=None):
        for at in numbers:
            segment = log_bytes.segment(at * 100, 10, leader_epoch=epoch)
            archive_log(memory_store, partition, [segment], now_ms=5, claimant=claimant)

    write(range(2), 1)
    cut = create_cut(memory_store, "monday", now_ms=50)
    write(range(2, 5), 1)
    write(range(5, 9), 2)
    target = read_cut_target(memory_store, cut, cut.partitions[-1])
    rewind_partition(memory_store, target, Claimant(1, -1, b"m" * 16), cluster_id="c", now_ms=90)
    leader = Claimant(1, 7, b"n" * 16)
    change_manifest(memory_store, partition, lambda manifest: claim(manifest, leader, now_ms=91))
    write(range(2, 4), 7, leader)
    before = read_manifest(memory_store, partition).manifest
    memory_store.delete_many([partition.manifest_key, *([] if has_copy else [before.history.key])])
    folder = next(iter_partitions(memory_store, next(iter_topics(memory_store))))
    with ThreadPoolExecutor(2) as readers:
        plan = plan_repair(memory_store, folder, "orders", VerifyOptions(2**62, 0), readers=readers)
    assert plan.source.startswith("the copy of manifest")
    if has_copy:
        assert plan.lost == ()
    else:
        with pytest.raises(RepairRefused, match=r"\[400, 700\)"):
            apply_repair(memory_store, plan, uuid=UUID, now_ms=99)
    repaired = apply_repair(memory_store, plan, uuid=UUID, now_ms=99, accept_loss=True).manifest
    assert list(iter_entries(memory_store, repaired)) == list(iter_entries(memory_store, before))
    assert repaired.leader_epochs == before.leader_epochs
