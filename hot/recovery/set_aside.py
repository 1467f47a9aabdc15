"""Setting the damaged part of a frozen segment aside: what is sound before it stays, the rest is a missing range.

Opening a log copies the damaged bytes to quarantine and cuts them off. A reader of an open log must not wait for that.
So `SetAside` changes what is read from then on, and leaves the bytes where they are until the next start, which finds
them behind the end of their segment and keeps them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from stratalog.hot.recovery.damage import misplaced
from stratalog.hot.recovery.missing import MissingPlace, missing_segment
from stratalog.hot.segments.index import OffsetIndex
from stratalog.hot.segments.scan import Damage, UnreadableBatch, scan_borders, scan_checked
from stratalog.hot.segments.segment import Segment
from stratalog.hot.segments.segments import SegmentList
from stratalog.hot.storage.filesystem import File
from stratalog.wire.errors import Corrupt

__all__ = ["SetAside", "SoundPart", "sound_part"]


_BASE_OFFSET_BYTES: Final = 8


class SoundPart(NamedTuple):
    """The part of a segment before its first bad batch. ``why`` is empty if there is none."""

    end_position: int
    end_offset: int
    why: str


def sound_part(
    file: File, size_bytes: int, segment: Segment, gaps_below: int, *, start: int = 0, due: int | None = None
) -> SoundPart:
    """Verify the batches from position ``start``, where offset ``due`` is next, to ``size_bytes``. Raises `OSError`.

    No CRC covers a base offset. So where offsets go back behind a gap, the batch that was before them is the one that moved.
    """
    position, due = before = start, segment.base_offset if due is None else due
    is_behind_gap = False
    for batch in scan_checked(file, start, size_bytes, due, gaps_below=gaps_below):
        if isinstance(batch, Damage):
            if is_behind_gap and before[1] <= _base_offset_at(file, batch.position) < due:
                position, due = before
            return SoundPart(position, due, batch.reason)
        why = misplaced(batch.header, segment.next_offset - 1, -1)
        if why:
            return SoundPart(position, due, why)
        before, is_behind_gap = (position, due), batch.header.base_offset > due
        position, due = batch.position + batch.header.size_bytes, batch.header.next_offset
    return SoundPart(position, due, "")


def _base_offset_at(file: File, position: int) -> int:
    return int.from_bytes(file.pread(_BASE_OFFSET_BYTES, position), "big", signed=True)


class SetAside(Struct, frozen=True):
    """The open log whose damaged part is set aside."""

    place: MissingPlace
    segments: SegmentList
    gaps_below: int

    def carry_out(self, damage: UnreadableBatch) -> Segment | None:
        """The missing range that follows from what a reader met. Raises `OSError`.

        None for the active segment, or if no offset is missing: nothing is wrong, or what is lies behind the last batch.
        """
        number = next((at for at, one in enumerate(self.segments) if one.path() == damage.path), -1)
        segment = self.segments[number]
        if number < 0 or not segment.frozen or segment.name_suffix or segment.missing is not None:
            return None
        sound = self._sound_part(segment, damage)
        if not sound.why:
            return None
        end_offset = segment.next_offset
        if sound.end_offset == end_offset:  # a range without offsets would have the files of the next segment
            segment.size_bytes = segment.written_bytes = sound.end_position
            self.place.cache.drop(segment)
            self.segments.forget_borders()
            return None
        why = f"{damage.path} is damaged at position {sound.end_position}: {sound.why}"
        missing = missing_segment(self.place, sound.end_offset, end_offset, why)
        self.place.cache.drop(segment)
        if sound.end_offset == segment.base_offset:
            self.segments.replace(number, 1, missing)
            return missing
        segment.next_offset = sound.end_offset
        segment.size_bytes = segment.written_bytes = sound.end_position
        self.segments.insert_behind(number, missing)
        return missing

    def _sound_part(self, segment: Segment, damage: UnreadableBatch) -> SoundPart:
        """By the last index entry before the damage: the batches before it are not read."""
        try:
            file = self.place.files.open_read(damage.path)
        except FileNotFoundError:
            return SoundPart(0, segment.base_offset, damage.why)
        size_bytes = min(file.size_bytes(), segment.written_bytes)
        start, due = self._indexed(file, size_bytes, segment, damage.position)
        end = size_bytes
        for position, batch_bytes, _, _ in scan_borders(file, start, size_bytes):
            end = position + batch_bytes
            if position >= damage.position:
                break
        else:
            end = size_bytes
        sound = sound_part(file, end, segment, self.gaps_below, start=start, due=due)
        if not sound.why and size_bytes < segment.written_bytes and end == size_bytes:
            return sound._replace(why=f"the file has {size_bytes} of {segment.written_bytes} bytes")
        return sound

    def _indexed(self, file: File, size_bytes: int, segment: Segment, position: int) -> tuple[int, int]:
        """Where to begin, and the offset that is due there: before ``position``, for the batch before it may have moved."""
        try:
            data = self.place.files.read_bytes(segment.path(".index"))
            offset, start = OffsetIndex.from_bytes(segment.base_offset, data).floor_at(position - 1)
        except (Corrupt, FileNotFoundError):
            return 0, segment.base_offset
        for _, _, base_offset, last_offset in scan_borders(file, start, size_bytes):
            if start and last_offset == offset and base_offset >= segment.base_offset:
                return start, base_offset
            break
        return 0, segment.base_offset
