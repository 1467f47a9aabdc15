"""CRC-32C as S3 writes it: base64 of four big-endian bytes."""

from __future__ import annotations

import base64
import binascii

__all__ = ["decode_crc32c", "encode_crc32c"]


def encode_crc32c(crc: int) -> str:
    """Return the header value for a CRC-32C."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def decode_crc32c(text: str | None) -> int | None:
    """Return the CRC-32C of a whole object, or ``None`` where the header says nothing about that.

    A multipart object may carry a composite value, a checksum of checksums marked by ``-<part count>``.
    """
    if not text or "-" in text:
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return int.from_bytes(raw, "big") if len(raw) == 4 else None
