"""Computes how far retention moves the log start of a tiered topic. Pure.

The archive's ranges and what is local beyond them count once each: overlapping copies are never added (rule 6;
KAFKA-20732 is what happens otherwise). Whole ranges only, oldest first, by the newest record time in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["RetainedRange", "log_start_after_retention"]


class RetainedRange(NamedTuple):
    """One archived object or one frozen local segment beyond the archive. ``max_timestamp_ms`` is -1 if unknown."""

    base: int
    end: int
    size_bytes: int
    max_timestamp_ms: int


def log_start_after_retention(
    ranges: Iterable[RetainedRange],
    *,
    log_start_offset: int,
    high_watermark: int,
    total_bytes: int,
    retention_ms: int,
    retention_bytes: int,
    now_ms: int,
) -> int:
    """The new log start: the end of the last range that must go, or ``log_start_offset``.

    ``ranges`` follow each other and are only walked as far as they go: there may be very many. ``total_bytes`` are
    those of all that end behind ``log_start_offset``, and of what lies behind them. Negative limits are no limits. A range
    without a known time, as one that a disk has lost for good, is taken to be as old as what follows.
    """
    excess_bytes = total_bytes - retention_bytes if retention_bytes >= 0 else -1
    start = log_start_offset
    for one in ranges:
        if one.end <= log_start_offset:
            continue
        expired = retention_ms >= 0 and 0 <= one.max_timestamp_ms < now_ms - retention_ms
        oversized = excess_bytes >= one.size_bytes > 0 and retention_bytes >= 0
        if one.end > high_watermark:
            break
        excess_bytes -= one.size_bytes
        if expired or oversized:
            start = one.end
        elif retention_ms < 0 or one.max_timestamp_ms >= 0:
            break
    return start
