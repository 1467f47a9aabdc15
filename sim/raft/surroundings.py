"""The world as its nodes and faults see it, and a node as the invariants see it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from sim.raft.disk import Disk
from sim.raft.network import Network
from sim.raft.plan import Plan
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.voter_set import ReplicaKey

__all__ = ["SimulatedNode", "Surroundings"]


class SimulatedNode(Protocol):
    """One node; ``raft`` is None while its process is down."""

    id: int
    is_controller: bool
    disk: Disk
    raft: Raft | None
    key: ReplicaKey
    """The id and the directory of now."""


class Surroundings(Protocol):
    """One run."""

    plan: Plan
    dice: random.Random
    now_ms: int
    faulty: bool
    network: Network
    nodes: dict[int, Any]
    invariants: Any

    @property
    def leader(self) -> Any:
        """The leader of the newest epoch, if it runs."""
        ...

    @property
    def controllers(self) -> list[Any]:
        """The nodes that may become voters."""
        ...

    def schedule(self, delay_ms: int, call: Callable[[], None], /) -> None:
        """Have something happen later."""
        ...

    def note(self, node_id: int, what: str, about: object = None, /) -> None:
        """Put a line into the trace."""
        ...

    def new_directory_id(self) -> bytes:
        """The id of a new disk."""
        ...

    def any_server(self, asking: int, /) -> int:
        """One of the bootstrap servers."""
        ...

    def sync_ms(self) -> int:
        """How long a sync takes."""
        ...

    def dies_between(self) -> bool:
        """Whether a process dies between two actions of a step."""
        ...
