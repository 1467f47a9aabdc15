"""The ranges of a log that its disk has lost: named, found while it is open, and cut off to be copied again."""

from __future__ import annotations

from typing import Final

from stratalog.hot.log.parts import LogParts
from stratalog.hot.log.truncate import truncate_to
from stratalog.hot.recovery.missing import MissingPlace, MissingRange, missing_range
from stratalog.hot.recovery.opening import RecoveryReport
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.recovery.set_aside import SetAside
from stratalog.hot.segments.scan import UnreadableBatch
from stratalog.hot.segments.segment import Segment

__all__ = ["cut_before_damage", "missing_ranges", "set_aside"]

_KEPT_BYTES_MAX: Final = 8 << 20
"""The bytes from the damage on that are kept: as a rule more than the largest batch. The rest is whole in other replicas."""


def missing_ranges(parts: LogParts, report: RecoveryReport) -> list[MissingRange]:
    """The ranges that cannot be read from the disk, in the order in which they were found."""
    return [missing_range(one) for one in _present(parts, report) if one.next_offset > parts.start.offset]


def _present(parts: LogParts, report: RecoveryReport) -> list[Segment]:
    segments = parts.segments
    found = [one for one in report.missing if segments[segments.floor(one.base_offset)] is one]
    return [one for one in found if one.missing is not None]


def set_aside(
    parts: LogParts, report: RecoveryReport, damage: UnreadableBatch, *, rolls: bool = False
) -> MissingRange | None:
    """Serve a frozen segment up to its first bad batch. Returns the missing range or None. Raises `OSError`.

    ``rolls``: the active one, too, which is frozen for that: what follows the bad batch in it is missing as well.
    """
    place = parts.place
    if rolls and damage.path == parts.segments.active.path():
        parts.tail.roll()
    missing = MissingPlace(place.files, place.directory, place.config, place.cache)
    segment = SetAside(missing, parts.segments, parts.gaps.below).carry_out(damage)
    if segment is None:
        return None
    report.missing.append(segment)
    return missing_range(segment)


def cut_before_damage(parts: LogParts, report: RecoveryReport, now_ms: int) -> str | None:
    """Cut the log where its first missing range begins; returns the directory that keeps the damaged bytes.

    None if they are kept already, or are gone. Durable on return; a crash leaves the range as it was, or the log cut.
    Raises `OSError`.
    """
    segments, place = parts.segments, parts.place
    present = _present(parts, report)
    if not present:
        return None
    first = min(present, key=lambda one: one.base_offset)
    quarantine = Quarantine(place.files, place.directory, now_ms)
    number = segments.floor(first.base_offset)
    for segment in segments[max(number - 1, 0) : number + 1]:
        _keep_rest(parts, quarantine, segment, first.missing or "")
    truncate_to(parts, first.base_offset)
    return quarantine.directory


def _keep_rest(parts: LogParts, quarantine: Quarantine, segment: Segment, why: str) -> None:
    """Keep the bytes behind the end of a segment, where a reader met damage while the log was open."""
    try:
        file = parts.place.files.open_read(segment.path())
    except FileNotFoundError:
        return
    rest_bytes = min(file.size_bytes() - segment.written_bytes, _KEPT_BYTES_MAX)
    if rest_bytes > 0:
        name = f"{segment.base_offset:020d}.log.from-{segment.written_bytes}"
        quarantine.keep(name, file, segment.written_bytes, rest_bytes, why)
