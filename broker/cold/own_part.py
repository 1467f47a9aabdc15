"""Where the part of an archive ends that is of this cluster's own log, if another cluster owns the archive by now. Pure.

A drill is restored from a bucket whose owner goes on, and a takeover leaves the old cluster running. Each of the two logs goes
on where the archive ended then: below that the archive has what both have, above it the owner's records alone. This cluster's
own ones are on its disks. Where the owner has gone back to a cut, its records begin earlier: its later leader epochs tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stratalog.hot.config import LONG_MAX
from stratalog.hot.log.log import Log
from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.manifests.parts import Claimant

__all__ = ["WHOLE", "OwnPart", "own_part"]


def _unknown(_offset: int) -> None:
    """No leader epoch is known."""


class OwnPart(NamedTuple):
    """``incarnation`` is this cluster's, and ``local_start`` where the first local segment begins: a batch border.

    ``epoch_of`` is the leader epoch that wrote an offset, also below that; None if it is not known.
    """

    incarnation: int
    local_start: Callable[[], int]
    epoch_of: Callable[[int], int | None] = _unknown

    def end_under(self, owner: Claimant, epochs: Sequence[LeaderEpoch] = ()) -> int:
        """Where it ends under a claim of ``owner``, in an archive of these leader epochs.

        Nowhere, unless the claim is one of a later incarnation. The leader epochs of a restored cluster are above all before.
        """
        if owner.incarnation <= self.incarnation:
            return LONG_MAX
        border = self.local_start()
        # A drill may begin on its disk with the very epoch with which the owner goes on. Replicas of an older cluster may differ
        # in where an epoch begins, by what compaction has removed before a copy was made.
        latest = self.epoch_of(border - 1 if self.incarnation < 0 else border)
        if latest is None:
            return border
        return min(border, min((start for epoch, start in epochs if epoch > latest), default=border))


def own_part(incarnation: int, log: Callable[[], Log]) -> OwnPart:
    """That of a cluster's log."""

    def epoch_of(offset: int) -> int | None:
        return log().leader_epochs.epoch_for(offset)

    return OwnPart(incarnation, lambda: log().first_base_offset, epoch_of)


WHOLE: Final = OwnPart(LONG_MAX, lambda: LONG_MAX)
"""That of readers who have no log of their own."""
