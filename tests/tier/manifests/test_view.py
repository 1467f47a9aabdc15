from __future__ import annotations

import pickle

import pytest

from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit
from stratalog.tier.manifests.view import ManifestView

US = Claimant(0, 1, bytes(16), 4)


@pytest.fixture
def manifest(log_bytes, make_entry):
    """Four ranges, one of them under a key of its own kind."""
    entries = [make_entry(a, a + 100, aborted_count=a // 100) for a in (0, 100, 200)]
    entries.append(make_entry(300, 400, key="moved/here.seg"))
    found = claim(Manifest(log_bytes.partition), US, now_ms=1)
    return commit(found, US, [Uploaded(entry, US) for entry in entries], now_ms=2)


def test_packing_loses_nothing_that_reading_needs(manifest, log_bytes):
    """Every column comes back, also through pickling, and keys that follow no rule are kept as they are."""
    view = pickle.loads(pickle.dumps(ManifestView.of(manifest, "v1")))
    assert len(view.entries) == 4
    for index, entry in enumerate(manifest.entries):
        segment = view.entries.unpack(log_bytes.partition, index)
        for name, value in segment._asdict().items():
            assert value == getattr(entry, name), name
    assert list(view.entries.keys.values()) == ["moved/here.seg"]


def test_a_view_may_hold_only_what_is_new(manifest):
    """From a known border on; from anything else, everything."""
    assert list(ManifestView.of(manifest, "v", 200).entries.bases) == [200, 300]
    assert list(ManifestView.of(manifest, "v", 400).entries.bases) == []
    whole = ManifestView.of(manifest, "v", 250)
    assert (whole.entries_from, list(whole.entries.bases)) == (0, [0, 100, 200, 300])


def test_entries_can_be_cut_at_both_ends(manifest, log_bytes):
    """All columns and the odd keys are cut together."""
    entries = ManifestView.of(manifest, "v").entries
    entries.drop_front(1)
    assert entries.unpack(log_bytes.partition, 2).key == "moved/here.seg"
    entries.truncate(2)
    assert (list(entries.bases), entries.keys, len(entries.uuids)) == ([100, 200], {}, 32)
    entries.extend(ManifestView.of(manifest, "v", 300).entries)
    assert [entries.unpack(log_bytes.partition, i).end for i in range(3)] == [200, 300, 400]
