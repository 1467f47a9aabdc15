"""The wire types that messages are made of, and the variable-length integers they share.

Every number is big-endian. An unsigned varint holds seven bits a byte, lowest first, in at most five bytes
(KIP-482); the varints of records are zigzag and live in :mod:`stratalog.wire.batch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct as Packer
from typing import Annotated, Any, Final

import msgspec

from stratalog.wire.errors import Invalid
from stratalog.wire.parts import FileSlice, Part

__all__ = [
    "LONG_MAX",
    "LONG_MIN",
    "SMALL_VARINTS",
    "Bool",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "ReceivedRecords",
    "Records",
    "Scalar",
    "Uint16",
    "Uint32",
    "Uuid",
    "list_packer",
    "read_unsigned_varint",
    "records_length",
    "unsigned_varint",
    "wrapped",
]

Buffer = bytes | bytearray | memoryview

LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1

_VARINT_BYTES_MAX: Final = 5


class DecodeError(Invalid):
    """Bytes that are not the message they claim to be: truncated, over a limit, or null where null is not allowed."""


class EncodeError(Invalid):
    """An object that its message version cannot carry: a missing value, a wrong type, a number out of range."""


class Scalar(msgspec.Struct, frozen=True):
    """How one value that is no list and no struct stands on the wire.

    ``code`` is its :mod:`struct` format character, or empty when the length varies. ``default`` is what Kafka
    gives a field that declares none.
    """

    name: str
    code: str
    size_bytes: int
    default: object


Bool = Annotated[bool, Scalar("bool", "?", 1, False)]
Int8 = Annotated[int, Scalar("int8", "b", 1, 0)]
Int16 = Annotated[int, Scalar("int16", "h", 2, 0)]
Int32 = Annotated[int, Scalar("int32", "i", 4, 0)]
Int64 = Annotated[int, Scalar("int64", "q", 8, 0)]
Uint16 = Annotated[int, Scalar("uint16", "H", 2, 0)]
Uint32 = Annotated[int, Scalar("uint32", "I", 4, 0)]
Float64 = Annotated[float, Scalar("float64", "d", 8, 0.0)]
Uuid = Annotated[bytes, Scalar("uuid", "16s", 16, bytes(16))]
_RECORDS: Final = Scalar("records", "", 0, None)
Records = Annotated[Part | Sequence[Part], _RECORDS]
"""Record batches to send: one part or several in order."""
ReceivedRecords = Annotated[memoryview, _RECORDS]
"""Record batches as they arrive: a view of the receive buffer, nothing copied. Any buffer may be sent."""

TEXT: Final = Scalar("string", "", 0, "")
BLOB: Final = Scalar("bytes", "", 0, b"")

SMALL_VARINTS: Final = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte, by value: most lengths are one of these."""


def unsigned_varint(value: int) -> bytes:
    """``value`` as an unsigned varint. Raises `EncodeError` below 0 and from 2**32 on."""
    if not 0 <= value < 1 << 32:
        raise EncodeError(f"{value} does not fit an unsigned varint of 32 bits")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The varint at ``position`` and the position behind it. Raises `DecodeError` if it is cut off or too long."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(buffer):
            raise DecodeError(f"a varint at byte {position} is cut off by the end, {len(buffer)} bytes")
        byte = buffer[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >= 1 << 32:
                break
            return value, position + index + 1
    raise DecodeError(f"the varint at byte {position} is larger than 32 bits")


def wrapped(value: int) -> int:
    """The signed number that 64 bits of ``value`` are: what Java's arithmetic makes of it."""
    return (value - LONG_MIN) % (1 << 64) + LONG_MIN


@lru_cache(maxsize=256)
def list_packer(code: str, count: int) -> Packer:
    """The compiled format of ``count`` values of ``code``. Repeat counts cost nothing, so ``count`` may be large."""
    return Packer(f">{count}{code}")


def records_length(records: Any) -> int:
    """The bytes of one part or of a list of parts. Raises `TypeError` for anything else."""
    if isinstance(records, bytes | bytearray | memoryview | FileSlice):
        return len(records)
    if isinstance(records, str):
        raise TypeError("records are bytes or file slices, not text")
    size = 0
    for part in records:
        size += part.length if part.__class__ is FileSlice else records_length(part)
    return size
