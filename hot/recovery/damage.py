"""Deciding what a bad batch means, and saving what would be lost with it."""

from __future__ import annotations

from typing import Final, NamedTuple

from crc32c import crc32c

from stratalog.hot.recovery.opening import RecoveryReport
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.segments.scan import Damage
from stratalog.hot.segments.segment import RELATIVE_OFFSET_MAX, SUFFIXES, Segment
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
)
from stratalog.wire.errors import Corrupt

__all__ = ["Placing", "empty_batch", "find_batch", "keep_damaged", "misplaced", "refusal"]

_SEARCH_BYTES_MAX: Final = 64 << 20
_CHECKED_BYTES_MAX: Final = 4 * _SEARCH_BYTES_MAX
"""How much is put through CRCs in one search: bytes that look like headers everywhere must not hold up a start."""
_CRC_FIELD: Final = 4
_DELTA_FIELD: Final = 6
_MAGIC_POSITION: Final = 16
_MAGIC: Final = b"\x02"
_DELTA_MAX: Final = (1 << 31) - 1
_NO_LEADER_EPOCH: Final = -1


class Placing(NamedTuple):
    """Bounds for the offsets that the batches of a segment may claim, as far as other files tell them."""

    next_offset: int
    """The first that is not given out yet."""
    gaps_below: int
    """Offsets below this one may be missing: the cleaner may have been there."""
    limit: int
    """The last one that the segment may hold."""


def find_batch(data: bytes, place: Placing) -> int | None:
    """The offset behind the last whole, valid batch anywhere in ``data``; None if there is none.

    Batches are searched at every byte, so that a hole of zeroes or a flipped length does not hide them. The CRC does
    not cover base offsets. So one is believed no further than its place allows: a batch that follows another one
    begins where that one ends, unless there may be gaps; any other lies above ``place.next_offset`` and, by a
    segment's worth of offsets at most, not far from it.
    """
    found = None
    next_offset, position, follows, left_bytes = place.next_offset, 0, True, _CHECKED_BYTES_MAX
    while left_bytes > 0:
        header = _header_at(data, position)
        if header is not None:
            base_offset = header.base_offset
            fits = next_offset <= base_offset <= min(place.limit, next_offset + _DELTA_MAX)
            if fits and follows:
                fits = base_offset == next_offset or base_offset <= place.gaps_below
            if fits or follows:
                left_bytes -= header.size_bytes
                if _has_its_crc(data, position, header):
                    found = next_offset = (base_offset if fits else next_offset) + header.last_offset_delta + 1
                    position, follows = position + header.size_bytes, True
                    continue
        if follows and _has_the_crc_of_the_rest(data, position):
            return next_offset + int(BATCH_HEADER.unpack_from(data, position)[_DELTA_FIELD]) + 1
        at = data.find(_MAGIC, position + _MAGIC_POSITION + 1)
        if at < 0:
            break
        position, follows = at - _MAGIC_POSITION, False
    return found


def _header_at(data: bytes, position: int) -> BatchHeader | None:
    """Bytes that look like the header of a batch that is there as a whole."""
    if position + HEADER_BYTES > len(data):
        return None
    header = BatchHeader._make(BATCH_HEADER.unpack_from(data, position))
    sound = header.magic == _MAGIC[0] and header.batch_length >= HEADER_BYTES - LOG_OVERHEAD_BYTES
    whole = position + header.size_bytes <= len(data) and header.last_offset_delta >= 0
    return header if sound and whole else None


def _is_cut_short(data: bytes) -> bool:
    """Whether a stop in the middle of a write leaves this: less than a header claims, or a header not written at all.

    Any other header that cannot be, a negative offset delta for example, was changed since.
    """
    if not any(data[:HEADER_BYTES]) or len(data) < HEADER_BYTES:
        return True
    return BatchHeader._make(BATCH_HEADER.unpack_from(data, 0)).size_bytes > len(data)


def _has_the_crc_of_the_rest(data: bytes, position: int) -> bool:
    """Whether all that is left is one batch but for its length, which no CRC covers."""
    if position + HEADER_BYTES > len(data):
        return False
    fields = BATCH_HEADER.unpack_from(data, position)
    return bool(fields[_DELTA_FIELD] >= 0 and fields[_CRC_FIELD] == crc32c(memoryview(data)[position + CRC_START :]))


def _has_its_crc(data: bytes, position: int, header: BatchHeader) -> bool:
    return crc32c(memoryview(data)[position + CRC_START : position + header.size_bytes]) == header.crc


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
    place: Placing,
    recovery_point: int,
    *,
    refuse: bool = False,
) -> int:
    """Segment ``number`` is bad from ``damage`` on, where offset ``place.next_offset`` was expected.

    The rest of this segment is copied to quarantine, the later ones are moved there. A tail behind which nothing good
    comes, above the recovery point, may be what a stop left half written, or bytes that were changed since: it is kept
    as well, but reported as a tail. Zeroes alone are not kept. Returns the offset at which the log may go on:
    ``place.next_offset``, or above every flushed offset that is lost. Raises `OSError`, and with ``refuse`` `Corrupt`
    for more than a tail, before anything is changed.
    """
    segment, end_offset = segments[number], place.next_offset
    cut_bytes = segment.size_bytes - damage.position
    rest = segment.file.pread(min(cut_bytes, _SEARCH_BYTES_MAX), damage.position)
    later_end = find_batch(rest, place)
    lost_flushed = end_offset < recovery_point
    reason = f"offset {end_offset} of {segment.path()}, position {damage.position}: {damage.reason}"
    tail = later_end is None and not lost_flushed and number + 1 == len(segments)
    if refuse and not tail:
        raise refusal(reason)
    if cut_bytes > len(rest) or rest.count(0) < cut_bytes:
        name = f"{segment.base_offset:020d}.log.from-{damage.position}"
        quarantine.keep(name, segment.file, damage.position, cut_bytes, reason)
    if tail:
        report.truncated_bytes = cut_bytes
        if quarantine.directory is not None:
            report.tail_offset, report.reason = end_offset, reason
            report.tail_is_short = _is_cut_short(rest)
        return end_offset
    report.damaged_offset, report.reason, report.has_lost_flushed = end_offset, reason, lost_flushed
    resume = end_offset
    if lost_flushed:
        resume = max(recovery_point, later_end or 0, _end_behind(segments[number + 1 :], place))
    report.resume_offset = resume
    for later in reversed(segments[number + 1 :]):
        names = [f"{later.base_offset:020d}{suffix}" for suffix in SUFFIXES]
        quarantine.move(names, f"it follows {reason}")
    return resume


def refusal(reason: str) -> Corrupt:
    """The error where a damaged log is not to be put in order by leaving something out."""
    return Corrupt(f"{reason}: records are lost; restore the directory from a copy, nothing was changed in it")


def _end_behind(later: list[Segment], place: Placing) -> int:
    """The first offset behind the segments after a damaged one: all but the last end where the next one begins."""
    if not later:
        return 0
    last = later[-1]
    data = last.file.pread(min(last.size_bytes, _SEARCH_BYTES_MAX), 0)
    found = find_batch(data, Placing(last.base_offset, place.gaps_below, last.base_offset + RELATIVE_OFFSET_MAX))
    return max(last.base_offset, found or 0)


def misplaced(header: BatchHeader, limit: int, latest_epoch: int, epoch_max: int = _DELTA_MAX) -> str:
    """Why a valid batch cannot stand here: an old block that came back, for example. Empty if it can.

    ``limit`` is the segment's last offset, ``epoch_max`` the newest leader epoch that there can be.
    """
    epoch = header.partition_leader_epoch
    if header.last_offset > limit:
        return f"offset {header.last_offset} lies beyond the segment's end {limit}"
    if 0 <= epoch < latest_epoch:
        return f"leader epoch {epoch} follows epoch {latest_epoch}"
    if epoch > max(epoch_max, latest_epoch) or epoch < _NO_LEADER_EPOCH:
        return f"leader epoch {epoch} cannot be, the newest one is {max(epoch_max, latest_epoch)}"
    return ""
