"""The things that a node's part in the metadata quorum works with, handed in by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

from msgspec import Struct

from stratalog.broker.quorum.publishing import InSlices, Publisher
from stratalog.broker.quorum.quorum_peers import QuorumPeers
from stratalog.broker.quorum.replica import MetadataReplica
from stratalog.broker.quorum.snapshotting import Snapshotting
from stratalog.broker.runtime.clock import Clock
from stratalog.metadata.quorum.quorum_state import QuorumState
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.timeouts import RaftTimeouts

__all__ = ["QuorumParts"]


class QuorumParts(Struct, frozen=True, kw_only=True):
    """The things that a `Quorum` works with."""

    identity: Identity
    timeouts: RaftTimeouts
    replica: MetadataReplica
    publisher: Publisher
    snapshotting: Snapshotting
    peers: QuorumPeers
    clock: Clock
    dice: random.Random
    view: LogView
    """The log as the start has found it."""
    look: Callable[[], Generator[None, None, LogView]]
    """Reads the log from the disk again, in steps."""
    in_slices: InSlices
    """Carries steps out with turns for others between them."""
    state: Callable[[LogView], QuorumState | None]
    """Reads ``quorum-state`` from the disk."""
    on_failed: Callable[[], None]
    """Called when the node has to end."""
