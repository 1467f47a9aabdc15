from __future__ import annotations

import pytest
from msgspec.structs import replace

from stratalog.tier.manifests.anomaly import AnomalyKind
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.entry_walk import EntryWalk, epoch_order_fault
from stratalog.tier.manifests.manifest import Manifest
from stratalog.tier.manifests.parts import Totals, totals_of


@pytest.fixture
def make_manifest(log_bytes):
    """Makes a manifest around entries, right in all it says of them."""

    def make(entries, **fields):
        known = {
            "log_start_offset": entries[0].base,
            "remote_end": entries[-1].end,
            "totals": totals_of(entries),
            "leader_epochs": tuple(
                {e.epoch: e for entry in reversed(entries) for e in reversed(entry.epochs)}.values()
            )[::-1],
        }
        return Manifest(log_bytes.partition, entries=tuple(entries), **{**known, **fields})

    return make


def walk(manifest, entries=None):
    """The kinds and offsets of what is found."""
    walked = EntryWalk(manifest)
    found = [one for entry in entries or manifest.entries for one in walked.add(entry)]
    return [(one.kind, one.offset) for one in [*found, *walked.finish()]]


def test_neighbours_in_order_are_right(make_entry, make_manifest):
    """Several epochs, a log start inside the first entry."""
    entries = [make_entry(0, 10), make_entry(10, 20, epoch=3), make_entry(20, 30, epoch=3)]
    assert walk(make_manifest(entries, log_start_offset=5)) == []


def test_an_archive_without_entries_is_right(log_bytes):
    """All of it went by retention, or nothing was archived yet; the log may start beyond it."""
    assert walk(Manifest(log_bytes.partition, remote_end=50, log_start_offset=50), []) == []
    assert walk(Manifest(log_bytes.partition, remote_end=50, log_start_offset=70), []) == []


def test_holes_and_overlaps_are_found_where_they_are(make_entry, make_manifest):
    """By the first offset that is missing, or there twice."""
    entries = [make_entry(0, 10), make_entry(12, 20), make_entry(15, 30)]
    assert walk(make_manifest(entries)) == [(AnomalyKind.OFFSET_GAP, 10), (AnomalyKind.OFFSET_OVERLAP, 15)]


@pytest.mark.parametrize(
    "fields",
    [{"remote_end": 21}, {"log_start_offset": -1}, {"totals": Totals(2, 5, 5)}],
    ids=lambda fields: next(iter(fields)),
)
def test_figures_that_are_not_those_of_the_entries_are_found(make_entry, make_manifest, fields):
    """End, start and sums."""
    entries = [make_entry(0, 10), make_entry(10, 20)]
    assert [kind for kind, _ in walk(make_manifest(entries, **fields))] == [AnomalyKind.WRONG_BOUNDS]


def test_epochs_that_go_back_are_found(make_entry, make_manifest):
    """Between two entries, inside one, above the uploader's, and in the manifest itself."""
    first, second = make_entry(0, 10, epoch=2), make_entry(10, 20, epoch=2)
    for wrong in (
        replace(second, epochs=(LeaderEpoch(1, 10),)),
        replace(second, epochs=(LeaderEpoch(2, 10), LeaderEpoch(1, 15))),
        replace(second, epochs=(LeaderEpoch(3, 10),)),
    ):
        manifest = make_manifest(
            [first, wrong], leader_epochs=(LeaderEpoch(1, 0), LeaderEpoch(2, 0), LeaderEpoch(3, 10))
        )
        assert walk(manifest) == [(AnomalyKind.EPOCH_ORDER, 10)]
    assert walk(make_manifest([first, second], leader_epochs=(LeaderEpoch(2, 0), LeaderEpoch(2, 5)))) == [
        (AnomalyKind.EPOCH_ORDER, -1)
    ]
    assert walk(make_manifest([first, second], leader_epochs=(LeaderEpoch(1, 0),)))[0] == (AnomalyKind.EPOCH_ORDER, 0)


def test_an_entry_must_lie_under_its_own_key(make_entry, make_manifest, log_bytes):
    """The entry is of this partition and these offsets."""
    for key in ("seg", log_bytes.partition.segment_key(0, 11, 1, bytes(16)), log_bytes.partition.manifest_key):
        assert walk(make_manifest([make_entry(0, 10, key=key)])) == [(AnomalyKind.FOREIGN_KEY, 0)]


def test_an_unreadable_page_is_no_gap(make_entry, make_manifest):
    """The walk goes on behind it, and sums are not compared."""
    entries = [make_entry(0, 10), make_entry(10, 20)]
    walked = EntryWalk(make_manifest(entries))
    walked.skip(10)
    assert [*walked.add(entries[1]), *walked.finish()] == []


def test_a_list_of_epochs_must_rise():
    """Both numbers; an epoch that wrote nothing has its successor's first offset."""
    assert not epoch_order_fault([LeaderEpoch(0, 0), LeaderEpoch(2, 10), LeaderEpoch(3, 10)])
    assert epoch_order_fault([LeaderEpoch(2, 0), LeaderEpoch(2, 10)])
    assert epoch_order_fault([LeaderEpoch(2, 10), LeaderEpoch(3, 5)])
