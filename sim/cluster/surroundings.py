"""The part of a run that its members, administrators and faults see."""

from __future__ import annotations

import random
from typing import Any, Protocol

from sim.cluster.plan import Plan
from sim.model import Model
from sim.trace import Trace
from sim.under.bucket import Bucket
from sim.under.loop import VirtualLoop
from sim.under.process import Process
from sim.under.spawner import SimSpawner
from stratalog.metadata.image.image import ClusterImage

__all__ = ["Surroundings"]


class Surroundings(Protocol):
    """One run."""

    plan: Plan
    dice: random.Random
    trace: Trace
    loop: VirtualLoop
    voter_ids: tuple[int, ...]
    members: dict[int, Any]
    facts: Any
    unclean: Any
    """The unclean elections of the run: `sim.cluster.unclean.UncleanElections`."""
    model: Model
    """The knowledge that clients have of the records of replicated topics."""
    cuts: set[tuple[int, int]]
    """Directions (from, to) between nodes in which nothing passes."""
    spawner: SimSpawner
    bucket: Bucket
    """The bucket of all nodes. It is on no machine of the cluster: no power cut and no new disk reaches it."""

    def started(self, member: Any, process: Process, /) -> None:
        """A process of a member begins."""
        ...

    def newest_image(self) -> ClusterImage:
        """The newest image that any node has had."""
        ...

    def heal(self) -> None:
        """Let everything pass."""
        ...
