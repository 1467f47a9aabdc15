"""Compacted records beside what was acknowledged of them."""

from bench.faults.answers import Found
from bench.faults.cleaned import KEYS, PARTITIONS, compaction_faults

ROUND = KEYS * PARTITIONS
"""Numbers so far apart have one key."""
TOLD = {0: {0: b"0:0", 7: b"0:%d" % ROUND}}


def test_the_last_record_of_a_key_is_enough():
    """Earlier ones may be there, and later ones that were not acknowledged."""
    last = Found(7, b"k0", b"0:%d" % ROUND)
    assert list(compaction_faults(TOLD, {0: [last]})) == []
    assert list(compaction_faults(TOLD, {0: [Found(9, b"k0", b"0:%d" % (2 * ROUND))]})) == []
    assert list(compaction_faults(TOLD, {0: [Found(0, b"k0", b"0:0"), last]})) == []


def test_a_key_without_its_last_record_is_a_fault():
    """Compaction has removed too much, or an old replica leads."""
    assert "key b'k0' ends at 0, and 7 was acknowledged" in next(
        compaction_faults(TOLD, {0: [Found(0, b"k0", b"0:0")]})
    )
    assert "1 records are not those acknowledged" in next(compaction_faults(TOLD, {0: [Found(7, b"k0", b"0:1")]}))
