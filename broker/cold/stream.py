"""One reader on its way through an archive: which chunks to ask for where it stands, and ahead of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from stratalog.tier.objects.aborted_ranges import AbortedRanges
from stratalog.tier.reading.remote_log import GROUP_COUNT, ChunkRef, FetchPlan, RemoteLog
from stratalog.wire.topic import Uuid

__all__ = ["RemoteStream"]


class RemoteStream(Struct):
    """Where a reader goes on, when it was last here, and the chunks that are pinned for it.

    All chunks up to ``asked_offset`` were asked for ahead of it. ``planned`` is from which GET on how many bytes ahead
    that was: nothing is planned again until it moves, because a plan of many chunks costs more than an answer.
    """

    next_offset: int
    read_ms: int
    held: list[ChunkRef] = field(default_factory=list)
    asked_offset: int = 0
    planned: tuple[Uuid, int, int] | None = None
    aborted: dict[Uuid, AbortedRanges] = field(default_factory=dict)
    """Aborted transactions of some objects that the next answer crosses, while those of others are read: the cache may let them go."""

    def missing(
        self, remote: RemoteLog, offset: int, first: ChunkRef, *, whole_gets: bool = True
    ) -> Sequence[ChunkRef]:
        """The chunks to ask for when ``first``, which holds ``offset``, is not here.

        That chunk alone, unless the reader reads on and there is room: then all that comes by the same GET.
        """
        if not whole_gets or self.planned is None or self.next_offset != offset:
            return (first,)
        return remote.plan_fetch(offset, 1, whole_groups=True).chunks

    def ahead(
        self, remote: RemoteLog, next_offset: int, wanted_bytes: int, *, whole_gets: bool = True
    ) -> FetchPlan | None:
        """The chunks to fetch beyond the requested ones; None if there is no new one.

        ``wanted_bytes`` are to be had behind ``next_offset``, 0 after a first read or a jump; somewhat more if that
        makes ``whole_gets``.
        """
        if wanted_bytes <= 0:
            self.asked_offset, self.planned = 0, None
            return None
        if next_offset >= remote.remote_end or self._mark(wanted_bytes) == self.planned:
            return None
        plan = remote.plan_fetch(next_offset, wanted_bytes, whole_groups=whole_gets)
        later = tuple(ref for ref in plan.chunks if ref.end_offset > self.asked_offset)
        return FetchPlan(later, plan.missing_table)

    def asked(self, plan: FetchPlan, wanted_bytes: int) -> None:
        """All of ``plan`` is cached or on its way."""
        if plan.chunks:
            self.asked_offset = plan.chunks[-1].end_offset
        if plan.missing_table is None:
            self.planned = self._mark(wanted_bytes)

    def _mark(self, wanted_bytes: int) -> tuple[Uuid, int, int]:
        uuid, number = self.held[-1].id
        return uuid, number // GROUP_COUNT, wanted_bytes
