"""Checksums as S3 writes them: CRC-32C as base64 of four big-endian bytes, MD5 as base64 of sixteen."""

from __future__ import annotations

import base64
import binascii
import hashlib

from stratalog.tier.stores.store import Buffer

__all__ = ["content_md5", "decode_crc32c", "encode_crc32c"]


def content_md5(data: Buffer) -> str:
    """Return the header value for the MD5 of a body: against damage on the way, not against people."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")


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
