"""CRC-32C of joined data from the CRCs of its parts, without reading them again. Pure.

The CRC of a part is a polynomial over GF(2) modulo Castagnoli's; bytes behind it multiply it by a power of x, and what
those bytes are is added (Mark Adler's method, as in zlib's ``crc32_combine``).
"""

from __future__ import annotations

from typing import Final

__all__ = ["combine_crc32c"]

_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, reflected (RFC 3720, appendix B.4): bit 31 is the coefficient of x to the 0th."""
_ONE: Final = 1 << 31
_BYTE_DOUBLINGS: Final = 3
"""A byte is x to the 8th: its doubling in the table is the third."""


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo Castagnoli's."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


def _doublings() -> tuple[int, ...]:
    """The powers 1, 2, 4, 8 ... of x that a length of 64 bits can ask for."""
    powers = [_ONE >> 1]
    while len(powers) < 64 + _BYTE_DOUBLINGS:
        powers.append(_multiply(powers[-1], powers[-1]))
    return tuple(powers)


_POWERS: Final = _doublings()


def combine_crc32c(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32C of two parts joined; ``second`` is that of the latter, which has ``second_bytes``."""
    shift = _ONE
    power = _BYTE_DOUBLINGS
    while second_bytes:
        if second_bytes & 1:
            shift = _multiply(_POWERS[power], shift)
        second_bytes >>= 1
        power += 1
    return _multiply(shift, first) ^ second
