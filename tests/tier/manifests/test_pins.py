from __future__ import annotations

import pytest
from msgspec import structs

from stratalog.tier.manifests.manifest import Claimant, Manifest, Uploaded, claim, commit, set_log_start
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.manifests.pins import pin, unpin
from stratalog.wire.errors import Invalid

US = Claimant(0, 1, bytes(16))


@pytest.fixture
def manifest(log_bytes, make_entry):
    """Two entries, the log start in the first."""
    found = claim(Manifest(log_bytes.partition), US, now_ms=1)
    found = commit(found, US, [Uploaded(make_entry(a, a + 100, epoch=1), US) for a in (0, 100)], now_ms=2)
    return set_log_start(found, US, 30, now_ms=3, reason="r")


def test_a_pin_comes_and_goes(manifest):
    """Each by one change; repeated, it has nothing to do."""
    mine = Pin("cut-1", 5, 150, 30)
    pinned = pin(manifest, mine, now_ms=6)
    assert (pinned.pins, pinned.seq, pinned.entries) == (
        (structs.replace(mine, seq=manifest.seq + 1),), manifest.seq + 1, manifest.entries,
    )  # fmt: skip
    assert pin(pinned, mine, now_ms=7) is pinned
    assert unpin(pinned, "cut-1", now_ms=8).pins == ()
    assert unpin(manifest, "cut-1", now_ms=8) is manifest


@pytest.mark.parametrize("wrong", [Pin("cut", 5, 201, 30), Pin("cut", 5, 150, 29)])
def test_a_missing_partition_is_not_pinned(manifest, wrong):
    """A cut was made from another manifest than this one."""
    with pytest.raises(Invalid, match="read the manifest again"):
        pin(manifest, wrong, now_ms=6)


def test_a_cut_pins_once(manifest):
    """Two different pins under one name would leave one of them unprotected."""
    with pytest.raises(Invalid, match="something else"):
        pin(pin(manifest, Pin("cut", 5, 150, 30), now_ms=6), Pin("cut", 5, 140, 30), now_ms=7)
