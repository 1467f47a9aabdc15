from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.stores.s3.checksum import decode_crc32c, encode_crc32c
from stratalog.tier.stores.source import crc32c_of


@given(st.integers(0, 2**32 - 1))
def test_the_header_makes_the_round_trip(crc):
    """Every CRC-32C is read back from its header."""
    assert decode_crc32c(encode_crc32c(crc)) == crc


def test_the_check_value_of_the_polynomial():
    """CRC-32C of "123456789" is e3069283 (RFC 3720, B.4 polynomial), four big-endian bytes in base64."""
    assert crc32c_of(b"123456789") == 0xE3069283
    assert encode_crc32c(0xE3069283) == "4waSgw=="


@pytest.mark.parametrize("text", [None, "", "4waSgw==-2", "4waS", "!!!!!!==", "4waSgwAA"])
def test_other_headers_say_nothing(text):
    """A composite checksum, a missing one and noise are not taken for the object's CRC-32C."""
    assert decode_crc32c(text) is None
