"""JSON from the bucket: bounded in size and depth, so that a writer there cannot exhaust a reader's memory.

A compressed document of three kilobytes may hold 32 MiB of empty objects, which are 800 MiB of Python's.
"""

from __future__ import annotations

import json
from typing import Any, Final

import zstandard

from stratalog.wire.errors import Corrupt

__all__ = ["DOCUMENT_BYTES_MAX", "LISTING_BYTES_MAX", "decompressed", "parse_json"]

DOCUMENT_BYTES_MAX: Final = 16 << 20
"""No document is larger, unless something that is believed says so: a manifest of a thousand entries has half a MiB."""
LISTING_BYTES_MAX: Final = 256 << 20
"""Documents with a row for every partition or group of a cluster; they lie in the bucket uncompressed."""


def parse_json(
    data: bytes | memoryview, key: str, *, limit_bytes: int = DOCUMENT_BYTES_MAX, objects_max: int | None = None
) -> Any:
    """The value that the JSON text ``data`` describes; ``key`` is for messages.

    Raises `Corrupt` for what is no JSON, is nested too deeply, has more than ``limit_bytes`` or holds more than
    ``objects_max`` objects.
    """
    if len(data) > limit_bytes:
        raise Corrupt(f"{key} has {len(data)} bytes of JSON, more than the {limit_bytes} that such a document can have")
    text = bytes(data)
    if objects_max is not None and (found := text.count(b"{")) > objects_max:
        raise Corrupt(f"{key} holds {found} objects, more than the {objects_max} that its entries can have")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise Corrupt(f"{key} is nested too deeply for a document of stratalog") from error
    except ValueError as error:
        raise Corrupt(f"{key} is no JSON: {error}") from error


def decompressed(data: bytes, key: str, limit_bytes: int = DOCUMENT_BYTES_MAX) -> bytes:
    """Unpack a zstd frame that tells its size; ``key`` is for messages.

    Raises `Corrupt` for a damaged frame and one that claims more than ``limit_bytes``, before anything is allocated.
    """
    try:
        size_bytes = zstandard.frame_content_size(data)
        if not 0 <= size_bytes <= limit_bytes:
            raise Corrupt(f"{key} is damaged: it claims to hold {size_bytes} bytes, it can hold at most {limit_bytes}")
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise Corrupt(f"{key} is damaged: {error}") from error
