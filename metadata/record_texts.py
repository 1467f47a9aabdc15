"""Whether a coordinator's log can hold what a client says.

Requests carry texts of any length since their flexible versions; the keys of a coordinator's records, and the value of a
classic group, carry at most `TEXT_BYTES_MAX` bytes. A text that does not fit is refused before anything has changed: a
state whose record cannot be written would be in memory alone.
"""

from __future__ import annotations

from typing import Final

from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["TEXT_BYTES_MAX", "WRITE_BYTES_MAX", "check_text"]

TEXT_BYTES_MAX: Final = 32_767
"""The largest int16 length."""

WRITE_BYTES_MAX: Final = 1 << 26
"""The most bytes that one request may have written, less than a segment of a coordinator's log: an append that is
refused costs the whole shard its state. A key repeats the group's id, so that a small request may ask for very much.
"""

_UTF8_BYTES_MAX: Final = 4


def check_text(name: str, text: str | None, spare_bytes: int = 0) -> None:
    """Raises INVALID_REQUEST for a text too long for a record; ``spare_bytes`` are still to be appended to it."""
    bytes_max = TEXT_BYTES_MAX - spare_bytes
    if text is None or _UTF8_BYTES_MAX * len(text) <= bytes_max:
        return
    if len(text.encode()) > bytes_max:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has more than {bytes_max} bytes.")
