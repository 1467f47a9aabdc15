"""Which copies of earlier manifests are kept, and how a reader tells those that were removed from those that were lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.history import HISTORY_TRIMMED, TOGETHER_MIN, KeptHistory, is_kept, trim_history
from stratalog.tier.manifests.leases import SKEW_MS
from stratalog.tier.manifests.manifest import Claimant, Manifest
from stratalog.tier.manifests.parts import HISTORY_KIND, HistoryRef, Pin
from stratalog.tier.stores.store import ObjectInfo

PARTITION = PartitionId("t", bytes([5] * 16), 0)
GRACE = 1000
NOW = 10_000_000
KEPT = KeptHistory(5, GRACE)


def copy(seq, modified_ms=0, writer="w"):
    """A listed copy."""
    return ObjectInfo(PARTITION.history_key(seq, writer), 10, "v", modified_ms)


def manifest(count, *, start=0, pins=()):
    """A manifest whose chain has the numbers 10, 20, … up to ``count`` times ten."""
    seq = count * 10
    return Manifest(
        PARTITION,
        seq=seq + 1,
        claimant=Claimant(0, 3, bytes(16)),
        history=HistoryRef(seq, PARTITION.history_key(seq, "w"), "00", start),
        pins=tuple(Pin(f"c{at}", 1, 100, 0, at) for at in pins),
    )


def copies(count):
    """Their listing, all of them old."""
    return [copy(number * 10) for number in range(1, count + 1)]


def trim(before, listed, kept=KEPT):
    """Its fate now."""
    return trim_history(before, listed, kept, now_ms=NOW)


def test_the_newest_stay_and_the_others_are_one_item_of_the_trash():
    """The start is the oldest that stays; the item is named after the newest that goes and is not dated yet."""
    before = manifest(20)
    after = trim(before, copies(20))
    assert after.history == replace(before.history, start=160)
    (item,) = after.trash
    assert (item.key, item.kind, item.reason) == (PARTITION.history_key(150, "w"), HISTORY_KIND, HISTORY_TRIMMED)
    assert (item.size_bytes, item.seq, item.since_ms, item.epoch) == (150, after.seq, -1, 3)
    assert replace(after, trash=(), history=before.history) == before


def test_a_few_wait_for_more():
    """Each time is an item of the trash: not one for every spill."""
    waiting = manifest(KEPT.copies_min + TOGETHER_MIN - 1)
    assert trim(waiting, copies(KEPT.copies_min + TOGETHER_MIN - 1)) is waiting
    assert trim(manifest(13), copies(13)).history.start == 90
    again = manifest(13, start=90)
    assert trim(again, copies(13)) is again
    empty = Manifest(PARTITION)
    assert trim(empty, []) is empty


def test_the_young_stay_and_all_that_follow_them():
    """By any clock within the skew: the chain has no gap."""
    listed = copies(30)
    listed[9] = copy(100, NOW - GRACE - SKEW_MS)
    assert trim(manifest(30), listed).history.start == 100
    listed[9] = copy(100, NOW - GRACE - SKEW_MS - 1)
    assert trim(manifest(30), listed).history.start == 260


@pytest.mark.parametrize(("pinned", "start"), [(255, 250), (149, 140), (150, 150), (95, 90), (5, 0), (-1, 0)])
def test_the_copy_as_of_a_cut_stays(pinned, start):
    """The last that was made before the pin; a pin of unknown age keeps all."""
    after = trim(manifest(30, pins=(290, pinned)), copies(30))
    assert after.history.start == start


def test_copies_of_others_count_only_by_their_numbers():
    """Those that a lost race left go with the rest; what is no copy, or numbered above, is not counted."""
    listed = [*copies(20), copy(150, writer="x"), copy(210), copy(300)]
    listed += [ObjectInfo(PARTITION.history_prefix + "notes.txt", 10, "v", 0)]
    after = trim(manifest(20), listed)
    assert after.history.start == 160
    assert after.trash[0].key == PARTITION.history_key(150, "x")
    assert after.trash[0].size_bytes == 160


@pytest.mark.story
@given(
    st.sets(st.integers(0, 60), max_size=40),
    st.lists(st.integers(-1, 60), max_size=2),
    st.sets(st.integers(0, 60), max_size=3),
    st.integers(1, 20),
)
def test_trimming_keeps_enough_of_any_history(numbers, pins, young, copies_min):
    """The newest copies, the young ones and the one as of each cut never lie below the start, and it never goes back."""
    listed = [copy(seq, NOW if seq in young else 0) for seq in sorted(numbers)]
    before = replace(manifest(6, start=7), pins=tuple(Pin(str(at), 1, 100, 0, at) for at in pins))
    after = trim(before, listed, KeptHistory(copies_min, GRACE))
    start = after.history.start
    assert start >= 7
    if after is before:
        return
    kept = {seq for seq in numbers if is_kept(after, HistoryRef(seq, "", ""))}
    assert set(sorted(numbers)[-copies_min:]) <= kept
    assert young & numbers <= kept
    assert all(max((seq for seq in numbers if seq <= at), default=0) >= start for at in pins)
    assert len({seq for seq in numbers if 7 <= seq < start}) >= TOGETHER_MIN
