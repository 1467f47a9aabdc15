"""Handles damaged frozen segments when a log opens: the sound part stays, the rest goes to quarantine.

The offsets that are missing then are a range of their own (`hot.recovery.missing`). Segments behind it stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct, field

from stratalog.hot.recovery.damage import refusal
from stratalog.hot.recovery.frozen_check import suspicion
from stratalog.hot.recovery.missing import MissingPlace, mark_missing, missing_segment, noted_reason
from stratalog.hot.recovery.opening import OpenRequest, RecoveryReport
from stratalog.hot.recovery.quarantine import Quarantine
from stratalog.hot.recovery.set_aside import SoundPart, sound_part
from stratalog.hot.segments.segment import SUFFIXES, Segment, segment_path

__all__ = ["FrozenDamage"]

_GONE: Final = "the file is gone"


class FrozenDamage(Struct):
    """One log that is being opened. ``lost`` are the base offsets of segments whose ``.log`` is gone."""

    request: OpenRequest
    quarantine: Quarantine
    report: RecoveryReport
    gaps_below: int
    border_gaps_below: int
    lost: Sequence[int] = ()
    noted: Collection[int] = ()
    """The base offsets of missing ranges that have a note."""
    unsynced: list[str] = field(default_factory=list)
    """Paths of indexes that were built anew."""
    changed: bool = False

    def checked(self, segments: Sequence[Segment], verified_from: int | None) -> list[Segment]:
        """All segments, and the ranges that are missing. Raises `OSError`, and `Corrupt` if damage is to be refused.

        Segments that begin at ``verified_from`` or above are read by the recovery: of them notes are believed here, and
        an end is looked for that reading cannot tell from a gap.
        """
        found = self._before(segments)
        for segment in segments[:-1]:
            trusted = verified_from is not None and segment.base_offset >= verified_from
            found += self._pieces(segment, trusted=trusted)
        return [*found, *segments[-1:]]

    def _before(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the offsets that are gone in front of the first segment, above the log start."""
        first = segments[0].base_offset if segments else 0
        bases = [base for base in self.lost if base < first]
        wanted = [pair for pair in pairwise([*bases, first]) if pair[1] > self.request.log_start_offset]
        return [self._missing(base, end, self._gone(base)) for base, end in wanted]

    def _pieces(self, segment: Segment, *, trusted: bool) -> list[Segment]:
        request, end = self.request, segment.next_offset
        noted = segment.base_offset in self.noted
        if noted and segment.size_bytes:  # a reader met damage at its first batch
            why = noted_reason(request.files, segment) or segment.path()
            return self.cut_out(segment, SoundPart(0, segment.base_offset, why), why)
        if (noted or not trusted) and mark_missing(request.files, segment, self.border_gaps_below):
            if request.refuse_damage:
                raise refusal(f"{segment.path()}: {segment.missing}")
            self.report.missing.append(segment)
            return [segment]
        gone = [base for base in self.lost if segment.base_offset < base < end]
        if gone and self.border_gaps_below >= end:  # elsewhere the batches of this segment tell
            segment.next_offset = gone[0]
            return [*self._pieces(segment, trusted=trusted), *self._ranges(gone, end)]
        if trusted and (end > self.border_gaps_below or not request.config.remote_storage_enable):
            return [segment]
        suspected = suspicion(request, segment, self.gaps_below, self.border_gaps_below)
        if suspected is None or (trusted and not suspected.certain):
            return [segment]
        sound = sound_part(segment.file, segment.size_bytes, segment, self.gaps_below)
        whole = not sound.why and (sound.end_offset == end or end <= self.border_gaps_below)
        if whole and not suspected.certain:
            self._rebuild(segment)
            self.report.frozen_indexes_rebuilt.append(segment.path(""))
            return [segment]
        why = f"{segment.path()} is damaged at position {sound.end_position}: {sound.why or suspected.why}"
        return self.cut_out(segment, sound, why)

    def cut_out(self, segment: Segment, sound: SoundPart, why: str) -> list[Segment]:
        """The sound part of a segment, and the missing range behind it; the bytes of that are kept, then cut off.

        Raises `OSError`, and `Corrupt` if damage is to be refused.
        """
        request, end = self.request, segment.next_offset
        if request.refuse_damage:
            raise refusal(why)
        gone = [base for base in self.lost if sound.end_offset <= base < end]
        if gone[:1] == [sound.end_offset] and segment.size_bytes == sound.end_position:
            why = self._gone(gone[0])
        if segment.size_bytes > sound.end_position:
            name = f"{segment.base_offset:020d}.log.from-{sound.end_position}"
            self.quarantine.keep(name, segment.file, sound.end_position, segment.size_bytes - sound.end_position, why)
        kept = "" if self.quarantine.directory is None else f"; what was left is kept in {self.quarantine.directory}"
        first = [sound.end_offset] if gone[:1] != [sound.end_offset] and sound.end_offset < end else []
        pieces = self._ranges([*first, *gone], end, f"{why}{kept}")
        segment.known_aborted = None  # those whose markers are missing now stand in the file
        self._shorten(segment, sound, reindex=not gone)
        return pieces if sound.end_offset == segment.base_offset else [segment, *pieces]

    def _ranges(self, bases: Sequence[int], end: int, why: str = "") -> list[Segment]:
        return [
            self._missing(base, behind, why if why and base == bases[0] else self._gone(base))
            for base, behind in pairwise([*bases, end])
        ]

    def _missing(self, base_offset: int, end_offset: int, why: str) -> Segment:
        request = self.request
        if request.refuse_damage:
            raise refusal(why)
        if base_offset in self.lost:  # its index of aborted transactions stays: earlier segments need it
            self.quarantine.move([f"{base_offset:020d}{suffix}" for suffix in SUFFIXES[1:3]], why)
        place = MissingPlace(request.files, request.directory, request.config, request.cache)
        segment = missing_segment(place, base_offset, end_offset, why)
        self.report.missing.append(segment)
        self.changed = True
        return segment

    def _shorten(self, segment: Segment, sound: SoundPart, *, reindex: bool) -> None:
        """Cut off what is kept elsewhere, and store indexes that fit."""
        self.request.cache.drop(segment)
        cut = segment.size_bytes > sound.end_position
        if cut:
            file = self.request.files.open_append(segment.path())
            file.truncate(sound.end_position)
            file.fdatasync()
            file.close()
        segment.size_bytes = segment.written_bytes = sound.end_position
        segment.next_offset = sound.end_offset
        if sound.end_offset == segment.base_offset:
            for suffix in SUFFIXES[1:3]:
                self.request.files.unlink(segment.path(suffix))
        elif cut or reindex:
            self._rebuild(segment)

    def _rebuild(self, segment: Segment) -> None:
        segment.rebuild_indexes()
        self.request.cache.drop(segment)
        self.report.indexes_rebuilt.append(segment.base_offset)
        self.unsynced += [segment.path(suffix) for suffix in SUFFIXES[1:3]]
        self.changed = True

    def _gone(self, base_offset: int) -> str:
        return f"{segment_path(self.request.directory, base_offset, SUFFIXES[0])}: {_GONE}"

    def drop_orphans(self, segments: Iterable[Segment]) -> None:
        """Remove what is left of lost segments at which no range begins. Raises `OSError`."""
        bases = {segment.base_offset for segment in segments}
        for base in self.lost:
            if base not in bases:
                for suffix in SUFFIXES[1:]:
                    self.request.files.unlink(segment_path(self.request.directory, base, suffix))
