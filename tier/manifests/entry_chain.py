"""Chooses, among objects that may overlap, the run of neighbours that an archive can be rebuilt from. Pure.

Two objects that begin at the same offset are two attempts: one that a manifest named comes first, then the one of
the higher leader epoch. That is the committed one, if any is: a leader claims, and so fences all earlier ones,
before it looks where the archive ends.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.wire.topic import Uuid

__all__ = ["Chain", "choose_chain", "ends_of_epochs", "joined_ranges", "without_abandoned"]


class Chain(NamedTuple):
    """``entries`` follow each other; ``left_out`` were not taken; ``gaps`` are ``[start, end)`` that no object holds."""

    entries: tuple[Entry, ...] = ()
    left_out: tuple[Entry, ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def behind(self) -> tuple[Entry, ...]:
        """The entries that lie behind the chain, across a hole, by their bases.

        DeleteRecords and a new beginning of tiering leave such holes, and uploads that were never committed as well:
        objects do not tell these cases apart.
        """
        end = self.entries[-1].end if self.entries else 0
        return tuple(sorted((entry for entry in self.left_out if entry.base >= end), key=lambda one: one.base))


def joined_ranges(entries: Iterable[Entry]) -> tuple[tuple[int, int], ...]:
    """The ranges ``[start, end)`` of ``entries``, which come by their bases; neighbours are one."""
    ranges: list[tuple[int, int]] = []
    for entry in entries:
        if ranges and entry.base <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], entry.end))
        else:
            ranges.append((entry.base, entry.end))
    return tuple(ranges)


def ends_of_epochs(epochs: Iterable[LeaderEpoch]) -> dict[int, float]:
    """Where each leader epoch ends at the latest: at the first offset that is known of a later one."""
    starts: dict[int, int] = {}
    for epoch, start in epochs:
        starts[epoch] = min(start, starts.get(epoch, start))
    ends: dict[int, float] = {}
    end = math.inf
    for epoch in sorted(starts, reverse=True):
        ends[epoch] = end
        end = min(end, starts[epoch])
    return ends


def without_abandoned(candidates: Iterable[Entry]) -> list[Entry]:
    """The entries but those of a history that was left: a leader of a later epoch went on at or below their offsets.

    Leader epochs rise with the offsets of a log. An archive that went back to a cut is gone on with under later ones, and the
    objects behind the cut are still there for a while.
    """
    every = list(candidates)
    stays: set[Uuid] = set()
    begun: list[tuple[int, int]] = []  # epochs of what stays, the latest first, and where they began
    end = math.inf
    for entry in sorted(every, key=lambda one: -one.epochs[-1].epoch if one.epochs else 0):
        if not entry.epochs:
            stays.add(entry.uuid)
            continue
        while begun and -begun[0][0] > entry.epochs[-1].epoch:
            end = min(end, heapq.heappop(begun)[1])
        if entry.end <= end:
            stays.add(entry.uuid)
            for epoch, start in entry.epochs:
                heapq.heappush(begun, (-epoch, start))
    return [entry for entry in every if entry.uuid in stays]


def choose_chain(candidates: Iterable[Entry], trusted: Collection[Uuid] = (), end: int | None = None) -> Chain:
    """The run to go on with: one that reaches ``end`` if there is one, else that with most of what was trusted.

    ``trusted`` are the uuids of entries that a manifest named. Ties go to the run with more records, then to the later.
    """
    every = list(candidates)
    runs = list(_runs(every, trusted))
    if not runs:
        return Chain()

    def worth(run: Sequence[Entry]) -> tuple[bool, int, int, int]:
        reaches = end is not None and run[-1].end >= end
        return reaches, sum(e.uuid in trusted for e in run), sum(e.record_count for e in run), run[-1].end

    best = max(runs, key=worth)
    taken = {entry.uuid for entry in best}
    gaps = tuple((before[-1].end, after[0].base) for before, after in pairwise(runs))
    return Chain(tuple(best), tuple(entry for entry in every if entry.uuid not in taken), gaps)


def _runs(candidates: Sequence[Entry], trusted: Collection[Uuid]) -> Iterator[list[Entry]]:
    """Every run of neighbours, in offset order, each beginning where the one before cannot go on."""
    by_base: dict[int, list[Entry]] = {}
    for entry in candidates:
        by_base.setdefault(entry.base, []).append(entry)
    bases = sorted(by_base)
    number = 0
    while number < len(bases):
        run: list[Entry] = []
        at, epoch = bases[number], -1
        while fitting := [one for one in by_base.get(at, ()) if not one.epochs or one.epochs[0].epoch >= epoch]:
            best = max(fitting, key=lambda one: (one.uuid in trusted, one.epoch, one.end, one.uploaded_ms, one.uuid))
            run.append(best)
            at = best.end
            epoch = best.epochs[-1].epoch if best.epochs else epoch
        yield run
        number = bisect_left(bases, at)
