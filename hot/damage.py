"""Deciding what a bad batch means, and saving what would be lost with it."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from stratalog.hot.loaded import RecoveryReport
from stratalog.hot.quarantine import Quarantine
from stratalog.hot.scan import Damage, scan_headers
from stratalog.hot.segment import SUFFIXES, Segment
from stratalog.wire.batch import (
    BATCH_HEADER,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    check_batch,
)
from stratalog.wire.errors import Corrupt

__all__ = ["empty_batch", "find_batch", "keep_damaged", "misplaced"]

_SEARCH_BYTES_MAX: Final = 64 << 20
_MAGIC_POSITION: Final = 16
_MAGIC: Final = b"\x02"


def find_batch(data: bytes, offset: int) -> int | None:
    """The offset behind the last whole, valid batch anywhere in ``data`` above ``offset``; None if there is none.

    Batches are searched at every byte, so that a hole of zeroes or a flipped length does not hide them.
    """
    found = None
    at = data.find(_MAGIC, _MAGIC_POSITION)
    while at >= 0:
        start = at - _MAGIC_POSITION
        at += 1
        if start + HEADER_BYTES <= len(data):
            base_offset, length, *_ = BATCH_HEADER.unpack_from(data, start)
            end = start + LOG_OVERHEAD_BYTES + length
            if offset <= base_offset and end - start >= HEADER_BYTES and end <= len(data):
                try:
                    header = check_batch(data, start)
                except Corrupt:
                    header = None  # bytes that only looked like a header
                if header is not None:
                    found = header.next_offset
                    at = end + _MAGIC_POSITION
        at = data.find(_MAGIC, at)
    return found


def empty_batch(base_offset: int, end_offset: int, leader_epoch: int) -> bytearray:
    """A batch without records that stands for ``[base_offset, end_offset)``: the form in which Kafka's cleaner keeps
    offsets whose records are gone. Every client steps over it.
    """
    batch = bytearray(HEADER_BYTES)
    fields = (NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 0)
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES
    for crc in (0, None):
        value = crc32c(memoryview(batch)[CRC_START:]) if crc is None else crc
        BATCH_HEADER.pack_into(
            batch, 0, base_offset, length, leader_epoch, _MAGIC[0], value, 0, end_offset - base_offset - 1, *fields
        )
    return batch


def keep_damaged(
    quarantine: Quarantine,
    report: RecoveryReport,
    segments: list[Segment],
    number: int,
    damage: Damage,
    end_offset: int,
    recovery_point: int,
) -> int:
    """Segment ``number`` is bad from ``damage`` on, where offset ``end_offset`` was expected.

    A torn tail is only counted. Anything more is copied (the rest of this segment) or moved (the later ones) to
    quarantine. Returns the offset at which the log may go on: ``end_offset``, or above every flushed offset that
    is lost. Raises `OSError`.
    """
    segment = segments[number]
    cut_bytes = segment.size_bytes - damage.position
    rest = segment.file.pread(min(cut_bytes, _SEARCH_BYTES_MAX), damage.position)
    later_end = find_batch(rest, end_offset)
    lost_flushed = end_offset < recovery_point
    if later_end is None and not lost_flushed and number + 1 == len(segments):
        report.truncated_bytes = cut_bytes
        return end_offset
    reason = f"offset {end_offset} of {segment.path()}, position {damage.position}: {damage.reason}"
    report.damaged_offset, report.reason = end_offset, reason
    name = f"{segment.base_offset:020d}.log.from-{damage.position}"
    if cut_bytes:
        quarantine.keep(
            name, rest if len(rest) == cut_bytes else segment.file.pread(cut_bytes, damage.position), reason
        )
    resume = end_offset
    if lost_flushed:
        resume = max(recovery_point, later_end or 0, *map(_end_of, segments[number:]))
    report.resume_offset = resume
    for later in reversed(segments[number + 1 :]):
        names = [f"{later.base_offset:020d}{suffix}" for suffix in SUFFIXES]
        quarantine.move(names, f"it follows {reason}")
    return resume


def _end_of(segment: Segment) -> int:
    """The first offset behind a segment, as far as its headers can be followed."""
    end = segment.next_offset
    for _, header in scan_headers(segment.file, 0, segment.size_bytes):
        end = max(end, header.next_offset)
    return end


def misplaced(header: BatchHeader, limit: int, latest_epoch: int) -> str:
    """Why a valid batch cannot stand here: an old block that came back, for example. Empty if it can."""
    if header.last_offset > limit:
        return f"offset {header.last_offset} lies beyond the segment's end {limit}"
    if 0 <= header.partition_leader_epoch < latest_epoch:
        return f"leader epoch {header.partition_leader_epoch} follows epoch {latest_epoch}"
    return ""
