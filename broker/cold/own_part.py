"""Where the part of an archive ends that is of this cluster's own log, if another cluster owns the archive by now. Pure.

A drill is restored from a bucket whose owner goes on, and a takeover leaves the old cluster running. Each of the two logs goes
on where the archive ended then: below that the archive has what both have, above it the owner's records alone. This cluster's
own ones are on its disks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from stratalog.hot.config import LONG_MAX
from stratalog.tier.manifests.parts import Claimant

__all__ = ["WHOLE", "OwnPart"]


class OwnPart(NamedTuple):
    """``incarnation`` is this cluster's, and ``local_start`` where the first local segment begins: a batch border."""

    incarnation: int
    local_start: Callable[[], int]

    def end_under(self, owner: Claimant) -> int:
        """Where it ends under a claim of ``owner``: nowhere, unless that is one of a later incarnation."""
        return self.local_start() if owner.incarnation > self.incarnation else LONG_MAX


WHOLE: Final = OwnPart(LONG_MAX, lambda: LONG_MAX)
"""That of readers who have no log of their own."""
