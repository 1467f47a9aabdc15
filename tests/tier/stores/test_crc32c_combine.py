from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.crc32c_combine import combine_crc32c


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_the_crc_of_joined_parts_is_that_of_all_bytes(parts):
    """Parts of any length, empty ones too, give what one pass over all of them gives."""
    crc = 0
    for part in parts:
        crc = combine_crc32c(crc, crc32c(part), len(part))
    assert crc == crc32c(b"".join(parts))


def test_long_parts_count_with_their_whole_length():
    """A part of more bytes than fit sixteen bits moves the first one's CRC as far."""
    first, second = b"first", bytes(range(256)) * 700
    assert combine_crc32c(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)
