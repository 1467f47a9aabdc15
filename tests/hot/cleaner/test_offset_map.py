"""Tests of hot/cleaner/offset_map.py."""

import os
import sys

from hypothesis import given
from hypothesis import strategies as st

from stratalog.hot.cleaner.offset_map import NEWEST, NEWEST_TOMBSTONE, SLOT_BYTES, OffsetMap

KEYS = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"\0", b"a", b"a\0", b"a" * 15, b"a" * 16, b"a" * 40]))


@given(st.lists(st.tuples(KEYS, st.integers(0, 2**62)), max_size=80))
def test_the_map_equals_a_dictionary(pairs):
    """Short keys and long ones, put again and again."""
    known: dict[bytes, int] = {}
    offset_map = OffsetMap(200 * SLOT_BYTES, 1.0)
    for key, offset in pairs:
        offset_map.put(key, offset)
        known[key] = offset
        assert offset_map.get(key) == offset
    assert {key: offset_map.get(key) for key in known} == known
    assert offset_map.count == len(known)
    assert offset_map.get(b"never put") == -1


def test_the_map_is_full_at_its_load_factor():
    """Known keys may still be put."""
    offset_map = OffsetMap(10 * SLOT_BYTES, 0.5)
    for number in range(5):
        assert not offset_map.is_full
        offset_map.put(b"%d" % number, number)
    assert offset_map.is_full
    offset_map.put(b"3", 9)
    assert (offset_map.count, offset_map.get(b"3")) == (5, 9)


def test_one_key_always_fits():
    """A buffer that is too small slows the cleaner down, it does not stop it."""
    assert OffsetMap(0, 0.9).limit == 1


def test_overlapping_fingerprints_are_kept_apart():
    """An entry is found at its own place, not across two others."""
    offset_map = OffsetMap(10 * SLOT_BYTES, 1.0, 0, 1)
    offset_map.put(b"", 0)
    offset_map.put(b"\0" * 7, 1)
    assert offset_map.get(b"\0" * 15) == -1
    offset_map.put(b"\0" * 8, 2)
    assert [offset_map.get(b"\0" * length) for length in (0, 7, 8)] == [0, 1, 2]


def test_memory_stays_within_the_buffer():
    """Buckets, entries and the room they grow in."""
    count = 20_000
    offset_map = OffsetMap(count * SLOT_BYTES, 1.0)
    for _ in range(count):
        offset_map.put(os.urandom(20), 1)
    buckets = offset_map._buckets
    used = sys.getsizeof(buckets) + sum(sys.getsizeof(bucket) for bucket in buckets)
    assert used <= count * SLOT_BYTES


def test_the_offset_table_answers_for_every_offset_of_the_section():
    """Which records are the newest of their keys, and which of those have no value."""
    offset_map = OffsetMap(1000, 1.0, 10, 16)
    for offset, key, tombstone in ((10, b"a", True), (11, b"b", False), (12, b"a", False), (13, b"c", True)):
        offset_map.put(key, offset)
        if tombstone:
            offset_map.note_tombstone(offset)
        offset_map.latest_offset = offset
    offset_map.close()
    marks = offset_map.marks(10, 13)
    assert [mark == NEWEST for mark in marks] == [False, True, True, False]
    assert [mark == NEWEST_TOMBSTONE for mark in marks] == [False, False, False, True]
    assert offset_map.marks(9, 13) is offset_map.marks(10, 14) is None


def test_a_section_that_is_too_long_has_no_table():
    """Keys come first: the table gets an eighth of the buffer at most, and what it takes is not theirs."""
    assert OffsetMap(8000, 1.0, 0, 1001).limit == 8000 // SLOT_BYTES
    assert OffsetMap(8000, 1.0, 0, 1000).limit == 7000 // SLOT_BYTES
    without = OffsetMap(8000, 1.0, 0, 1001)
    without.note_tombstone(5)
    without.latest_offset = 1000
    without.close()
    assert without.marks(0, 10) is None
