"""Offsets of open transactions: which become visible, and what is unstable meanwhile."""

from stratalog.metadata.groups.offsets.pending_offsets import PendingOffset, PendingOffsets

PLACE = ("g", "t", 0)


def test_offsets_are_handed_over_at_the_end_of_the_transaction():
    """A transaction's offsets are handed over at its end, the last for each partition; then none is open."""
    pending = PendingOffsets()
    assert not pending
    pending.add(1, PLACE, b"a")
    pending.add(1, PLACE, b"b")
    pending.add(1, ("g", "t", 1), b"c")
    assert pending
    assert pending.has("g")
    assert not pending.has("h")
    assert pending.unstable("g", "t", 1)
    assert sorted(pending.partitions("g")) == [("t", 0), ("t", 1)]
    assert pending.end(1) == {PLACE: PendingOffset(2, b"b"), ("g", "t", 1): PendingOffset(3, b"c")}
    assert not pending
    assert pending.end(1) == {}


def test_a_partition_is_unstable_until_its_last_transaction_ends():
    """A partition is unstable until the last of its transactions has ended."""
    pending = PendingOffsets()
    pending.add(1, PLACE, b"a")
    pending.add(2, PLACE, b"b")
    pending.end(2)
    assert pending.unstable(*PLACE)
    pending.end(1)
    assert not pending.unstable(*PLACE)


def test_an_overtaken_offset_does_not_replace_a_later_one():
    """An offset before a visible one will not replace it, yet it stays unstable; a newer one will again."""
    pending = PendingOffsets()
    pending.add(1, PLACE, b"a")
    pending.add(2, PLACE, b"b")
    pending.overtake(PLACE, before=2)
    assert list(pending.items()) == [(PLACE, b"b")]
    pending.overtake(PLACE)
    assert pending.unstable(*PLACE)
    assert list(pending.items()) == []
    pending.add(1, PLACE, b"c")
    assert pending.end(1)[PLACE].value == b"c"
    assert pending.end(2)[PLACE].value is None


def test_a_deleted_offset_is_no_longer_pending():
    """A deleted offset has nothing pending; its transactions go on elsewhere."""
    pending = PendingOffsets()
    pending.add(1, PLACE, b"a")
    pending.add(2, PLACE, b"b")
    pending.add(2, ("h", "t", 0), b"c")
    pending.forget(PLACE)
    pending.forget(("x", "t", 0))
    assert not pending.has("g")
    assert pending.end(1) == {}
    assert list(pending.end(2)) == [("h", "t", 0)]
