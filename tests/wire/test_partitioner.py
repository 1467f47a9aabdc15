"""Hashes of keys and of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.partitioner import coordinator_partition, java_string_hash, murmur2, partition_of_key


@pytest.mark.parametrize(("key", "partition"), [("AA", 3), ("UA", 4), ("DL", 5), ("B6", 0)])
def test_keys_land_where_javas_murmur2_puts_them(key, partition):
    """With 6 partitions: AA → 3, UA → 4, DL → 5, B6 → 0."""
    assert partition_of_key(key.encode(), 6) == partition


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_kafkas_own_test_lists(data, signed):
    """Known answers, as signed numbers."""
    assert murmur2(data) == signed & 0xFFFFFFFF


@pytest.mark.parametrize(("group", "partition"), [("my-group", 12), ("flights", 9), ("g1", 42)])
def test_coordinator_partition_is_the_java_string_hash_of_50(group, partition):
    """my-group → 12, flights → 9, g1 → 42."""
    assert coordinator_partition(group, 50) == partition


def test_the_smallest_hash_counts_as_zero():
    """abs(Integer.MIN_VALUE) is 0: this name hashes to -2147483648."""
    assert java_string_hash("polygenelubricants") == -(1 << 31)
    assert coordinator_partition("polygenelubricants", 50) == 0


def test_the_hash_is_over_utf_16_units():
    """A character beyond the basic plane counts as two, as in Java."""
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00
    assert java_string_hash("") == 0


@given(st.text(), st.integers(1, 1000))
def test_every_name_has_a_partition(name, count):
    """The partition is always one of those there are."""
    assert 0 <= coordinator_partition(name, count) < count
    assert 0 <= partition_of_key(name.encode("utf-8", "surrogatepass"), count) < count
